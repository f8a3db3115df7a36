"""Schedules drawn from a trained policy over their construction: GFlowNet and PPO.

Of gflownet_robust_scheduling; ``samplers`` has them beside the other samplers.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from regal_jax.environments.execution import prices
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.policies.gflownet import sampling
from regal_jax.policies.gflownet.policy import FlowConfig, check_fits, padded_inputs
from regal_jax.search.placements import candidates
from regal_jax.search.placements.candidates import Candidates
from regal_jax.training import checkpoints

TEMPERATURES = {"gflownet": 0.005, "ppo": 0.25}
"""Of inference (E.1); PPO's policy only knows the one it was trained with."""

AT_PRICE = 2
"""Schedules to be tried on a target for each price, at least: as a sweep of two heuristics has."""

Draw = Callable[[PlacementProblem, int, Any], Candidates]
"""(problem, how many, key) -> schedules."""


def sample_policy(
    problem: PlacementProblem,
    system: str,
    *,
    samples: int,
    count: int,
    seed: int = 0,
    policy=None,
    temperature: float | None = None,
) -> Candidates:
    """``samples`` schedules of a policy of "gflownet" or "ppo", given or shipped.

    Of a policy that knows prices of transfers at most ``count``: at each of a sweep of prices, on
    top of the problem's own, as many are drawn, and the best there are taken.

    Raises:
      OptionError: for a policy that is not of this system, or not for the graph or the devices; for
        a temperature that isn't a positive number.
    """
    path = policy or shipped_policy("makespan", system)
    params, config, about = checkpoints.load_policy(path, FlowConfig)
    if about.get("system") != system:
        raise OptionError(f"the policy {path} is one of {about.get('system')}, not of {system}")
    check_fits(problem.graph, problem.platform, config)
    draw = functools.partial(
        _drawn, params, config, TEMPERATURES[system] if temperature is None else temperature
    )
    if not config.priced:
        return draw(problem, samples, jax.random.key(seed))
    return _at_prices(problem, draw, samples, count, seed)


def _at_prices(
    problem: PlacementProblem, draw: Draw, samples: int, count: int, seed: int
) -> Candidates:
    """Of schedules drawn at each of a sweep of prices the best there, of all prices the first
    ones first."""
    every = prices.sweep(min(count // AT_PRICE, samples))
    keys, ranked = jax.random.split(jax.random.key(seed), len(every)), []
    for key, price in zip(keys, every, strict=True):
        platform = prices.at_price(problem.graph, problem.platform, price)
        there = PlacementProblem.on(problem.graph, platform, "makespan")
        found = draw(there, samples // len(every), key)
        ranked.append(candidates.best_schedules(there, found, -(-count // len(every))))
    best = [one for some in itertools.zip_longest(*ranked) for one in some if one is not None]
    return candidates.distinct(candidates.from_schedules(best), count)


def _drawn(
    params, config: FlowConfig, temperature: float, problem: PlacementProblem, count: int, key
) -> Candidates:
    """Schedules of a policy."""
    inputs = padded_inputs(problem.graph, problem.platform, config)
    drawn = sampling.draw(
        *(key, params, inputs, temperature),
        policy=config,
        num_devices=problem.num_devices,
        count=count,
    )
    num_ops = problem.graph.num_ops
    real = np.asarray(drawn.op) < num_ops
    sequence = np.asarray(drawn.op)[real].reshape(count, num_ops)
    return Candidates(np.asarray(drawn.device_of)[:, :num_ops], sequence)
