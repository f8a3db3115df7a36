"""Methods that ask a policy for their distributions: REGAL, GAS and IDRS."""

import functools
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.features.placement import pinned_op
from regal_jax.methods import evolution
from regal_jax.methods.base import Budget, Found, best_of
from regal_jax.methods.evolution import Evolution
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.search.evolution import brkga
from regal_jax.search.evolution.brkga import BRKGAConfig
from regal_jax.training import checkpoints
from regal_jax.training.regal_examples import feature_search


def run_regal(problem: PlacementProblem, budget: Budget) -> Found:
    """REGAL as published: 400 evaluations for features, the rest steered by the policy.

    The shipped policies have more features than the paper's (``features.policy_inputs``), and race
    against the features' search (``RegalConfig.race``); all evaluations are counted.
    """
    return evolve_population(problem, budget, "regal").found


def run_gas(problem: PlacementProblem, budget: Budget) -> Found:
    """The graph-as-sequence model (4.2): REGAL with an LSTM over the ops as its encoder."""
    return evolve_population(problem, budget, "gas").found


def run_idrs(problem: PlacementProblem, budget: Budget) -> Found:
    """Instance-dependent random search (workshop paper, 3.2): REGAL's policy, but its
    distributions are only sampled from."""
    guided = _guided(problem, budget, "regal", least=1)
    return best_of(guided.start, evolution.sample(problem, **guided.search))


def load_policy(
    problem: PlacementProblem, path: str | Path | None, system: str = "regal"
) -> tuple[Any, RegalConfig]:
    """The given policy, or the shipped one; OptionError if it is not for this kind of problem."""
    kind = "one_device" if problem.num_devices == 1 else problem.objective
    path = path or shipped_policy(kind, system)
    params, config, about = checkpoints.load_policy(path, RegalConfig)
    if config.num_devices != problem.num_devices:
        raise OptionError(
            f"the policy {Path(path).name} is for {config.num_devices} devices, not"
            f" {problem.num_devices}; train one with experiments/regal_memory.py --num_devices"
        )
    trained_for = about.get("objective", problem.objective)
    if trained_for != problem.objective:
        raise OptionError(f"the policy {Path(path).name} is for the objective {trained_for}")
    if (config.encoder == "sequence") != (system == "gas"):
        raise OptionError(f"the policy {Path(path).name} is not one of {system}")
    return params, config


def shipped_policy(kind: str, system: str = "regal") -> Path:
    """Where the package keeps a policy for an objective, or a kind of problem.

    Raises OptionError if there is none.
    """
    path = policy_file(kind, system)
    if not path.exists():
        raise OptionError(f"no {system} policy is shipped for {kind}; give one with --policy")
    return path


def policy_file(kind: str, system: str) -> Path:
    """Where the package keeps such a policy, if it has one."""
    return Path(__file__).parents[1] / "pretrained" / f"{system}_{kind}.policy"


def evolve_population(
    problem: PlacementProblem, budget: Budget, system: str, config: BRKGAConfig | None = None
) -> Evolution:
    """The search that a policy of "regal" or "gas" steers; or, if that lost the race against the
    features' search, also that one, whose last population it then is.

    Raises OptionError for a policy that doesn't fit, or a budget too small for both searches.
    """
    config = config or BRKGAConfig()
    guided = _guided(problem, budget, system, least=config.initial)
    to_beat = guided.start.cost if guided.race else math.inf
    steered = evolution.evolve_population(problem, **guided.search, config=config, to_beat=to_beat)
    both = best_of(guided.start, steered.found)
    left = budget.after(both)
    if steered.found.cost <= to_beat or left.evaluations < config.initial or left.out_of_time:
        return Evolution(both, steered.population)
    key = jax.random.fold_in(guided.search["key"], 1)
    uniform = evolution.evolve_population(
        problem, left, key, config=config, population=guided.population
    )
    return Evolution(best_of(both, uniform.found), uniform.population)


class _Guided(NamedTuple):
    """The features' search and its last population, the arguments of the search that the policy
    steers, and whether the two race."""

    start: Found
    population: Any
    search: dict[str, Any]
    race: bool


def _guided(problem: PlacementProblem, budget: Budget, system: str, *, least: int) -> _Guided:
    params, config = load_policy(problem, budget.policy, system)
    first = config.evaluations_before
    if budget.evaluations < first + least:
        raise OptionError(
            f"{system} needs at least {first + least} evaluations ({first} for its features and a"
            f" population), got {budget.evaluations}"
        )
    padded = problem.padded()
    feature_key, search_key = jax.random.split(jax.random.key(budget.seed))
    inputs, best, cost, history, population = feature_search(
        feature_key, padded, config, padded.operand(), pinned_op(problem.graph)
    )
    points = brkga.history_evaluations(config.feature_evaluations)
    start = evolution.found(problem, padded, best, points, np.asarray(history))
    if first > start.evaluations:
        start = start._replace(evaluations=first, history=(*start.history, (first, start.cost)))
    budget.on_progress(first, float(cost))
    actions = _actions(params, inputs, config)
    search = {
        "budget": budget.after(start),
        "key": search_key,
        "distribution": evolution.Distribution(regal=config),
        "learned": evolution.Learned(actions, inputs.pinned, inputs.producer),
    }
    return _Guided(start, population, search, config.race)


@functools.partial(jax.jit, static_argnames="config")
def _actions(params, inputs, config: RegalConfig):
    """int32[O, A]: the policy's most likely actions."""
    return config.policy.mode(params, inputs)
