"""Schedules by dispatching rules: the best pair of a ready op and a device runs, step by step.

A rule is a weight for each of ``kernel.NAMES``: of the bytes that a pair needs, copies and frees,
of its place in simple orders and pipelines, and of times. Many of the field's rules are special
cases or nearly: program order and depth first, least memory first, contiguous pipelines, earliest
start and critical path first. A rule reads no more of a graph than those numbers, so that one
serves graphs of any size, and a schedule takes less than a millisecond for 500 ops.
"""

from typing import NamedTuple

import numpy as np

from regal_jax.environments.dispatching import kernel
from regal_jax.environments.dispatching.kernel import FEATURES, Columns
from regal_jax.environments.placement.bounds import working_set_bound
from regal_jax.environments.placement.chromosome import num_genes
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native.threads import over_threads

MOST = 8.0
"""Largest absolute value of what weights are hyperbolic sines of: they range over magnitudes, and
both signs."""
SHARE = 0.4
"""Of the features that a random rule has a weight for."""
ONE_DEVICE = MOST * (np.eye(FEATURES)[kernel.PLACE] - np.eye(FEATURES)[kernel.ABOVE])
"""A rule of program order where most bytes are, so that no op leaves the first one's device."""
WANTED = ("freed", "sooner", "quiet", "at_home", "since", "levels", "work", "tail")
"""Features that are for a pair, as a rule; others are against it."""


def columns(problem: PlacementProblem) -> Columns:
    """What rules read of a problem. Bytes count relative to the largest working set or, if that is
    more, a device's part of program order's peak; us to the longest path or a device's part of the
    work."""
    graph, platform = problem.graph, problem.platform
    place = graph.position
    fold = np.argsort(precedence.nearest_end_first(graph))
    levels = precedence.levels_to_sinks(graph).astype(float)
    tail = precedence.bottom_levels(graph)
    longest = max(tail.max(initial=0.0), float(graph.duration.sum()) / platform.num_devices)
    last = max(graph.num_ops - 1, 1)
    valley, hill = chains(graph)
    return Columns(
        size=graph.size.astype(float),
        workspace=graph.workspace.astype(float),
        persistent=np.ascontiguousarray(graph.persistent),
        producer=np.ascontiguousarray(graph.producer),
        input_offsets=graph.inputs.offsets,
        inputs=graph.inputs.values,
        output_offsets=graph.outputs.offsets,
        outputs=graph.outputs.values,
        reader_offsets=graph.consumers.offsets,
        readers=graph.consumers.values,
        missing=np.bincount(graph.edges[:, 2], minlength=graph.num_ops),
        duration=graph.duration.astype(float),
        delay=platform.latency + graph.size.astype(float) * platform.per_byte,
        place=place / last,
        levels=levels / max(levels.max(initial=0.0), 1.0),
        fold=fold / last,
        tail=tail - graph.duration,
        valley=valley.astype(float),
        hill=hill.astype(float),
        room=platform.capacities(),
        scales=(_bytes_scale(graph, platform.num_devices), max(longest, 1e-30)),
    )


def num_pairs(problem: PlacementProblem) -> int:
    """Pairs of a ready op and a device that are looked at in all steps, were they program order's:
    what a rule's schedule takes time for, some 10 to 100 ns each."""
    graph = problem.graph
    at = graph.position
    since = np.zeros(graph.num_ops, np.int64)
    np.maximum.at(since, graph.edges[:, 2], at[graph.edges[:, 0]] + 1)
    return problem.num_devices * int(np.sum(at - since + 1))


def most_rules(problem: PlacementProblem, pairs: int) -> int:
    """How many rules look at so many pairs, all together."""
    return pairs // max(num_pairs(problem), 1)


def dispatched(
    columns: Columns, num_devices: int, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Orders and placements int32[B, O] by rules float64[B, FEATURES], on all cores.

    Raises OptionError for weights of another shape, or that aren't finite.
    """
    weights = np.ascontiguousarray(weights, np.float64)
    if weights.ndim != 2 or weights.shape[1] != FEATURES or not np.all(np.isfinite(weights)):
        raise OptionError(f"weights must be finite, [rules, {FEATURES}], got {weights.shape}")
    orders = np.empty((len(weights), len(columns.workspace)), np.int32)
    placements, scaled = np.empty_like(orders), weights / _units(columns)

    def run(first: int, last: int) -> None:
        state = kernel.new_state(orders.shape[1], len(columns.size), num_devices)
        part = slice(first, last)
        kernel.dispatch(columns, state, scaled[part], orders[part], placements[part])

    over_threads(run, len(weights), len(weights) * (orders.shape[1] + len(columns.readers)))
    return orders, placements


def _units(columns: Columns) -> np.ndarray:
    """float64[FEATURES]: bytes or us that features count relative to."""
    units = np.ones(FEATURES)
    units[list(kernel.OF_BYTES)], units[list(kernel.OF_US)] = columns.scales
    return units


def chromosomes(columns: Columns, num_devices: int, weights: np.ndarray) -> np.ndarray:
    """float32[B, genes]: the schedules of ``dispatched``; copies are made just before reading."""
    orders, placements = dispatched(columns, num_devices, weights)
    count = num_genes(len(columns.workspace), len(columns.size), num_devices)
    genes = np.zeros((len(orders), count), np.float32)
    kernel.fill_genes(columns, num_devices, orders, placements, genes)
    return genes


class Tried(NamedTuple):
    """Rules and their schedules, P of them.

    Attributes:
      rules: float64[P, FEATURES], of which weights are hyperbolic sines.
      genes: float32[P, genes], chromosomes. costs: float64[P].
    """

    rules: np.ndarray
    genes: np.ndarray
    costs: np.ndarray

    def and_best(self, other: "Tried", count: int) -> "Tried":
        """The best of both, best first; each cost once if there are so many."""
        columns = [np.concatenate(pair) for pair in zip(self, other, strict=True)]
        order = np.argsort(columns[2], kind="stable")
        again = np.concatenate([[False], np.diff(columns[2][order]) == 0.0])
        kept = np.concatenate([order[~again], order[again]])[:count]
        return Tried(*(column[kept] for column in columns))


def tried(problem: PlacementProblem, columns: Columns, rules: np.ndarray) -> Tried:
    """Rules float64[P, FEATURES] with their schedules and costs."""
    genes = chromosomes(columns, problem.num_devices, np.sinh(rules))
    return Tried(rules, genes, np.asarray(problem.fitness(genes), float))


def random_rules(rng: np.random.Generator, count: int, *, timed: bool) -> np.ndarray:
    """float64[count, FEATURES], of which weights are hyperbolic sines: rules that hold some
    features for good or bad, as is usual, and leave others out; of any magnitude."""
    drawn = np.abs(rng.normal(scale=3.0, size=(count, FEATURES)))
    drawn *= (rng.random(drawn.shape) < SHARE) * np.where(np.isin(kernel.NAMES, WANTED), -1.0, 1.0)
    if not timed:
        drawn[:, kernel.TIMED :] = 0.0
    return np.clip(drawn, -MOST, MOST)


def chains(graph: ComputationGraph) -> tuple[np.ndarray, np.ndarray]:
    """int64[O] each, bytes: (valley, hill) of the chain that begins with each op.

    A chain goes on with the only op that reads what its last op makes, if that op reads from no
    other. The valley is the least growth of what is in use at the end of one of its ops, the hill
    what they need until there, both above what is in use before (Liu 1987, for a part of a tree).
    """
    readers, made = graph.consumers.lengths(), graph.outputs.sums(graph.size)
    dying = np.where(graph.persistent | (readers > 1), 0, graph.size)
    unread = graph.outputs.sums(np.where(readers == 0, dying, 0))
    valley = made - unread - graph.inputs.sums(dying)
    hill, behind = made + graph.workspace, _only_successor(graph)
    for op in graph.topological_order[::-1]:
        if behind[op] >= 0 and valley[behind[op]] < 0:
            hill[op] = max(hill[op], valley[op] + hill[behind[op]])
            valley[op] += valley[behind[op]]
    return valley, hill


def _only_successor(graph: ComputationGraph) -> np.ndarray:
    """int[O]: the op that alone reads what an op makes, and reads from no other op; -1 for none."""
    before, after = graph.op_pairs.T
    alone = [np.bincount(ops, minlength=graph.num_ops)[ops] == 1 for ops in (before, after)]
    behind = np.full(graph.num_ops, -1)
    behind[before[alone[0] & alone[1]]] = after[alone[0] & alone[1]]
    return behind


def live_bytes(graph: ComputationGraph) -> np.ndarray:
    """float64[O]: what is in memory at each place of program order on one device, but for what an
    op needs while it runs."""
    at = graph.position
    made = graph.producer >= 0
    first = np.zeros(graph.num_tensors, np.int64)
    first[made] = at[graph.producer[made]]
    last = first.copy()
    np.maximum.at(last, graph.consumers.row_of_value(), at[graph.consumers.values])
    last[graph.persistent] = graph.num_ops - 1
    used = np.flatnonzero(made | (graph.consumers.lengths() > 0))
    change = np.zeros(graph.num_ops + 1)
    np.add.at(change, first[used], graph.size[used])
    np.add.at(change, last[used] + 1, -graph.size[used].astype(float))
    return np.cumsum(change)[: graph.num_ops]


def _bytes_scale(graph: ComputationGraph, num_devices: int) -> float:
    """Bytes, positive; see ``columns``."""
    peak = live_bytes(graph).max(initial=0.0)
    return max(peak / num_devices, float(working_set_bound(graph, num_devices)), 1.0)
