"""What a comparison of methods reports: improvements, gaps, wins, and means with intervals."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from regal_jax.errors import OptionError

LEAST_GRAPHS = 10
"""Graphs from which an interval is given: of fewer, a bootstrap's is much too narrow."""
RESAMPLES = 2000
"""Bootstrap samples."""

_BATCH = 2**22
"""Numbers that are resampled at a time."""


class MeanInterval(NamedTuple):
    """A mean over graphs and its bootstrap interval, in the unit of the values.

    Attributes:
      mean: over graphs.
      low, high: the interval; NaN for less than LEAST_GRAPHS graphs or infinite values.
      graphs: how many.
    """

    mean: float
    low: float
    high: float
    graphs: int

    def text(self, number: str = ".2f") -> str:
        """ "1.50 [1.20, 1.90]"; without an interval, "1.50 (n = 4)"."""
        if math.isnan(self.low):
            return f"{self.mean:{number}} (n = {self.graphs})"
        return f"{self.mean:{number}} [{self.low:{number}}, {self.high:{number}}]"


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


def mean_interval(values_by_graph: Mapping[str, ArrayLike]) -> MeanInterval:
    """The mean over graphs, with a bootstrap interval of 95 % over graphs, BCa (Efron 1987).

    Args:
      values_by_graph: per graph one value a seed; these are averaged first, so that every graph
        counts the same and the interval is about other graphs, not other seeds.

    Raises:
      OptionError: without graphs, or for a graph without values.
    """
    if not values_by_graph or any(np.size(values) == 0 for values in values_by_graph.values()):
        raise OptionError("a mean needs at least one graph, and at least one value for each")
    per_graph = np.array([np.asarray(values, float).mean() for values in values_by_graph.values()])
    return MeanInterval(float(per_graph.mean()), *_bootstrap(per_graph), len(per_graph))


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


def _bootstrap(values: np.ndarray) -> tuple[float, float]:
    import scipy.stats  # a third of a second

    if len(values) < LEAST_GRAPHS or not np.all(np.isfinite(values)):
        return math.nan, math.nan
    if np.all(values == values[0]):
        return float(values[0]), float(values[0])
    batch, rng = max(1, _BATCH // len(values)), np.random.default_rng(0)
    low, high = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=RESAMPLES, batch=batch, rng=rng
    ).confidence_interval
    return float(low), float(high)
