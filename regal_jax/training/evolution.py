"""Evolution of a policy's parameters by CMA-ES (Hansen 2016, "The CMA Evolution Strategy: A
Tutorial", arXiv 1604.00772), for the best of a few schedules, or for the most likely one.

Imitation makes good choices likely, one by one. What counts is the best schedule of those drawn:
its cost has no gradient, but parameters can be compared by it, on the same graphs with the same
noise. For policies of few parameters.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from regal_jax import registry
from regal_jax.errors import OptionError
from regal_jax.training import trainer
from regal_jax.training.choosing import VALIDATION, Example, drawn, validated
from regal_jax.training.trainer import Learner, TrainState

METRICS = ("cost", "best_cost", "spread")
"""Mean logarithms of the best samples' costs over lower bounds: of all parameters drawn, and of
those of the best; and how far parameters are drawn."""


@dataclasses.dataclass(frozen=True)
class Evolution:
    """Hyperparameters.

    Attributes:
      epochs: each ends with a validation. batch_size: graphs a step.
      population: parameters that are drawn in a step; the better half counts.
      samples: drawn schedules of a graph, the best of which counts; 0: the most likely one does.
      spread: standard deviation of the first parameters that are drawn.
      validation_samples: the same of a validation graph.
      seed: of everything random.
    """

    epochs: int = 12
    batch_size: int = 48
    population: int = 12
    samples: int = 16
    spread: float = 0.2
    validation_samples: int = 16
    seed: int = 0


class Distribution(NamedTuple):
    """How N parameters are drawn around their mean, as float32.

    Attributes:
      spread: [], and covariance: [N, N]: that of parameters is the square of one times the other.
      path, spread_path: [N], the mean's latest ways, which the covariance and the spread follow.
    """

    spread: np.ndarray
    covariance: np.ndarray
    path: np.ndarray
    spread_path: np.ndarray


def learner(
    policy: Any, config: Evolution, held_out: Sequence[Example], epoch_steps: int
) -> Learner:
    """Evolution for ``trainer.fit``, on the host: samples are compiled kernels'.

    Raises OptionError for a population below two, samples below 0, or a spread that isn't above 0.
    """
    if config.population < 2 or config.samples < 0 or not config.spread > 0:
        raise OptionError(
            "evolution takes a population of two or more, samples, and a spread above 0; got"
            f" {config.population}, {config.samples} and {config.spread}"
        )
    made = registry.make_policy(policy)

    def init(key, _) -> TrainState:
        state = trainer.new_state(made.init(key), optax.identity())
        return trainer.changed(state, opt_state=first_distribution(state.params, config.spread))

    def update(key, state: TrainState, batch: Sequence[Example]):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        vector, unravel = ravel_pytree(state.params)
        mean, first = np.asarray(vector, np.float64), int(rng.integers(2**32))
        some = draw(rng, mean, state.opt_state, config.population)
        costs = np.empty(len(some))
        for at, one in enumerate(some):
            network = made.network(unravel(jnp.asarray(one, jnp.float32)))
            best = [drawn(graph, network, config.samples, first) for graph in batch]
            costs[at] = np.mean(np.log(best))
        ranked = some[np.argsort(costs, kind="stable")]
        mean, distribution = moved(mean, state.opt_state, ranked)
        metrics = dict(zip(METRICS, (costs.mean(), costs.min(), distribution.spread), strict=True))
        params = unravel(jnp.asarray(mean, jnp.float32))
        step = state.step + 1
        return trainer.changed(state, params=params, opt_state=distribution, step=step), metrics

    def validate(params):
        return validated(held_out, made.network(params), config.validation_samples)

    return Learner(
        *("evolution", init, update, validate, METRICS, VALIDATION),
        traceable=False,
        validates_first=True,
    )


def first_distribution(params: Any, spread: float) -> Distribution:
    """All parameters alike."""
    count = len(ravel_pytree(params)[0])
    none = np.zeros(count, np.float32)
    return Distribution(np.array(spread, np.float32), np.eye(count, dtype=np.float32), none, none)


def draw(
    rng: np.random.Generator, mean: np.ndarray, distribution: Distribution, count: int
) -> np.ndarray:
    """float64[count, N], parameters around a mean."""
    roots, axes = _axes(distribution)
    steps = rng.standard_normal((count, len(mean))) * roots @ axes.T
    return mean + float(distribution.spread) * steps


def moved(
    mean: np.ndarray, distribution: Distribution, ranked: np.ndarray
) -> tuple[np.ndarray, Distribution]:
    """(mean, distribution) after a step, with parameters [P, N] that were drawn, the best first.

    The tutorial's algorithm (its figure 6) and settings (its table 1, and the rate of the better
    half's covariance as in its edition of 2011), without negative weights.
    """
    spread, covariance, path, spread_path = (np.float64(part) for part in distribution)
    count, half = len(mean), len(ranked) // 2
    weights = np.log(half + 0.5) - np.log(np.arange(1, half + 1))
    weights /= weights.sum()
    mass = 1 / np.sum(weights**2)
    by_spread = (mass + 2) / (count + mass + 5)
    by_path = (4 + mass / count) / (count + 4 + 2 * mass / count)
    by_one = 2 / ((count + 1.3) ** 2 + mass)
    by_half = min(1 - by_one, 2 * (mass - 2 + 1 / mass) / ((count + 2) ** 2 + mass))
    damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (count + 1)) - 1) + by_spread
    usual = np.sqrt(count) * (1 - 1 / (4 * count) + 1 / (21 * count**2))

    steps = (ranked[:half] - mean) / spread
    step = weights @ steps
    roots, axes = _axes(distribution)
    whitened = axes @ (axes.T @ step / roots)
    spread_path = (1 - by_spread) * spread_path
    spread_path += np.sqrt(by_spread * (2 - by_spread) * mass) * whitened
    length = np.linalg.norm(spread_path) / usual
    is_short = length < 1.4 + 2 / (count + 1)
    path = (1 - by_path) * path + is_short * np.sqrt(by_path * (2 - by_path) * mass) * step
    kept = 1 - by_one - by_half + (1 - is_short) * by_one * by_path * (2 - by_path)
    outer = by_one * np.outer(path, path) + by_half * (steps.T * weights) @ steps
    parts = spread * np.exp(by_spread / damping * (length - 1)), kept * covariance + outer
    new = (np.asarray(part, np.float32) for part in (*parts, path, spread_path))
    return mean + spread * step, Distribution(*new)


def _axes(distribution: Distribution) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations along principal axes, which are columns."""
    values, axes = np.linalg.eigh(np.asarray(distribution.covariance, np.float64))
    return np.sqrt(np.maximum(values, 1e-20)), axes
