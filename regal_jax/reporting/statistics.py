"""What a comparison of methods reports: improvements, gaps, wins, and means with intervals."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from regal_jax.errors import OptionError


class MeanInterval(NamedTuple):
    """A mean over graphs, and its percentile bootstrap interval, in the unit of the values."""

    mean: float
    low: float
    high: float


def improvement_percent(cost: ArrayLike, reference: ArrayLike) -> np.ndarray:
    """100 * (reference - cost) / reference, elementwise: positive where the cost is lower.

    Where the reference is 0: 0 for a tie, else minus infinity.
    """
    return -gap_percent(cost, reference) + 0.0


def gap_percent(cost: ArrayLike, best: ArrayLike) -> np.ndarray:
    """100 * (cost - best) / best, elementwise: how far above the best known cost.

    Where the best is 0: 0 for a tie, else infinity.
    """
    cost, best = np.broadcast_arrays(np.asarray(cost, float), np.asarray(best, float))
    divisor = np.where(best == 0, 1.0, best)
    return np.where((best == 0) & (cost != 0), np.inf, 100.0 * (cost - best) / divisor)


def mean_interval(
    values_by_graph: Mapping[str, ArrayLike],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> MeanInterval:
    """The mean over graphs, with a percentile bootstrap interval over graphs.

    Args:
      values_by_graph: per graph one value a seed; these are averaged first, so that every graph
        counts the same and the interval is about other graphs, not other seeds.
      confidence: of the interval, in (0, 1).
      resamples: bootstrap samples.
      seed: of the bootstrap.

    Raises:
      OptionError: without graphs, for a graph without values, or for a confidence out of range.
    """
    if not values_by_graph or any(np.size(values) == 0 for values in values_by_graph.values()):
        raise OptionError("a mean needs at least one graph, and at least one value for each")
    if not 0 < confidence < 1:
        raise OptionError(f"confidence must be between 0 and 1, got {confidence}")
    per_graph = np.array([np.asarray(values, float).mean() for values in values_by_graph.values()])
    means = _bootstrap_means(per_graph, resamples, np.random.default_rng(seed))
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(means, [tail, 100.0 - tail])
    return MeanInterval(float(per_graph.mean()), float(low), float(high))


def win_or_tie_share(costs: ArrayLike, references: ArrayLike) -> float:
    """Fraction of pairs where the cost is no higher than the reference. OptionError if none."""
    no_worse = np.asarray(costs) <= np.asarray(references)
    if no_worse.size == 0:
        raise OptionError("a share needs at least one pair of costs")
    return float(np.mean(no_worse))


def geometric_mean(values: ArrayLike) -> float:
    """exp(mean(log(values))); 0 if any value is 0. OptionError for none, or for negative ones."""
    values = np.asarray(values, float)
    if values.size == 0 or not np.all(values >= 0):
        raise OptionError("a geometric mean needs one or more numbers, none negative")
    if np.any(values == 0):
        return 0.0
    return float(np.exp(np.mean(np.log(values))))


def _bootstrap_means(values: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """float64[resamples]: means of samples with replacement, one at a time to bound memory."""
    count = len(values)
    return np.array([values[rng.integers(count, size=count)].mean() for _ in range(resamples)])
