"""Random search: exact budget, and the best of all samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.search import base
from regal_jax.search.evolution import brkga, random_search
from regal_jax.search.evolution.random_search import Incumbent

NUM_GENES = 5
KEY = jax.random.key(4)
UNIFORM = brkga.uniform_mutants(NUM_GENES)


def cost(chromosomes):
    """Distance to (0.3, 0.3, ...)."""
    return jnp.sum((chromosomes - 0.3) ** 2, axis=-1)


def search(evaluations, batch=100, sample=UNIFORM, fitness=cost):
    algorithm = random_search.algorithm(lambda _: sample, evaluations, batch)
    run = jax.jit(lambda key: base.scan(key, algorithm, fitness, evaluations))
    best, history = run(KEY)
    return best.chromosome, history


def history_evaluations(evaluations, batch=100):
    return base.spent_at(evaluations, min(evaluations, batch), batch)


@pytest.mark.parametrize(
    ("evaluations", "batch"), [(1, 100), (99, 100), (100, 100), (250, 100), (300, 100), (7, 2)]
)
def test_is_the_best_of_all_samples(evaluations, batch):
    """A plain loop over batches of ``batch`` samples, with the keys of ``base.run``."""
    chromosomes, costs, expected = [], [], []
    first_key, step_key, last_key = jax.random.split(KEY, 3)
    for start in range(0, evaluations, batch):
        count = min(batch, evaluations - start)
        key = first_key
        if start:
            key = jax.random.fold_in(step_key, start // batch - 1) if count == batch else last_key
        chromosomes.append(jax.random.uniform(key, (count, NUM_GENES)))
        costs.append(np.asarray(cost(chromosomes[-1])))
        expected.append(np.concatenate(costs).min())
    best, history = search(evaluations, batch)
    np.testing.assert_allclose(history, expected, rtol=1e-6)
    np.testing.assert_array_equal(best, np.concatenate(chromosomes)[np.concatenate(costs).argmin()])
    assert len(history_evaluations(evaluations, batch)) == len(history)


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
    assert history_evaluations(evaluations) == np.cumsum(spent).tolist()
    assert sum(spent) == evaluations


def test_ties_keep_the_older_chromosome():
    flat = lambda chromosomes: jnp.zeros(len(chromosomes))  # noqa: E731
    best, _ = search(250, fitness=flat)
    np.testing.assert_array_equal(best, UNIFORM(jax.random.split(KEY, 3)[0], 100)[0])
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
    algorithm = random_search.algorithm(lambda _: UNIFORM, 250)

    def run(key):
        return base.scan(key, algorithm, cost, 250).history

    keys = jax.random.split(KEY, 3)
    single = np.stack([jax.jit(run)(key) for key in keys])
    np.testing.assert_allclose(jax.jit(jax.vmap(run))(keys), single, rtol=1e-5)


@pytest.mark.parametrize(("evaluations", "batch"), [(0, 100), (-1, 100), (10, 0)])
def test_impossible_budgets_are_rejected(evaluations, batch):
    with pytest.raises(OptionError, match="at least 1"):
        search(evaluations, batch)
