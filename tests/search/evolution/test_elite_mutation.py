"""Changed elites: the best are kept, and equals drift."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.search import base
from regal_jax.search.evolution import elite_mutation
from regal_jax.search.evolution.elite_mutation import EliteConfig

SMALL = EliteConfig(elites=3, newcomers=5)


def noisy(scale):
    return lambda key, parents: parents + scale * jax.random.normal(key, parents.shape)


def sphere(chromosomes):
    return jnp.sum(chromosomes**2, axis=1)


def plateau(chromosomes):
    return jnp.zeros(len(chromosomes))


def test_the_best_never_gets_worse_and_ends_near_the_optimum():
    algorithm = elite_mutation.algorithm(SMALL, 1, noisy)
    known = np.ones((1, 3), np.float32)
    found = base.scan(jax.random.key(0), algorithm, sphere, 6 + 5 * 80, params=0.1, known=known)
    history = np.asarray(found.history)
    assert len(history) == 81
    assert history[0] <= 3.0
    assert np.all(np.diff(history) <= 0)
    assert history[-1] < 0.05
    assert np.all(np.diff(np.asarray(found.state.costs)) >= 0)


def test_without_changes_nothing_is_found():
    algorithm = elite_mutation.algorithm(SMALL, 2, noisy)
    known = np.array([[2.0], [1.0]], np.float32)
    found = base.scan(jax.random.key(0), algorithm, sphere, 27, params=0.0, known=known)
    assert set(np.asarray(found.history).tolist()) == {1.0}


def test_equals_are_replaced_by_newcomers():
    """A search on a plateau drifts: none of the known chromosomes is left."""
    algorithm = elite_mutation.algorithm(SMALL, 3, noisy)
    known = np.zeros((3, 2), np.float32)
    found = base.scan(jax.random.key(0), algorithm, plateau, 8, params=1.0, known=known)
    assert np.all(np.any(np.asarray(found.state.chromosomes) != 0.0, axis=1))


@pytest.mark.parametrize("config", [EliteConfig(elites=0), EliteConfig(newcomers=0)])
def test_parameters_that_search_nothing_are_refused(config):
    with pytest.raises(OptionError, match="elite mutation needs"):
        elite_mutation.algorithm(config, 1, noisy)
    with pytest.raises(OptionError, match="elite mutation needs"):
        elite_mutation.algorithm(SMALL, 0, noisy)
