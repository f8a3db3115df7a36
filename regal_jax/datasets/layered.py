"""Layered graphs: the synthetic data set of neural topological ordering, made anew from a seed.

Gagrani et al. 2022, "Neural Topological Ordering for Computation Graphs" (arXiv 2207.05899),
appendix A: nodes in layers, edges between adjacent layers, skip connections, and one output and
one parameter cost a layer. Defaults are the paper's values.
"""

import math
from collections.abc import Sequence

import numpy as np

from regal_jax.datasets.task_graphs import seed_label
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows

UNIT = 2**20
"""Bytes of one unit of the paper's memory costs, which are real numbers of no unit; costs are
rounded to whole bytes, and at least 1."""

WIDTH_FACTORS = (0.25, 0.5)
"""The range that a graph's width factor is drawn from, uniformly."""

MIXTURE_WEIGHTS = np.array([0.3, 0.3, 0.3, 0.1])
MIXTURE_MEANS = np.array([0.5, 1.0, 3.0, 5.0])
MIXTURE_DEVIATIONS = np.array([0.5, 1.0, 1.0, 1.0])
"""The mixture of Gaussians of the costs (eq. 16), in the paper's unit."""

MAX_SEED = 2**32


def layered_graph(
    seed: int | Sequence[int],
    num_ops: int,
    *,
    width_factor: float | None = None,
    width_variability: float = 0.75,
    edge_density: float = 0.2,
    skip_density: float = 0.14,
) -> ComputationGraph:
    """One layered graph (appendix A); the same seed gives the same graph.

    Ops are numbered layer by layer; ``extra["ops"]["layer"]`` has the layer of each. An op has one
    output tensor, that all its successors consume (those of the last layer have none); the
    parameter cost is its ``workspace`` (eq. 15: in use while the op runs). Durations are 1 us.

    Where the paper leaves a case open: the target number of layers is kept in 1..num_ops, and the
    range of widths is never empty (its upper end is at least its lower end, which is at least 1).

    Args:
      seed: an int or several, as of ``numpy.random.default_rng``.
      num_ops: |V|.
      width_factor: W, from 0 (a chain) to 1 (one wide layer); None draws it, U(0.25, 0.5).
      width_variability: of the number of ops in a layer, relative, in 0..1.
      edge_density: between adjacent layers, from 0 (each op has an edge) to 1 (all edges).
      skip_density: skip connections drawn, of all edges, in [0, 1).

    Raises:
      OptionError: for an option out of its range.
    """
    _check(
        num_ops,
        width_factor=width_factor,
        width_variability=width_variability,
        edge_density=edge_density,
        skip_density=skip_density,
    )
    rng = np.random.default_rng(seed)
    factor = rng.uniform(*WIDTH_FACTORS) if width_factor is None else width_factor
    widths = _widths(rng, num_ops, *_width_range(num_ops, factor, width_variability))
    adjacent = _adjacent_edges(rng, widths, edge_density)
    skips = _skip_connections(rng, widths, len(adjacent), skip_density)
    layer = np.repeat(np.arange(len(widths)), widths)
    edges = _distinct(np.concatenate([adjacent, skips]), num_ops)
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=_costs(rng, len(widths))[layer],
        consumers=ragged_rows(edges[:, 0], edges[:, 1], num_ops),
        workspace=_costs(rng, len(widths))[layer],
        name=f"layered {num_ops} {seed_label(seed)}",
        family="layered",
        source="synthetic",
        extra={"ops": {"layer": layer.tolist()}},
    )


def layered_graphs(seed: int, count: int, num_ops: int) -> list[ComputationGraph]:
    """``count`` layered graphs, of the seeds ``(seed, 0)``, ``(seed, 1)``, ...

    The random streams of all pairs ``(seed, index)`` differ: data sets of different seeds, such as
    training, validation and test, or the epochs of a training, have no stream in common. (Graphs of
    a few ops may be equal all the same.) numpy reads ``seed`` alone as ``(seed, 0)``, so
    ``layered_graph(seed, num_ops)`` has the costs and edges of the first.

    Raises:
      OptionError: for a negative count, or a seed that is not in [0, 2**32).
    """
    if count < 0:
        raise OptionError(f"count is {count}, less than 0")
    if not 0 <= seed < MAX_SEED:  # a longer seed is more than one word: pairs could coincide
        raise OptionError(f"seed is {seed}, not in [0, 2**32)")
    return [layered_graph((seed, index), num_ops) for index in range(count)]


def _check(num_ops: int, **shares: float | None) -> None:
    if num_ops < 1:
        raise OptionError(f"num_ops is {num_ops}: a layered graph needs at least one op")
    for option, value in shares.items():
        if value is not None and not 0.0 <= value <= 1.0:
            raise OptionError(f"{option} is {value}, not in 0..1")
    if shares["skip_density"] == 1.0:
        raise OptionError("skip_density is 1: all edges would be skip connections")


def _widths(rng: np.random.Generator, num_ops: int, low: int, high: int) -> np.ndarray:
    """int64[L]: the number of ops of each layer (eqs. 11, 12, algorithm 1).

    The last layer takes the ops that are left, so L may differ from the target. (The pseudocode
    leaves the inner loop only; it must end as soon as all ops have a layer.)
    """
    drawn = rng.integers(low, high + 1, size=-(-num_ops // low))
    ends = np.minimum(np.cumsum(drawn), num_ops)
    num_layers = int(np.searchsorted(ends, num_ops)) + 1
    return np.diff(ends[:num_layers], prepend=0)


def _width_range(num_ops: int, width_factor: float, variability: float) -> tuple[int, int]:
    """The least and the largest number of ops of a layer (eqs. 11, 12)."""
    squared = num_ops * (1 / width_factor - 1) if width_factor > 0 else math.inf
    target_layers = max(math.ceil(math.sqrt(min(squared, num_ops**2))), 1)
    mean = num_ops / target_layers
    low = max(math.ceil(mean * (1 - variability)), 1)
    return low, max(math.floor(mean * (1 + variability)), low)


def _adjacent_edges(rng: np.random.Generator, widths: np.ndarray, density: float) -> np.ndarray:
    """int64[E, 2]: the edges between adjacent layers (eq. 13, algorithm 2), op numbers."""
    start = np.cumsum(widths) - widths
    pairs = []
    for upper, lower in zip(range(len(widths) - 1), range(1, len(widths)), strict=True):
        if widths[upper] >= widths[lower]:
            wide, narrow = _cones(rng, widths[upper], widths[lower], density)
            pairs.append((start[upper] + wide, start[lower] + narrow))
        else:
            wide, narrow = _cones(rng, widths[lower], widths[upper], density)
            pairs.append((start[upper] + narrow, start[lower] + wide))
    return np.concatenate([np.stack(pair, axis=1) for pair in pairs] or [np.empty((0, 2), int)])


def _cones(
    rng: np.random.Generator, wide: int, narrow: int, density: float
) -> tuple[np.ndarray, np.ndarray]:
    """Edges between two layers, int64[e] each: places in the wider layer and in the narrower one.

    Each op of the wider layer has a contiguous range of the narrower one, centred below it. (In
    the paper the range is added inside a loop over its own elements, which adds the same edges
    again: redundant.)
    """
    degree = _degrees(rng, wide, round(wide * narrow * density + (1 - density) * wide))
    centre = np.rint(np.arange(wide) * (narrow - 1) / max(wide - 1, 1)).astype(np.int64)
    first = np.clip(centre - (degree - 1) // 2, 0, narrow - degree)
    place = np.arange(degree.sum()) - np.repeat(np.cumsum(degree) - degree, degree)
    return np.repeat(np.arange(wide), degree), np.repeat(first, degree) + place


def _degrees(rng: np.random.Generator, num_ops: int, num_edges: int) -> np.ndarray:
    """int64[num_ops]: edges of each op, when each edge goes to an op with the fewest at random.

    All have the same number but for the ops, at random, that get one more of the remainder.
    """
    each, remainder = divmod(num_edges, num_ops)
    return each + (rng.permutation(num_ops) < remainder)


def _skip_connections(
    rng: np.random.Generator, widths: np.ndarray, num_edges: int, density: float
) -> np.ndarray:
    """int64[S, 2]: the drawn skip connections (eq. 14, algorithm 3), some perhaps repeated."""
    num_layers = len(widths)
    if num_layers < 3:
        return np.empty((0, 2), np.int64)
    count = math.ceil(num_edges * density / (1 - density))
    source = rng.integers(0, num_layers - 2, size=count)
    target = rng.integers(source + 2, num_layers)
    source_place, drift = rng.random(count), rng.random(count)
    target_place = np.minimum(source_place + 0.2 * drift, 0.999)
    start = np.cumsum(widths) - widths
    source_op = start[source] + np.floor(source_place * widths[source]).astype(np.int64)
    target_op = start[target] + np.floor(target_place * widths[target]).astype(np.int64)
    return np.stack([source_op, target_op], axis=1)


def _distinct(edges: np.ndarray, num_ops: int) -> np.ndarray:
    """int64[E, 2]: the edges in order, a repeated one once (the paper doesn't say what it does)."""
    return np.stack(np.divmod(np.unique(edges[:, 0] * num_ops + edges[:, 1]), num_ops), axis=1)


def _costs(rng: np.random.Generator, count: int) -> np.ndarray:
    """int64[count]: costs of layers in bytes (eq. 16); numbers that aren't positive are redrawn."""
    costs = np.zeros(count)
    while len(missing := np.flatnonzero(costs <= 0)):
        component = rng.choice(len(MIXTURE_WEIGHTS), size=len(missing), p=MIXTURE_WEIGHTS)
        costs[missing] = rng.normal(MIXTURE_MEANS[component], MIXTURE_DEVIATIONS[component])
    return np.maximum(np.rint(costs * UNIT), 1).astype(np.int64)
