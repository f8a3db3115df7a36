"""Random search: exact budget, the best of all samples, and the same in parts as in whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.search.evolution import brkga, random_search
from regal_jax.search.evolution.random_search import Incumbent

NUM_GENES = 5
KEY = jax.random.key(4)
UNIFORM = brkga.uniform_mutants(NUM_GENES)


def cost(chromosomes):
    """Distance to (0.3, 0.3, ...)."""
    return jnp.sum((chromosomes - 0.3) ** 2, axis=-1)


def search(evaluations, batch=100, sample=UNIFORM, fitness=cost):
    @jax.jit
    def run(key):
        return random_search.random_search(key, fitness, sample, evaluations, batch=batch)

    return run(KEY)


@pytest.mark.parametrize(
    ("evaluations", "batch"), [(1, 100), (99, 100), (100, 100), (250, 100), (300, 100), (7, 2)]
)
def test_is_the_best_of_all_samples(evaluations, batch):
    """A plain loop over batches of ``batch`` samples, with the keys the docstring names."""
    chromosomes, costs, expected = [], [], []
    for start in range(0, evaluations, batch):
        count = min(batch, evaluations - start)
        chromosomes.append(jax.random.uniform(jax.random.fold_in(KEY, start), (count, NUM_GENES)))
        costs.append(np.asarray(cost(chromosomes[-1])))
        expected.append(np.concatenate(costs).min())
    best, history = search(evaluations, batch)
    np.testing.assert_allclose(history, expected, rtol=1e-6)
    np.testing.assert_array_equal(best, np.concatenate(chromosomes)[np.concatenate(costs).argmin()])
    assert len(random_search.history_evaluations(evaluations, batch)) == len(history)


@pytest.mark.parametrize("evaluations", [1, 100, 101, 200, 350])
def test_spends_exactly_the_budget(evaluations):
    spent = []

    def count(chromosomes):
        spent.append(len(chromosomes))
        return np.zeros(len(chromosomes), np.float32)

    def counting(chromosomes):
        shape = jax.ShapeDtypeStruct(chromosomes.shape[:1], np.float32)
        return jax.experimental.io_callback(count, shape, chromosomes, ordered=True)

    jax.block_until_ready(search(evaluations, fitness=counting))
    jax.effects_barrier()
    assert random_search.history_evaluations(evaluations) == np.cumsum(spent).tolist()
    assert sum(spent) == evaluations


def test_in_parts_is_the_same_as_in_whole():
    @jax.jit
    def advance(best, history, first, last):
        return random_search.advance(KEY, best, history, first, last, cost, UNIFORM, batch=100)

    start = random_search.best_sample(jax.random.fold_in(KEY, 0), cost, UNIFORM, 100)
    best, history = start, jnp.full(6, start.cost)
    for first, last in [(1, 3), (3, 4), (4, 6)]:
        best, history = advance(best, history, first, last)
    whole = search(600)
    np.testing.assert_array_equal(best.chromosome, whole[0])
    np.testing.assert_allclose(history, whole[1], rtol=1e-6)


def test_ties_keep_the_older_chromosome():
    flat = lambda chromosomes: jnp.zeros(len(chromosomes))  # noqa: E731
    best, _ = search(250, fitness=flat)
    np.testing.assert_array_equal(best, UNIFORM(jax.random.fold_in(KEY, 0), 100)[0])
    old, new = (
        Incumbent(chromosome=jnp.full(2, value), cost=jnp.float32(1.0)) for value in (0.0, 9.0)
    )
    assert random_search.better(old, new).chromosome.tolist() == [0.0, 0.0]


def test_samples_come_from_the_given_distribution():
    uniform, beta = search(300), search(300, sample=brkga.beta_mutants(1.0, 1.0, NUM_GENES))
    jax.tree.map(np.testing.assert_array_equal, beta, uniform)
    narrow, _ = search(300, sample=lambda key, count: 0.5 + 0.1 * UNIFORM(key, count))
    assert np.all((narrow >= 0.5) & (narrow <= 0.6))


def test_vmap_searches_are_the_single_ones():
    def run(key):
        return random_search.random_search(key, cost, UNIFORM, 250)[1]

    keys = jax.random.split(KEY, 3)
    single = np.stack([jax.jit(run)(key) for key in keys])
    np.testing.assert_allclose(jax.jit(jax.vmap(run))(keys), single, rtol=1e-5)


@pytest.mark.parametrize(("evaluations", "batch"), [(0, 100), (-1, 100), (10, 0)])
def test_impossible_budgets_are_rejected(evaluations, batch):
    with pytest.raises(OptionError, match="at least 1"):
        search(evaluations, batch)
