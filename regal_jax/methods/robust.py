"""Samplers behind ``optimize``: of many schedules the best one, by its makespan or on a target.

gflownet_robust_scheduling, section 2.2: the makespan on a model of the hardware (the proxy) is
cheap but inexact; so a method makes many schedules, and the best of them by the proxy are tried on
the target.
"""

import functools
import math
import os
from pathlib import Path

import numpy as np

from regal_jax import registry
from regal_jax.environments.execution.targets import Target, TargetModel, read_target, simulated
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import samplers, trials
from regal_jax.methods.trials import Tried
from regal_jax.options import Budget, Result
from regal_jax.search.list_scheduling import heuristics
from regal_jax.search.placements import candidates
from regal_jax.search.placements.candidates import Candidates

PAPER = "gflownet_robust_scheduling"
SAMPLES = 1000
"""Schedules drawn by one of these (section 5)."""
WALK = 1_000_000
"""Moves of Metropolis's walk."""
ON_TARGETS = "regal"
"""What "auto" is where schedules are tried on a target."""
TRIALS = 100
"""Of "auto", unless candidates or trials are given."""

AnyTarget = Target | TargetModel | str | os.PathLike
"""A target, a model of one, or the file of a model."""


def run_sampler(problem: PlacementProblem, budget: Budget, *, name: str) -> Result:
    """The sample of least makespan within the memory capacity, of as many as evaluations; where
    none is within it, the one of least excess. Deadlines are not looked at.

    OptionError for another objective.
    """
    found, evaluations = draw(problem, name, budget)
    (best,) = within_capacity(problem, found, 1)
    point = (evaluations, float(np.asarray(problem.fitness(problem.encode(best)[None]))[0]))
    budget.on_progress(*point)
    return Result(best, evaluations, (point,))


_EVALUATIONS = {"price_sweep": samplers.SWEPT, "metropolis": WALK}
_SAMPLERS = {
    "list_sampling": samplers.sample_lists,
    "random_ties": samplers.sample_random_ties,
    "price_sweep": samplers.sample_price_sweep,
    "one_shot": samplers.sample_one_shot,
    "gflownet": samplers.sample_gflownet,
    "ppo": samplers.sample_ppo,
    "metropolis": samplers.sample_metropolis,
}

for _name, _sampler in _SAMPLERS.items():
    _run = functools.partial(run_sampler, name=_name)
    _run.__doc__ = _sampler.__doc__
    registry.method(
        _name,
        evaluations=_EVALUATIONS.get(_name, SAMPLES),
        reads_policy=_name in ("one_shot", "gflownet", "ppo"),
        has_temperature=_name in samplers.TEMPERED,
        decodings=("sample",) if _name == "one_shot" else (),
        learned=_name in ("one_shot", "gflownet", "ppo"),
        paper=PAPER if _name in ("gflownet", "ppo") else "",
    )(_run)


def best_on_target(problem: PlacementProblem, name: str, budget: Budget, target: Target) -> Result:
    """Of a sampler's schedules the one that takes least on the target.

    With the option candidates so many are tried, the best by makespan; else, with trials, some of
    them, and then what these tell to be better (``trials``). Of equal ones on the target the first
    is taken. Progress is told in trials and us on the target.
    The schedule's costs, its bound and its history (one point) are those of the problem, the proxy.
    Evaluations don't count trials on the target. See ``within_capacity`` on memory.

    Raises:
      OptionError: for another objective, an unsuitable budget, or a target's time that isn't a
        finite number >= 0.
    """
    options = budget.options
    count = options.candidates or options.trials or samplers.CANDIDATES
    silent = budget if options.trials is None else budget._replace(on_progress=_silent)
    found, evaluations = draw(problem, name, silent)
    ranked = within_capacity(problem, found, count)
    time_of = functools.partial(_time, target)
    if options.trials is None:
        tried = [Tried(schedule, time_of(schedule)) for schedule in ranked]
    else:
        asked = count, budget.seed, budget.on_progress, budget.deadline
        tried = trials.run(problem, ranked, time_of, *asked)
    best, time = min(tried, key=lambda one: one.time)
    history = ((evaluations, best.makespan),)
    return Result(best.replace(target_time=time), evaluations, history)


def draw(problem: PlacementProblem, name: str, budget: Budget) -> tuple[Candidates, int]:
    """A sampler's schedules, and how many evaluations they cost: one each, or a search's.

    Raises OptionError for another objective than the makespan, or what the sampler can't do.
    """
    if problem.objective != "makespan":
        raise OptionError(f"{name} is for the objective makespan, not {problem.objective}")
    if name == "one_shot" and budget.options.decoding not in (None, "sample"):
        raise OptionError(
            f"one_shot on identical devices is decoded by sample: {budget.options.decoding!r}"
        )
    budget.check()
    if problem.graph.num_ops == 0:  # policies can't be asked
        return Candidates(np.zeros((1, 0), np.int32), np.zeros((1, 0), np.int32)), 1
    spent = []

    def on_progress(evaluations: int, cost: float) -> None:
        spent.append(evaluations)
        budget.on_progress(evaluations, cost)

    found = registry.find("sampler", name).make(problem, budget._replace(on_progress=on_progress))
    return found, spent[-1] if spent else len(found.sequence)  # samplers that search report


def within_capacity(problem: PlacementProblem, found: Candidates, count: int) -> list[Schedule]:
    """The best ``count`` schedules by makespan, without those beyond the memory capacity; if all
    are, the one that exceeds it by the fewest bytes, as other methods return it.

    Of schedules that differ in the names of devices alone, only the first is looked at.
    """
    asked = count
    while True:
        best = candidates.best_schedules(problem, found, asked)
        fitting = [schedule for schedule in best if problem.fits(schedule)]
        if len(fitting) >= count or len(best) < asked:
            return fitting[:count] or [min(best, key=lambda one: _excess(problem, one))]
        asked *= 4


def list_schedule(problem: PlacementProblem) -> Schedule:
    """What to hold a schedule on a target against: list scheduling by critical path."""
    schedule = heuristics.critical_path(problem.graph, problem.platform)
    return problem.costed(schedule).replace(method="critical_path")


def as_target(graph: ComputationGraph, target: AnyTarget) -> Target:
    """A function schedule -> us. Raises OptionError for what can't be one, or a bad file."""
    if isinstance(target, str | os.PathLike):
        target = read_target(Path(target))
    if isinstance(target, TargetModel):
        return simulated(graph, target)
    if not callable(target):
        raise OptionError(
            f"target must be a function of a schedule, a TargetModel or a file, got {target!r}"
        )
    return target


def _time(target: Target, schedule: Schedule) -> float:
    told = target(schedule)
    try:
        time = float(told)
    except (TypeError, ValueError):
        raise OptionError(f"the target must return a time in us, got {told!r}") from None
    if not 0 <= time < math.inf:
        raise OptionError(f"the target says that a schedule takes {time} us")
    return time


def _silent(evaluations: int, cost: float) -> None:
    """Tells nobody."""


def _excess(problem: PlacementProblem, schedule: Schedule) -> float:
    """Bytes beyond the memory capacity, summed over devices."""
    excess = np.array(schedule.peak_memory) - problem.platform.capacities()
    return float(np.maximum(excess, 0).sum())
