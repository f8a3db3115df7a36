"""BRKGA with several populations against plain loops: the budget, the exchange, the randomness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.search import base
from regal_jax.search.evolution import brkga
from regal_jax.search.evolution.brkga import BRKGAConfig, BRKGAParams, BRKGAState

NUM_GENES = 5
MUTANTS = brkga.uniform_mutants(NUM_GENES)
SMALL = BRKGAConfig(population=7, elites=2, children=3)
ISLANDS = SMALL._replace(populations=3, exchange_every=2)


def steps_to_zero(chromosomes):
    """Small integers, so that there are ties, and the same bits in numpy and in JAX."""
    return jnp.floor(chromosomes[:, 0] * 16) + jnp.floor(chromosomes[:, 1] * 16)


def search_by_hand(key, evaluations, config):
    """The algorithm in plain loops and numpy, one population after the other.

    Only the random numbers are JAX's, with the keys of ``search``. Returns (chromosomes, costs,
    history).
    """
    init_key, evolve_key, last_key = jax.random.split(key, 3)
    count = config.populations * config.population
    genes = np.asarray(jax.random.uniform(init_key, (count, NUM_GENES)))
    islands = [
        (part, np.asarray(steps_to_zero(part))) for part in np.split(genes, config.populations)
    ]
    left, history = evaluations - count, [min(costs.min() for _, costs in islands)]
    per_generation = config.populations * (config.population - config.elites)
    for generation in range(left // per_generation):
        key = jax.random.fold_in(evolve_key, generation)
        keys = jax.random.split(key, len(islands)) if len(islands) > 1 else [key]
        islands = [generation_by_hand(*pair, config) for pair in zip(keys, islands, strict=True)]
        if len(islands) > 1 and (generation + 1) % config.exchange_every == 0:
            islands = exchange_by_hand(islands)
        history.append(min(costs.min() for _, costs in islands))
    joined = tuple(np.concatenate(column) for column in zip(*islands, strict=True))
    if remainder := left % per_generation:
        elites = config.elites * config.populations
        children = min(config.children * config.populations, remainder)
        last = BRKGAConfig(elites + remainder, elites, children)
        joined = generation_by_hand(last_key, joined, last)
        history.append(joined[1].min())
    return (*joined, history)


def generation_by_hand(key, island, config):
    genes, costs = island
    child_key, mutant_key = jax.random.split(key)
    elite_key, other_key, gene_key = jax.random.split(child_key, 3)
    ranking = sorted(range(len(costs)), key=lambda row: (costs[row], row))
    children, elites = config.children, config.elites
    elite = np.asarray(jax.random.randint(elite_key, (children,), 0, elites))
    other = np.asarray(jax.random.randint(other_key, (children,), elites, len(costs)))
    from_elite = np.asarray(
        jax.random.bernoulli(gene_key, config.elite_bias, (children, NUM_GENES))
    )
    offspring = [
        [genes[ranking[elite[c] if from_elite[c, g] else other[c]], g] for g in range(NUM_GENES)]
        for c in range(children)
    ]
    mutants = config.population - elites - children
    uniform = np.asarray(jax.random.uniform(mutant_key, (mutants, NUM_GENES)))
    new = np.concatenate([np.reshape(offspring, (children, NUM_GENES)), uniform]).astype(np.float32)
    kept = ranking[:elites]
    return (
        np.concatenate([genes[kept], new]),
        np.concatenate([costs[kept], np.asarray(steps_to_zero(new))]),
    )


def exchange_by_hand(islands):
    """The two best of all go into every population that they are not from, over its worst."""
    rows = [
        (cost, island, row)
        for island, (_, costs) in enumerate(islands)
        for row, cost in enumerate(costs)
    ]
    best = sorted(rows)[:2]
    after = []
    for island, (genes, costs) in enumerate(islands):
        genes, costs = genes.copy(), costs.copy()
        arrivals = [(home, row) for _, home, row in best if home != island]
        worst = sorted(range(len(costs)), key=lambda row: (costs[row], row), reverse=True)
        for place, (home, row) in zip(worst, arrivals, strict=False):
            genes[place], costs[place] = islands[home][0][row], islands[home][1][row]
        after.append((genes, costs))
    return after


@pytest.mark.parametrize(
    ("config", "evaluations"),
    [
        (SMALL, 35),
        (ISLANDS, 22),  # one evaluation for the populations joined
        (BRKGAConfig(2, 1, 1, populations=4, exchange_every=1), 8 + 4 * 6 + 3),
    ],
    ids=str,
)
def test_equals_the_algorithm_in_plain_loops(config, evaluations):
    key = jax.random.key(evaluations)

    @jax.jit
    def run(key):
        return brkga.search(key, steps_to_zero, MUTANTS, evaluations, config=config)

    result = run(key)
    chromosomes, costs, history = search_by_hand(key, evaluations, config)
    np.testing.assert_array_equal(result.state.chromosomes, chromosomes)
    np.testing.assert_array_equal(result.state.costs, costs)
    np.testing.assert_array_equal(result.history, history)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 4).flatmap(
        lambda size: st.lists(
            st.lists(st.integers(0, 5), min_size=size, max_size=size), min_size=2, max_size=4
        )
    )
)
def test_exchange_on_any_costs(costs):
    """Costs from few values; every chromosome is its own number."""
    costs = np.array(costs, np.float32)
    genes = np.arange(costs.size, dtype=np.float32).reshape(*costs.shape, 1)
    config = BRKGAConfig(costs.shape[1], 1, 1, populations=len(costs))
    flat = BRKGAState(
        chromosomes=jnp.asarray(genes.reshape(-1, 1)), costs=jnp.asarray(costs.ravel())
    )
    found = brkga.exchange(flat, config)
    islands = exchange_by_hand(list(zip(genes, costs, strict=True)))
    np.testing.assert_array_equal(found.costs, np.concatenate([c for _, c in islands]))
    np.testing.assert_array_equal(found.chromosomes, np.concatenate([g for g, _ in islands]))


def test_an_exchange_by_hand():
    """Three populations of three; the best two, 1 and 2, are from the first and the last."""
    costs = jnp.array([5.0, 1.0, 6.0, 4.0, 7.0, 8.0, 9.0, 3.0, 2.0])
    state = BRKGAState(chromosomes=10 * costs[:, None], costs=costs)
    after = brkga.exchange(state, BRKGAConfig(3, 1, 1, populations=3))
    assert after.costs.tolist() == [5, 1, 2, 4, 2, 1, 1, 3, 2]
    np.testing.assert_array_equal(after.chromosomes[:, 0], 10 * after.costs)


def test_populations_spend_the_budget_of_all_and_evaluate_no_exchange():
    spent = []

    def count(chromosomes):
        spent.append(len(chromosomes))
        return np.asarray(steps_to_zero(chromosomes), np.float32)

    def counting(chromosomes):
        shape = jax.ShapeDtypeStruct(chromosomes.shape[:1], np.float32)
        return jax.experimental.io_callback(count, shape, chromosomes, ordered=True)

    run = jax.jit(lambda key: brkga.search(key, counting, MUTANTS, 90, config=ISLANDS))
    jax.block_until_ready(run(jax.random.key(0)))
    jax.effects_barrier()
    assert spent == [21, 15, 15, 15, 15, 9]
    assert divmod(90 - ISLANDS.initial, ISLANDS.newcomers) == (4, 9)
    assert brkga.history_evaluations(90, ISLANDS) == np.cumsum(spent).tolist()


def test_populations_in_parts_are_the_same_as_in_whole():
    """Parts that do not end at exchanges, put together as a caller with a progress bar does."""
    evaluations, key = 21 + 7 * 15 + 4, jax.random.key(3)
    generations, remainder = divmod(evaluations - ISLANDS.initial, ISLANDS.newcomers)
    init_key, evolve_key, last_key = jax.random.split(key, 3)
    algorithm, params = brkga.algorithm(ISLANDS, lambda _: MUTANTS), BRKGAParams(ISLANDS.elite_bias)
    state = algorithm.init(init_key, steps_to_zero, None, params)
    history = jnp.full(generations + 1, jnp.min(state.costs))

    @jax.jit
    def advance(state, history, first, last):
        carry = (state, history)
        return base._walk(evolve_key, carry, first, last, 1, steps_to_zero, params, algorithm)

    for first in range(0, generations, 3):
        state, history = advance(state, history, first, min(first + 3, generations))
    state = algorithm.finish(last_key, state, steps_to_zero, params, remainder)
    history = jnp.append(history, jnp.min(state.costs))
    by_hand = search_by_hand(key, evaluations, ISLANDS)
    for found, expected in zip((state.chromosomes, state.costs, history), by_hand, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_populations_do_not_mix_without_an_exchange():
    """Population i holds genes in [i, i + 1) and mutants are as far away as can be."""
    config = ISLANDS._replace(exchange_every=100)
    away = lambda key, count: jnp.full((count, NUM_GENES), 99.0)  # noqa: E731
    home = jnp.repeat(jnp.arange(3.0), config.population)[:, None]
    start = home + jax.random.uniform(jax.random.key(0), (21, NUM_GENES))
    state = BRKGAState(chromosomes=start, costs=jnp.sum(start % 1, axis=1))
    fitness = lambda genes: jnp.sum(jnp.where(genes < 90, genes % 1, 9.0), axis=1)  # noqa: E731
    algorithm, carry = brkga.algorithm(config, lambda _: away), (state, jnp.zeros(6))
    key, params = jax.random.key(1), BRKGAParams(0.7)
    after, _ = base._walk(key, carry, 0, 5, 1, fitness, params, algorithm)
    islands = np.asarray(after.chromosomes).reshape(3, config.population, NUM_GENES)
    for island, genes in enumerate(islands):
        assert set(np.floor(genes[genes < 90])) == {island}


def test_warm_starts_fill_one_population_after_the_other():
    known = jax.random.uniform(jax.random.key(5), (9, NUM_GENES))
    state = brkga.init(jax.random.key(0), steps_to_zero, MUTANTS, warm_start=known, config=ISLANDS)
    assert state.chromosomes.shape == (21, NUM_GENES)
    np.testing.assert_array_equal(state.chromosomes[:9], known)


def test_vmap_searches_with_populations_are_the_single_ones():
    def run(key):
        return brkga.search(key, steps_to_zero, MUTANTS, 71, config=ISLANDS).history

    keys = jax.random.split(jax.random.key(0), 2)
    single = [search_by_hand(key, 71, ISLANDS)[2] for key in keys]
    np.testing.assert_array_equal(jax.jit(jax.vmap(run))(keys), single)
