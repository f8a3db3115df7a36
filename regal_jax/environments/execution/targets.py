"""Target models: hardware that differs from the proxy, and what a schedule takes on it.

Zhang et al. 2023, "Robust Scheduling with GFlowNets", section 5.1: durations that were profiled
incorrectly, and transfers between devices under the linear memory model f(m) = a m + b of appendix
E.3. The paper gives no numbers; ``experiments/targets`` has ours.
"""

import dataclasses
import math
import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from regal_jax import shipped
from regal_jax.environments.execution import links
from regal_jax.environments.placement import checker
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError, RegalError
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph

Links = Literal["many", "shared", "blocking"]

Target = Callable[[Schedule], float]
"""schedule -> us that it takes on the target."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TargetModel:
    """What a target does differently from the proxy; by default nothing.

    All may be combined. Shares suit any graph: they count in mean durations of its ops.

    Attributes:
      name: what to call it.
      latency: b, us added to every tensor that crosses devices.
      per_byte: a, us per byte added to it.
      latency_share: more latency, in units of the graph's mean duration.
      per_byte_share: more time per byte, so that a tensor of the mean size of those that ops
        exchange (control tensors, of size 0, left out) takes so many mean durations.
      links: "many" (transfers don't wait for each other), "shared" (a device sends one tensor after
        another) or "blocking" (and begins its next op when it has), see ``links``.
      noise: relative standard deviation of an op's real duration around the profiled one.
      seed: of the noise.
      straggler: so much longer, relatively, ops take on device 0.

    Raises:
      OptionError: naming the attribute, for one of a wrong type, negative or not finite.
    """

    name: str = ""
    latency: float = 0.0
    per_byte: float = 0.0
    latency_share: float = 0.0
    per_byte_share: float = 0.0
    links: Links = "many"
    noise: float = 0.0
    seed: int = 0
    straggler: float = 0.0

    def __post_init__(self):
        for field in dataclasses.fields(self):
            _check(field.name, field.name, getattr(self, field.name))


def simulated(graph: ComputationGraph, model: TargetModel) -> Target:
    """What schedules of a graph take on a target, us.

    The target keeps the placement and the order of every device; each op starts as soon as its
    device is free and its inputs are there (eq. 2), with the target's durations and transfers. It
    raises ScheduleError for a schedule that is not a valid one of the graph.
    """
    duration = graph.duration * noise_factors(model, graph.num_ops)
    latency, per_byte = transfer_times(graph, model)

    def target(schedule: Schedule) -> float:
        platform = Platform(schedule.num_devices, latency=latency, per_byte=per_byte)
        real = graph.replace(duration=_on_devices(duration, schedule, model))
        cost = checker.evaluate(real, schedule, platform)
        if model.links == "many":
            return cost.makespan
        return links.makespan(real, schedule, platform, blocking=model.links == "blocking")

    return target


def _on_devices(duration: np.ndarray, schedule: Schedule, model: TargetModel) -> np.ndarray:
    """float64[O], us: what ops take where they are placed."""
    if not model.straggler or len(schedule.placement) != len(duration):
        return duration  # of the latter the checker says what is wrong
    return duration * np.where(schedule.placement == 0, 1.0 + model.straggler, 1.0)


def noise_factors(model: TargetModel, num_ops: int) -> np.ndarray:
    """float64[O]: real over profiled duration of each op, fixed by (seed, op).

    Log-normal with mean 1 and the model's standard deviation. The paper gives no distribution; this
    one keeps durations positive and, on average, what was profiled.
    """
    variance = 2 * math.log(math.hypot(1, model.noise))  # of the logarithm: log(1 + deviation^2)
    normal = np.random.default_rng(model.seed).standard_normal(num_ops)
    return np.exp(math.sqrt(variance) * normal - variance / 2)


def transfer_times(graph: ComputationGraph, model: TargetModel) -> tuple[float, float]:
    """(us, us per byte) of each tensor of the graph that crosses devices on the target."""
    duration, size = _means(graph)
    latency = model.latency + model.latency_share * duration
    return latency, model.per_byte + model.per_byte_share * duration / size


def _means(graph: ComputationGraph) -> tuple[float, float]:
    """us an op, 0 without any; bytes of the tensors that ops exchange, infinite without any."""
    duration = float(graph.duration.mean()) if graph.num_ops else 0.0
    exchanged = graph.size[np.unique(graph.edges[:, 1])]
    return duration, float(exchanged[exchanged > 0].mean()) if exchanged.any() else math.inf


def read_target(path: str | os.PathLike) -> TargetModel:
    """Reads a target model from a TOML file, or the one of that name which comes with the package
    (``experiments/targets``: latency, bandwidth, noisy, ...); what a file leaves out is 0.

        name = "latency limited"  # the file's name by default
        [transfers]
        latency_share = 2.0       # or latency, per_byte, per_byte_share
        links = "shared"          # or many, blocking
        [noise]
        deviation = 0.3
        seed = 0
        [devices]
        straggler = 0.5

    Raises:
      OptionError: naming file and field, for a missing or malformed file, a key that is not known,
        and a value of a wrong type, negative or not finite.
    """
    path = shipped.targets().get(str(path), Path(path))
    try:
        text = files.read_text(path)
    except RegalError as error:  # names the file
        raise OptionError(str(error)) from None
    try:
        return TargetModel(**{"name": path.stem, **_attributes(_parsed(text))})
    except OptionError as error:
        raise OptionError(f"{path}, {error}") from None


_TABLES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "transfers": {
            key: key for key in ("latency", "per_byte", "latency_share", "per_byte_share", "links")
        },
        "devices": {"straggler": "straggler"},
        "noise": {"deviation": "noise", "seed": "seed"},
    }
)
"""The attribute of each key of a file's tables."""


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also too many digits
        raise OptionError(f"is not valid TOML: {error}") from None


def _attributes(document: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a target model that a file gives, checked under their names there."""
    if not any(table in document for table in _TABLES):
        raise OptionError(f"needs a table: {' or '.join(f'[{table}]' for table in _TABLES)}")
    attributes = {}
    for key, content in document.items():
        if key == "name":
            _check("name", key, content)
            attributes["name"] = content
        elif key in _TABLES:
            attributes |= _table(key, content)
        else:
            raise OptionError(f"{key}: is none of name, {', '.join(_TABLES)}")
    return attributes


def _table(table: str, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise OptionError(f"{table}: must be a table, [{table}]")
    known = _TABLES[table]
    for key, value in content.items():
        if key not in known:
            raise OptionError(f"{table}.{key}: is none of {', '.join(known)}")
        _check(known[key], f"{table}.{key}", value)
    return {known[key]: value for key, value in content.items()}


def _check(attribute: str, label: str, value: Any) -> None:
    """Raises OptionError, with the label, for a value that the attribute can't have."""
    if attribute == "name":
        if not isinstance(value, str):
            raise OptionError(f"{label}: must be a string, got {value!r}")
    elif attribute == "links":
        if value not in get_args(Links):
            raise OptionError(f"{label}: must be one of {', '.join(get_args(Links))}: {value!r}")
    elif attribute == "seed":
        if type(value) is not int or value < 0:
            raise OptionError(f"{label}: must be an integer >= 0, got {value!r}")
    elif type(value) not in (int, float) or not 0 <= value <= sys.float_info.max:
        raise OptionError(f"{label}: must be a finite number >= 0, got {value!r}")
