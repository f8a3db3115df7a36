"""Methods that ask a policy for their distributions: REGAL, GAS and IDRS."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from regal_jax.environments.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.features import pinned_op
from regal_jax.methods import evolution
from regal_jax.methods.base import Budget, Found, best_of
from regal_jax.policies.regal import RegalConfig
from regal_jax.search import brkga
from regal_jax.search.brkga import BRKGAConfig
from regal_jax.training import checkpoints
from regal_jax.training.examples import feature_search


def run_regal(problem: PlacementProblem, budget: Budget) -> Found:
    """REGAL as published: 400 evaluations for features, the rest steered by the policy.

    The shipped policies have more features than the paper's (``features.policy_inputs``); their
    evaluations are counted, too.
    """
    guided = _guided(problem, budget, "regal", least=BRKGAConfig().initial)
    return best_of(guided.start, evolution.evolve(problem, **guided.search))


def run_gas(problem: PlacementProblem, budget: Budget) -> Found:
    """The graph-as-sequence model (4.2): REGAL with an LSTM over the ops as its encoder."""
    guided = _guided(problem, budget, "gas", least=BRKGAConfig().initial)
    return best_of(guided.start, evolution.evolve(problem, **guided.search))


def run_idrs(problem: PlacementProblem, budget: Budget) -> Found:
    """Instance-dependent random search (workshop paper, 3.2): REGAL's policy, but its
    distributions are only sampled from."""
    guided = _guided(problem, budget, "regal", least=1)
    return best_of(guided.start, evolution.sample(problem, **guided.search))


def load_policy(
    problem: PlacementProblem, path: str | Path | None, system: str = "regal"
) -> tuple[Any, RegalConfig]:
    """The given policy, or the shipped one; OptionError if it is not for this kind of problem."""
    path = path or shipped_policy(problem.objective, system)
    params, config, about = checkpoints.load_policy(path)
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


def shipped_policy(objective: str, system: str = "regal") -> Path:
    """Where the package keeps a policy for an objective. OptionError if there is none."""
    path = Path(__file__).parents[1] / "pretrained" / f"{system}_{objective}.policy"
    if not path.exists():
        raise OptionError(f"no {system} policy is shipped for {objective}; give one with --policy")
    return path


class _Guided(NamedTuple):
    """The features' search, and the arguments of the search that the policy steers."""

    start: Found
    search: dict[str, Any]


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
    inputs, best, cost, history = feature_search(
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
    return _Guided(start, search)


@functools.partial(jax.jit, static_argnames="config")
def _actions(params, inputs, config: RegalConfig):
    """int32[O, A]: the policy's most likely actions."""
    return config.policy.mode(params, inputs)
