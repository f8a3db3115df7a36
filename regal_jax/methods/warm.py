"""Searches that begin with the best cheap schedules: BRKGA, changed elites, REGAL's moves."""

import functools
from typing import Any

import jax

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.methods import evolution
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.options import Budget, Result, best_of
from regal_jax.policies.regal import moves
from regal_jax.policies.regal.moves import Moves, MovesConfig
from regal_jax.policies.regal.schedule_features import ScheduleInputs
from regal_jax.search.evolution.brkga import BRKGAConfig
from regal_jax.training import checkpoints, moves_search


@registry.method("warm_brkga")
def run_warm_brkga(problem: PlacementProblem, budget: Budget) -> Result:
    """BRKGA with the best cheap schedules in its population: the control of what begins so, too."""
    start = moves_search.begin(problem, budget, least=BRKGAConfig().initial)
    key, known = jax.random.key(budget.seed), start.population
    return best_of(start, evolution.evolve(problem, budget.after(start), key, known=known))


@registry.method("elite_mutation")
def run_elite_mutation(problem: PlacementProblem, budget: Budget) -> Result:
    """Changed elites, every op as likely to change: the control of ``regal_moves``."""
    start = moves_search.begin(problem, budget, least=moves_search.LEAST)
    same = functools.partial(moves.fresh, MovesConfig())
    return moves_search.search(problem, budget, start, same, times=1)


@registry.method("regal_moves", reads_policy=True, learned=True)
def run_regal_moves(problem: PlacementProblem, budget: Budget) -> Result:
    """Changed elites, by a policy that looks at the best schedule so far."""
    path = budget.options.policy or shipped_policy("moves", "regal")
    params, config, _ = checkpoints.load_policy(path, MovesConfig)
    start = moves_search.begin(problem, budget, least=moves_search.LEAST)
    propose = functools.partial(_moves, params, config=config)
    return moves_search.search(problem, budget, start, propose)


@functools.partial(jax.jit, static_argnames="config")
def _moves(params: Any, inputs: ScheduleInputs, *, config: MovesConfig) -> Moves:
    return moves.moves_policy(config).moves(params, inputs)
