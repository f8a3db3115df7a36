"""REGAL as a dispatcher: a network reads a graph and says by which rules to schedule it (ours).

The published policy chooses among a few Beta distributions for every op (``beta_mutants``), by what
message passing knows of it. This one chooses among the rules of a pool, each a few numbers for the
whole graph (``environments.dispatching``): a rule makes the decisions op by op, with exact memory
and times in view, so that one schedule takes milliseconds.

It sees statistics of the graph and the platform and, once rules were tried, what their schedules
cost on this very problem; it says which of the others are likely to be the best.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.environments.dispatching import rule
from regal_jax.environments.dispatching.kernel import Columns
from regal_jax.environments.placement.bounds import working_set_bound
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Objective
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph

Params = Any

OBJECTIVES: tuple[Objective, ...] = ("peak_memory", "makespan")
"""Each has rules, and a network, of its own."""
BINS = 16
"""Parts of a sequence of ops that are told apart."""
QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5)
WORST = 1.5
"""Rules that cost more, as a logarithm over the best, count as this."""
NEAR = 0.05
"""Scale of logarithms of costs at which rules are nearly as good as the best one."""
DELAY_QUANTILES = (0.1, 0.5, 0.9)
"""Quantiles of what transfers of tensors take."""
FOREVER = 1e12
"""Transfers that take longer, over an op's time or that of all the work, count as this."""
DEVICES = (1, 2, 4, 8)
"""Numbers of devices that are told apart; others count as the next of these, or the last."""
NUM_FEATURES = 6 + len(DEVICES) + 8 + len(DELAY_QUANTILES) + 14 + 2 * len(QUANTILES) + 3 * BINS + 4
"""N: of the platform, of its transfers, of sizes and shape of the graph, by place in the order."""


@dataclasses.dataclass(frozen=True)
class DispatchConfig:
    """A policy's network.

    Attributes:
      size, layers: of the network. dropout: in training, after each layer.
    """

    size: int = 256
    layers: int = 3
    dropout: float = 0.1


class DispatchPolicy(NamedTuple):
    """Pure functions.

    Attributes:
      init: (key, number of rules M) -> the parameters of a network for each objective, stacked.
      log_prob: (params of one objective, features float32[N], costs float32[M], tried bool[M], key
        of the dropout or None) -> float32[M]: of being the best rule of those not tried, of which
        there must be one.
    """

    init: Callable[[chex.PRNGKey, int], Params]
    log_prob: Callable[..., jax.Array]


@registry.policy("regal_dispatch", DispatchConfig)
def dispatch_policy(config: DispatchConfig) -> DispatchPolicy:
    """The policy of a configuration."""

    def init(key: chex.PRNGKey, rules: int) -> Params:
        module, none = _Network(config, rules), jnp.zeros(rules)
        start = jax.vmap(lambda key: module.init(key, jnp.zeros(NUM_FEATURES), none, none))
        return start(jax.random.split(key, len(OBJECTIVES)))

    def log_prob(params: Params, features, costs, tried, key=None) -> jax.Array:
        module, above = _Network(config, len(costs)), log_over_best(costs, tried)
        dropout = {} if key is None else {"dropout": key}
        training = key is not None
        logits = module.apply(params, features, above, tried, training=training, rngs=dropout)
        return jax.nn.log_softmax(jnp.where(tried, -jnp.inf, logits))  # type: ignore[arg-type]

    return DispatchPolicy(init, log_prob)


def of_objective(stacked: Any, objective: Objective) -> Any:
    """An objective's part of what is stacked by OBJECTIVES: networks, or rules."""
    return jax.tree.map(lambda leaf: leaf[OBJECTIVES.index(objective)], stacked)


def log_over_best(costs: jax.Array, tried: jax.Array) -> jax.Array:
    """float32[M]: logarithms of costs over the least of the rules tried, at most WORST; 0 for the
    others."""
    logs = jnp.log(jnp.maximum(jnp.where(tried, costs, 1.0), 1e-30))
    least = jnp.min(jnp.where(tried, logs, jnp.inf), initial=jnp.inf)
    return jnp.where(tried, jnp.minimum(logs - jnp.where(tried, least, 0.0), WORST), 0.0)


class _Network(nn.Module):
    """An MLP that completes a row of a matrix of problems and rules: the costs of some, by those of
    others."""

    config: DispatchConfig
    rules: int

    @nn.compact
    def __call__(self, features, above, tried, *, training: bool = False) -> jax.Array:
        config = self.config
        near = jnp.where(tried, jnp.exp(-above / NEAR), 0.0)
        state = nn.Dense(config.size)(jnp.concatenate([features, near, above, tried]))
        for _ in range(config.layers - 1):
            state = nn.Dropout(config.dropout, deterministic=not training)(nn.gelu(state))
            state = nn.Dense(config.size)(nn.LayerNorm()(state))
        return nn.Dense(self.rules)(nn.gelu(state))


def features_of(problem: PlacementProblem, columns: Columns) -> np.ndarray:
    """float32[NUM_FEATURES]: what is known before any rule is tried. Bytes and us are over the
    scales of ``columns``."""
    graph, live = problem.graph, rule.live_bytes(problem.graph)
    parts = [
        _of_platform(problem, columns),
        _of_devices(problem.num_devices),
        _of_transfers(problem, columns, live),
        _of_graph(graph, columns),
        _of_sequence(graph, live),
    ]
    return np.concatenate(parts).astype(np.float32)


def _of_platform(problem: PlacementProblem, columns: Columns) -> np.ndarray:
    """Objective, devices, what transfers take of an op's time, how tight memory is."""
    graph, platform = problem.graph, problem.platform
    timed = problem.objective == "makespan"
    price = columns.delay.mean() if graph.num_tensors else 0.0
    duration = max(float(graph.duration.mean()) if graph.num_ops else 0.0, 1e-30)
    room = float(np.min(platform.capacities())) / columns.scales[0]
    return np.array(
        [
            timed,
            np.log2(platform.num_devices) / 3.0,
            np.log1p(min(price / duration, FOREVER)) / 3.0 if timed else 0.0,
            timed and price > 0.0,
            np.clip(np.log(room), -1.0, 1.0) if np.isfinite(room) else 1.0,
            np.isfinite(room),
        ],
        float,
    )


def _of_devices(count: int) -> np.ndarray:
    """Which of DEVICES there are."""
    return np.arange(len(DEVICES)) == min(np.searchsorted(DEVICES, count), len(DEVICES) - 1)


def _of_transfers(problem: PlacementProblem, columns: Columns, live: np.ndarray) -> np.ndarray:
    """Whether several devices are worth it: work, its longest path, and transfers, in logarithms of
    the first; whether all fits on one device, where ``live`` bytes are in memory."""
    graph, count = problem.graph, problem.num_devices
    alone = np.clip(np.log(np.min(columns.room) / max(live.max(initial=0.0), 1.0)), -3.0, 3.0)
    read = (graph.producer >= 0) & (graph.consumers.lengths() > 0)
    work = float(graph.duration.sum())
    if problem.objective != "makespan" or not read.any() or not 0.0 < work < np.inf:
        return np.concatenate([[alone], np.zeros(7 + len(DELAY_QUANTILES))])
    duration, delay = graph.duration / work, np.minimum(columns.delay[read] / work, FOREVER)
    longest = np.zeros(graph.num_ops)
    np.maximum.at(longest, graph.producer[read], delay)
    path = (columns.tail + graph.duration).max() / work
    late = precedence.bottom_levels(graph.replace(duration=duration + longest)).max()
    over_work = np.array([path, late, max(path, 1.0 / count), delay.min(), delay.sum()])
    own, mean = duration[graph.producer[read]], 1.0 / graph.num_ops
    return np.concatenate(
        [
            [alone],
            np.clip(np.log(np.maximum(over_work, 1e-3)), -7.0, 7.0) / 3.0,
            [np.mean(delay > own), np.log1p(np.mean(delay / np.maximum(own, 0.1 * mean))) / 3.0],
            np.log1p(np.quantile(delay, DELAY_QUANTILES) / mean) / 3.0,
        ]
    )


def _of_graph(graph: ComputationGraph, columns: Columns) -> np.ndarray:
    """Numbers of things, bytes of kinds of tensors, and how unequal sizes and durations are."""
    ops, scale = max(graph.num_ops, 1), columns.scales[0]
    size, kept = graph.size.astype(float), graph.persistent
    parameter = kept & (graph.producer < 0)
    readers = graph.consumers.lengths()
    parts = int(precedence.connected_components(graph).max(initial=0)) + 1
    numbers = [
        np.log10(ops) / 4.0,
        np.log10(graph.num_tensors + 1) / 4.0,
        len(graph.edges) / ops / 4.0,
        np.log(parts) / 5.0,
        np.log1p(readers.max(initial=0)) / 5.0,
        readers.mean() / 4.0 if graph.num_tensors else 0.0,
        np.mean(readers > 2) if graph.num_tensors else 0.0,
        size[kept].sum() / scale,
        size[parameter].sum() / scale,
        working_set_bound(graph, 1) / scale,
        graph.workspace.max(initial=0) / scale,
        size.max(initial=0) / scale,
        np.log1p(size.sum() / scale),
        np.log1p(graph.duration.sum() / columns.scales[1]),
    ]
    bounded = np.clip(numbers, 0.0, 5.0)
    return np.concatenate([bounded, _largest(size), _largest(graph.duration.astype(float))])


def _largest(values: np.ndarray) -> np.ndarray:
    """Which part of their sum the largest have, at QUANTILES of their number."""
    if not values.size or values.sum() <= 0.0:
        return np.zeros(len(QUANTILES))
    part = np.cumsum(np.sort(values)[::-1]) / values.sum()
    return part[[int(quantile * len(part)) for quantile in QUANTILES]]


def _of_sequence(graph: ComputationGraph, live: np.ndarray) -> np.ndarray:
    """What is in memory along program order, how many ops and how much work by level."""
    if not graph.num_ops:
        return np.zeros(3 * BINS + 4)
    top = max(live.max(), 1.0)
    at = np.linspace(0, graph.num_ops - 1, BINS).astype(int)
    levels = precedence.levels(graph)
    bins = levels * BINS // (levels.max() + 1)
    ops = np.bincount(bins, minlength=BINS) / graph.num_ops
    work = np.bincount(bins, graph.duration, BINS) / max(graph.duration.sum(), 1e-30)
    shape = [
        live.argmax() / graph.num_ops,
        np.mean(live > 0.9 * top),
        live.mean() / top,
        np.log(levels.max() + 1) / np.log(graph.num_ops + 1),
    ]
    return np.concatenate([live[at] / top, ops, work, shape])
