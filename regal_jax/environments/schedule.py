"""What a schedule is, and its file: ``regal-schedule/1``."""

import dataclasses
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from regal_jax.errors import OptionError, ScheduleError
from regal_jax.graphs import files

FORMAT = "regal-schedule/1"

Objective = Literal["peak_memory", "makespan"]

Generation = Literal["backwards", "parallel", "serial"]
"""How priorities become a schedule on machine types; see ``MachineProblem``."""


def check_objective(objective: str) -> None:
    """Raises OptionError for a name that is not an objective."""
    if objective not in get_args(Objective):
        names = " or ".join(get_args(Objective))
        raise OptionError(f"objective must be {names}, got {objective!r}")


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Schedule:
    """A placement and an order of steps, with what is known of its cost and origin.

    A step is an index: op i is ``i``; the transfer of tensor t to device d is ``O + t * D + d``.

    Attributes:
      graph: the name of the graph.
      objective: the cost it was made for.
      num_devices: D.
      placement: int32[O], device per op.
      steps: int64[S], in execution order.
      start: float64[O] start times [us], or None.
      peak_memory: bytes per device.
      makespan: us.
      method, evaluations, seed: how it was found.
      seconds: that the search took, without compilation. compile_seconds: of compilation, besides.
      history: (evaluations, best cost so far) pairs, oldest first.
      lower_bound: a proven lower bound of the objective, or None.
      target_time: us that it takes on the target it was chosen for, or None.
    """

    graph: str
    objective: Objective
    num_devices: int
    placement: np.ndarray
    steps: np.ndarray
    start: np.ndarray | None = None
    peak_memory: tuple[int, ...] = ()
    makespan: float = 0.0
    method: str = ""
    evaluations: int = 0
    seed: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0
    history: tuple[tuple[int, float], ...] = ()
    lower_bound: float | None = None
    target_time: float | None = None

    @property
    def cost(self) -> float:
        """The value of the objective: bytes of the fullest device, or us."""
        return self.makespan if self.objective == "makespan" else max(self.peak_memory, default=0)

    @property
    def gap(self) -> float | None:
        """cost / lower bound - 1: how far from proven optimal at most; None without a bound."""
        if self.lower_bound is None:
            return None
        return self.cost / self.lower_bound - 1.0 if self.lower_bound else float(self.cost > 0)

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no schedule costs less."""
        return self.lower_bound is not None and self.cost <= self.lower_bound

    def expected_gain(self, evaluations: int) -> float:
        """What going on to so many evaluations may be expected to save, bytes or us; see
        ``expected_gain``. No more than there is above the lower bound."""
        return min(expected_gain(self.history, evaluations), self.cost - (self.lower_bound or 0.0))

    @property
    def runs_again(self) -> bool:
        """Whether a step is repeated: an op that runs again (``recompute.checker``)."""
        return len(np.unique(self.steps)) < len(self.steps)

    def check_runs_once(self, what: str) -> None:
        """Raises OptionError for ``what``, which isn't for schedules in which ops run again."""
        if self.runs_again:
            raise OptionError(f"{what} is for schedules in which each op runs once")

    def ops_in_order(self) -> np.ndarray:
        """int64[O]: the ops in execution order, transfers left out; each where it runs first."""
        ops = self.steps[self.steps < len(self.placement)]
        return ops[np.sort(np.unique(ops, return_index=True)[1])]

    def replace(self, **changes: Any) -> "Schedule":
        return dataclasses.replace(self, **changes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and schedule_to_json(self) == schedule_to_json(other)

    __hash__ = None  # type: ignore[assignment]


def expected_gain(history: Sequence[tuple[int, float]], evaluations: int) -> float:
    """What a search may be expected to save by going on to so many evaluations, in the unit of its
    costs: what it gained since half of them, for each doubling that is left.

    Searches gain about as much each time their evaluations double, or less; but what takes a lucky
    step isn't foreseen. Infinite where nothing is known of the first half, 0 for no history.
    """
    spent, cost = history[-1] if history else (evaluations, 0.0)
    if evaluations <= spent:
        return 0.0
    before = next((then for done, then in reversed(history) if 2 * done <= spent), math.inf)
    return (before - cost) * math.log2(evaluations / spent)


def schedule_to_json(schedule: Schedule) -> dict[str, Any]:
    """The ``regal-schedule/1`` object of a schedule."""
    num_ops, num_devices = len(schedule.placement), schedule.num_devices
    document: dict[str, Any] = {
        "format": FORMAT,
        "graph": schedule.graph,
        "objective": schedule.objective,
        "num_devices": num_devices,
        "placement": schedule.placement.tolist(),
        "steps": [_step_to_json(s, num_ops, num_devices) for s in schedule.steps.tolist()],
        "peak_memory": list(schedule.peak_memory),
        "makespan": schedule.makespan,
    }
    if schedule.start is not None:
        document["start"] = schedule.start.tolist()
    for key in ("method", "evaluations", "seed", "seconds", "compile_seconds", "lower_bound"):
        document[key] = getattr(schedule, key)
    document["history"] = [list(point) for point in schedule.history]
    if schedule.target_time is not None:
        document["target_time"] = schedule.target_time
    return document


def schedule_from_json(document: Any) -> Schedule:
    """A schedule from a parsed object; its numbers are claims until checked. ScheduleError."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise ScheduleError(f"format: is {found!r}, expected {FORMAT!r}")
    try:
        check_objective(document["objective"])
        num_devices = _integer("num_devices", document["num_devices"])
        if num_devices < 1:
            raise ScheduleError(f"num_devices: must be at least 1, got {num_devices}")
        placement = _integers("placement", document["placement"])
        steps = [
            _step_index(i, s, len(placement), num_devices) for i, s in enumerate(document["steps"])
        ]
        return Schedule(
            graph=_string("graph", document["graph"]),
            objective=document["objective"],
            num_devices=num_devices,
            placement=np.array(placement, np.int32),
            steps=np.array(steps, np.int64),
            **_claims(document, len(placement)),
        )
    except KeyError as error:
        raise ScheduleError(f"{error.args[0]}: is required") from None
    except OptionError as error:
        raise ScheduleError(str(error)) from None
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ScheduleError):
            raise
        raise ScheduleError(f"a field has the wrong type ({error})") from None


def load_schedule(path: str | os.PathLike) -> Schedule:
    """Reads a schedule file. Raises ScheduleError or RegalError naming the file and field."""
    path = Path(path)
    document = files.parse_json(str(path), files.read_text(path))
    try:
        return schedule_from_json(document)
    except ScheduleError as error:
        raise ScheduleError(f"{path}, {error}") from None


def save_schedule(schedule: Schedule, path: str | os.PathLike) -> None:
    """Writes a schedule file, atomically."""
    data = (json.dumps(schedule_to_json(schedule)) + "\n").encode()
    files.write_atomically(path, lambda file: file.write(data))


def _step_to_json(step: int, num_ops: int, num_devices: int) -> dict[str, int]:
    if step < num_ops:
        return {"op": step}
    tensor, device = divmod(step - num_ops, num_devices)
    return {"transfer": tensor, "to": device}


def _step_index(position: int, step: Any, num_ops: int, num_devices: int) -> int:
    if isinstance(step, dict) and set(step) == {"op"}:
        op = _integer(f"steps[{position}].op", step["op"])
        if not 0 <= op < num_ops:
            raise ScheduleError(f"steps[{position}].op: {op} is not one of the {num_ops} ops")
        return op
    if isinstance(step, dict) and set(step) == {"transfer", "to"}:
        tensor = _integer(f"steps[{position}].transfer", step["transfer"])
        device = _integer(f"steps[{position}].to", step["to"])
        if tensor < 0 or not 0 <= device < num_devices:
            raise ScheduleError(f"steps[{position}]: no such tensor or device ({step})")
        return num_ops + tensor * num_devices + device
    raise ScheduleError(f"steps[{position}]: expected an op or a transfer, got {step!r}")


def _claims(document: dict[str, Any], num_ops: int) -> dict[str, Any]:
    """The optional fields: costs, and how the schedule was found."""
    start = document.get("start")
    if start is not None:
        start = np.array([_number("start", value) for value in start], np.float64)
        if len(start) != num_ops:
            raise ScheduleError(f"start: has {len(start)} entries for {num_ops} ops")
    return {
        "start": start,
        "peak_memory": tuple(_integers("peak_memory", document.get("peak_memory", []))),
        "makespan": float(_number("makespan", document.get("makespan", 0.0))),
        "method": _string("method", document.get("method", "")),
        "evaluations": _integer("evaluations", document.get("evaluations", 0)),
        "seed": _integer("seed", document.get("seed", 0)),
        **{key: _number(key, document.get(key, 0.0)) for key in ("seconds", "compile_seconds")},
        "history": tuple(
            (_integer("history", spent), float(_number("history", cost)))
            for spent, cost in document.get("history", ())
        ),
        **{key: _optional_number(key, document) for key in ("lower_bound", "target_time")},
    }


def _string(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ScheduleError(f"{field}: must be a string, got {value!r}")
    return value


def _number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ScheduleError(f"{field}: must be a finite number, got {value!r}")
    return value


def _optional_number(field: str, document: dict[str, Any]) -> float | None:
    value = document.get(field)
    return None if value is None else _number(field, value)


def _integer(field: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ScheduleError(f"{field}: must be an integer, got {value!r}")
    return value


def _integers(field: str, values: Sequence[Any]) -> list[int]:
    return [_integer(field, value) for value in values]
