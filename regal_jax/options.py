"""What is asked of a method, what it may spend, and what it returns: one type each, for all."""

import dataclasses
import math
import os
import re
import time
from collections.abc import Callable, Collection
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np

from regal_jax.environments.schedule import Generation, Objective, Schedule, check_objective
from regal_jax.errors import OptionError

Decoding = Literal["greedy", "sample", "beam", "guided", "brkga"]
History = tuple[tuple[int, float], ...]
"""(evaluations, best cost so far) pairs, oldest first."""
OnProgress = Callable[[int, float], None]
"""Called with (evaluations so far, best cost so far)."""


MOST_EVALUATIONS = 2**53
"""Fewer than are exact in float64."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What ``optimize`` is asked for; the command line has a flag for each.

    A graph with ``capacity`` is scheduled on its machine types if the objective is the makespan
    (``MachineProblem``), all other problems place ops on identical devices (``PlacementProblem``).

    Attributes:
      objective: "peak_memory" (bytes of the fullest device) or "makespan" (us).
      num_devices: D, 2 unless given. For graphs with capacity the number of machine types.
      method: a registered name (``regal-jax schedule --help``, ``registry.names("method")``), or a
        function (problem, Budget) -> Result. "auto" (the same as "portfolio") improves on the best
        of the cheap orders and placements, or rules, so it is never worse than these;
        "regal_paper", "brkga" and the other published ones begin from nothing. With a target,
        "auto" is "regal" with 100 trials.
      evaluations: budget, in calls of the cost on one chromosome, or on one move from a schedule;
        None is the method's own: 5000 but for "auto", "portfolio" and samplers (1000 samples).
      seed: same seed, same schedule (on the same platform).
      memory_capacity: bytes per device; schedules within it always beat others.
      latency, per_byte: us, of a tensor that crosses devices.
      policy: file of a trained policy, instead of the shipped one, for methods that read one.
      time_limit: seconds after which a search ends with the best so far; it is looked at every few
        generations, and by samplers that don't search not at all. With a limit the result depends
        on the machine's speed.
      decoding: of "topoformer": "greedy" (one order), "sample" (the best of as many as
        evaluations), "beam" search of that width, or "guided" (its default): from the beam of 16
        on, dynamic programmes of that width below the best peak, in which the policy breaks ties.
        Of "one_shot" and "noisy_rule": "greedy", "sample" (their default), or "brkga", that begins
        with samples.
      generation: how priorities become a schedule on machine types, see ``MachineProblem``;
        "parallel" unless given, for "one_shot" that of its policy. ("auto", "justification", "tabu"
        and "cp_sat" have their own.)
      temperature: of "gflownet", "ppo" and "list_sampling", how much samples differ; positive. None
        is the method's own.
      target: what schedules really take: a function schedule -> us (``simulated``, ``measured``, or
        any other), a ``TargetModel``, or the path of its TOML file. A sampler then tries its best
        schedules by makespan on it, best first, and returns the one that takes least there, with
        ``target_time``; its other costs and its bound are those of this problem.
      candidates: how many are tried on the target, 100 unless given. Those beyond the memory
        capacity are left out, unless all are.
      trials: so many are tried instead, one after another: some of the sampler's, then what a model
        of the machine, fitted to what those before took, says is better (``methods.trials``).

    Raises:
      OptionError: for a value out of range.
    """

    objective: Annotated[Objective, "what is minimised"] = "peak_memory"
    num_devices: Annotated[int | None, "2, or the number of machine types"] = None
    method: Annotated[str | Callable, "name of a method"] = "auto"
    evaluations: Annotated[int | None, "budget (auto: a million, samplers: 1000, else 5000)"] = None
    seed: Annotated[int, "of everything random"] = 0
    memory_capacity: Annotated[int | tuple[int, ...] | None, "bytes per device"] = None
    latency: Annotated[float, "us per transfer"] = 0.0
    per_byte: Annotated[float, "us per byte transferred"] = 0.0
    policy: Annotated[str | os.PathLike | None, "file of a trained policy"] = None
    time_limit: Annotated[float | None, "seconds, then the best so far"] = None
    decoding: Annotated[
        Decoding | None,
        "of topoformer: greedy, sample, beam, guided; of one_shot, noisy_rule: greedy, sample,"
        " brkga; of next_op, lookahead, sequencing, giffler_thompson: greedy, sample",
    ] = None
    generation: Annotated[Generation | None, "of schedules from priorities, on machine types"] = (
        None
    )
    temperature: Annotated[float | None, "of the samples of gflownet, ppo, list_sampling"] = None
    target: Annotated[
        Any,
        "target model, on which a sampler's best schedules are tried: a .toml file, or the name"
        " of a shipped one, such as latency",
    ] = None
    candidates: Annotated[int | None, "schedules tried on the target (100)"] = None
    trials: Annotated[int | None, "trials on the target, each learning from those before"] = None

    def __post_init__(self):
        check_objective(self.objective)
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise OptionError(f"seed must be an integer in 0..2**63 - 1, got {self.seed!r}")
        if not isinstance(self.evaluations, int | np.integer | None):
            raise OptionError(f"evaluations must be an integer, got {self.evaluations!r}")
        if self.evaluations is not None and not self.evaluations <= MOST_EVALUATIONS:
            raise OptionError(f"evaluations must be at most 2**53, got {self.evaluations!r}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise OptionError(
                f"time_limit must be a positive number of seconds, got {self.time_limit}"
            )
        if self.decoding is not None and self.decoding not in get_args(Decoding):
            names = ", ".join(get_args(Decoding))
            raise OptionError(f"decoding must be one of {names}: {self.decoding!r}")

    def decoded_by(self, known: Collection[str], default: str, *, name: str) -> str:
        """The decoding of a method that knows some: the one asked for, or its default. Raises
        OptionError, of ``name``, for one that it doesn't know."""
        decoding = self.decoding or default
        if decoding not in known:
            raise OptionError(f"{name} is decoded by {', '.join(known)}, not by {decoding}")
        return decoding


class Budget(NamedTuple):
    """What a method may spend, and what it was asked for.

    Attributes:
      evaluations: calls of the cost on a chromosome.
      seed: of everything random.
      deadline: ``time.perf_counter()`` from which on no new work is begun, in seconds. Searches
        look at it every few generations, and return the best so far.
      options: what else methods read: policy, decoding, generation, temperature, candidates.
      on_progress: see OnProgress.
    """

    evaluations: int
    seed: int = 0
    deadline: float = math.inf
    options: Options = Options()
    on_progress: OnProgress = lambda evaluations, cost: None

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.perf_counter()

    @property
    def out_of_time(self) -> bool:
        return self.seconds_left <= 0.0

    def after(self, spent: "Result") -> "Budget":
        """What a search leaves of the budget, reporting progress on top of it."""
        return self._replace(
            evaluations=self.evaluations - spent.evaluations,
            on_progress=lambda done, cost: self.on_progress(
                spent.evaluations + done, min(cost, spent.cost)
            ),
        )

    def check(self) -> None:
        """Raises OptionError for a budget without any evaluation."""
        if self.evaluations < 1:
            raise OptionError(f"evaluations must be at least 1, got {self.evaluations}")


def check_temperature(temperature: float) -> None:
    """Raises OptionError for what isn't a positive number."""
    if not 0 < temperature < np.inf:
        raise OptionError(f"temperature must be a positive number, got {temperature}")


def byte_count(value: int | str) -> int:
    """Bytes, of a number with or without a unit: 2GiB, 1.5MiB, 500MB, 4096. OptionError."""
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?) ?(?:([KMGT]?)(i?)B)?", str(value))
    if not found:
        raise OptionError(f"{value!r} is not bytes, such as 2GiB, 500MB or 4096")
    number, prefix, binary = found.groups()
    exponent = " KMGT".index(prefix or " ")
    if "." in number and exponent == 0:
        raise OptionError(f"{value!r} is a part of a byte")
    return round(Fraction(number) * (1024 if binary else 1000) ** exponent)


def some_seconds(num_ops: int, options: Options, *, evaluations: int) -> int:
    """A method's own budget: so many, less for graphs of thousands of ops; with a time limit, as
    many as fit in."""
    most = 10**9 if options.time_limit is not None else evaluations
    return max(5000, min(most, most * 1000 // max(num_ops, 1)))


def one_or_samples(num_ops: int, options: Options, *, samples: int) -> int:
    """The budget of a sampler: one greedy schedule, or so many samples."""
    return 1 if options.decoding == "greedy" else samples


class Result(NamedTuple):
    """The best schedule of a search.

    Attributes:
      schedule: with its exact costs.
      evaluations: spent.
      history: best cost so far by evaluations; the last entry is the schedule's, bytes or us (more
        than any schedule within the memory capacity can cost, if it exceeds that).
      lower_bound: a bound that the method proved, bytes or us; 0 if it proves none.
      population: float32[P, genes], the last chromosomes of a search that has some.
    """

    schedule: Schedule
    evaluations: int
    history: History
    lower_bound: float = 0.0
    population: np.ndarray | None = None

    @property
    def cost(self) -> float:
        return self.history[-1][1]


def best_of(first: Result, second: Result) -> Result:
    """Two searches one after the other as one: the best of both; the second's population."""
    later = tuple(
        (first.evaluations + spent, min(cost, first.cost)) for spent, cost in second.history
    )
    return Result(
        second.schedule if second.cost < first.cost else first.schedule,
        first.evaluations + second.evaluations,
        first.history + later,
        max(first.lower_bound, second.lower_bound),
        second.population,
    )
