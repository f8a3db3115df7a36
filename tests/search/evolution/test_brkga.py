"""BRKGA: the budget, the operators one by one, and that it finds known optima."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from regal_jax.environments.placement import chromosome
from regal_jax.environments.placement import cost as placement_cost
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.batching import GraphShape
from regal_jax.search.evolution import brkga
from regal_jax.search.evolution.brkga import BRKGAConfig, BRKGAState
from tests.oracles import schedule_cost as oracle
from tests.strategies import computation_graphs

NUM_GENES = 5
CONFIG = BRKGAConfig()
MUTANTS = brkga.uniform_mutants(NUM_GENES)


def cost(chromosomes):
    """Distance to (0.3, 0.3, ...)."""
    return jnp.sum((chromosomes - 0.3) ** 2, axis=-1)


def search(seed=0, evaluations=1000, **options):
    @jax.jit
    def run(key):
        return brkga.search(key, cost, MUTANTS, evaluations, **options)

    return run(jax.random.key(seed))


@pytest.mark.parametrize("evaluations", [100, 101, 190, 191, 400, 1000, 5000])
def test_spends_exactly_the_budget(evaluations):
    spent = []

    def count(chromosomes):
        spent.append(len(chromosomes))
        return np.asarray(cost(chromosomes), np.float32)

    def counting(chromosomes):
        shape = jax.ShapeDtypeStruct(chromosomes.shape[:1], np.float32)
        return jax.experimental.io_callback(count, shape, chromosomes, ordered=True)

    run = jax.jit(lambda key: brkga.search(key, counting, MUTANTS, evaluations))
    result = run(jax.random.key(0, impl="unsafe_rbg"))  # compiles fastest
    jax.block_until_ready(result)
    jax.effects_barrier()
    assert sum(spent) == evaluations
    assert brkga.history_evaluations(evaluations) == np.cumsum(spent).tolist()
    assert len(result.history) == len(spent)


@pytest.mark.parametrize("evaluations", [100, 150, 1000])
def test_history_is_the_best_cost_so_far(evaluations):
    result = search(evaluations=evaluations)
    history = np.asarray(result.history)
    assert np.all(np.diff(history) <= 0)
    best, best_cost = result.state.best()
    assert history[-1] == best_cost
    np.testing.assert_allclose(cost(best), best_cost, rtol=1e-5)


def test_same_key_same_result():
    first, again, other = search(1, 280), search(1, 280), search(2, 280)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert np.any(first.state.chromosomes != other.state.chromosomes)


def test_vmap_searches_are_the_single_ones():
    keys = jax.random.split(jax.random.key(0), 3)

    def run(key):
        return brkga.search(key, cost, MUTANTS, 280).history

    many = jax.jit(jax.vmap(run))(keys)
    single = list(map(jax.jit(run), keys))
    np.testing.assert_allclose(many, np.stack(single), rtol=1e-5)


def one_step(seed=0, *, elite_bias=0.7, config=CONFIG):
    state = brkga.init(jax.random.key(seed), cost, MUTANTS, config=config)
    key = jax.random.key(seed + 1)
    after = brkga.step(key, state, cost, MUTANTS, elite_bias=elite_bias, config=config)
    return state, after


def test_elites_are_carried_over_unmodified():
    before, after = one_step()
    best = np.argsort(before.costs, stable=True)[: CONFIG.elites]
    np.testing.assert_array_equal(after.chromosomes[: CONFIG.elites], before.chromosomes[best])
    np.testing.assert_array_equal(after.costs[: CONFIG.elites], before.costs[best])
    np.testing.assert_allclose(after.costs, cost(after.chromosomes), rtol=1e-6)
    assert after.chromosomes.shape == (CONFIG.population, NUM_GENES)


def test_mutants_come_from_the_given_distribution():
    state = brkga.init(jax.random.key(0), cost, MUTANTS, config=CONFIG)
    seen = []

    def constant(key, count):
        seen.append(count)
        return jnp.full((count, NUM_GENES), 7.0)

    after = brkga.step(jax.random.key(1), state, cost, constant, elite_bias=0.7, config=CONFIG)
    mutants = CONFIG.newcomers - CONFIG.children
    assert seen == [mutants]
    assert np.all(after.chromosomes[-mutants:] == 7.0)
    assert np.all(after.chromosomes[:-mutants] < 1.0)


def rows_in(rows, pool):
    return all(any(np.array_equal(row, other) for other in np.asarray(pool)) for row in rows)


@pytest.mark.parametrize("elite_bias", [1.0, 0.0])
def test_extreme_elite_biases_copy_a_parent(elite_bias):
    before, after = one_step(elite_bias=elite_bias)
    ranking = np.argsort(before.costs, stable=True)
    elites, others = ranking[: CONFIG.elites], ranking[CONFIG.elites :]
    children = np.asarray(after.chromosomes[CONFIG.elites : CONFIG.elites + CONFIG.children])
    parents = before.chromosomes[elites if elite_bias == 1.0 else others]
    assert rows_in(children, parents)


def test_elite_bias_per_gene():
    bias = jnp.array([1.0, 0.0, 1.0, 0.0, 1.0])
    before, after = one_step(elite_bias=bias)
    ranking = np.argsort(before.costs, stable=True)
    children = np.asarray(after.chromosomes[CONFIG.elites : CONFIG.elites + CONFIG.children])
    elites = before.chromosomes[ranking[: CONFIG.elites]]
    others = before.chromosomes[ranking[CONFIG.elites :]]
    assert rows_in(children[:, ::2], elites[:, ::2])
    assert rows_in(children[:, 1::2], others[:, 1::2])


@pytest.mark.parametrize("elite_bias", [0.3, 0.7])
def test_crossover_mixes_genes_with_the_given_frequency(elite_bias):
    """Genes of row i are i, so that every gene of a child names its parent."""
    num_genes, config = 500, BRKGAConfig(population=100, elites=10, children=80)
    chromosomes = jnp.broadcast_to(jnp.arange(100.0)[:, None], (100, num_genes))
    ranking = jnp.arange(100)[::-1]  # rows 90..99 are the elites
    children = np.asarray(
        brkga.crossover(jax.random.key(0), chromosomes, ranking, elite_bias, config)
    )
    from_elite = children >= 90
    deviation = np.sqrt(elite_bias * (1 - elite_bias))
    assert abs(from_elite.mean() - elite_bias) < 6 * deviation / np.sqrt(children.size)
    assert np.all(np.abs(from_elite.mean(axis=1) - elite_bias) < 6 * deviation / np.sqrt(num_genes))
    assert np.all(np.abs(from_elite.mean(axis=0) - elite_bias) < 6 * deviation / np.sqrt(80))
    for child, elite in zip(children, from_elite, strict=True):  # two parents a child
        assert len(set(child[elite])) == 1
        assert len(set(child[~elite])) == 1
    assert len({child.max() for child in children}) >= 8  # of 10 elites
    assert len({child.min() for child in children}) >= 35  # of 90 others


def test_warm_starts_are_kept():
    optimum = jnp.full((1, NUM_GENES), 0.3)
    result = search(evaluations=100, warm_start=optimum)
    np.testing.assert_array_equal(result.state.chromosomes[0], optimum[0])
    result = search(evaluations=1000, warm_start=optimum)
    assert np.all(np.asarray(result.history) == 0.0)
    np.testing.assert_array_equal(result.state.best()[0], optimum[0])


def test_a_population_of_warm_starts():
    known = jax.random.uniform(jax.random.key(5), (100, NUM_GENES))
    result = search(evaluations=100, warm_start=known)
    np.testing.assert_array_equal(result.state.chromosomes, known)
    with pytest.raises(OptionError, match="101 warm starts"):
        search(warm_start=jnp.zeros((101, NUM_GENES)))


def test_a_budget_below_the_population_is_rejected():
    with pytest.raises(OptionError, match="at least the population"):
        search(evaluations=99)


@pytest.mark.parametrize(
    "changes",
    [
        {"elites": 0},
        {"elites": 100},
        {"children": -1},
        {"children": 91},
        {"elite_bias": -0.1},
        {"elite_bias": 1.1},
        {"populations": 0},
        {"exchange_every": 0},
        {"populations": 11},
    ],
    ids=str,
)
def test_impossible_populations_are_rejected(changes):
    with pytest.raises(OptionError):
        search(config=CONFIG._replace(**changes))


def test_another_population():
    config = BRKGAConfig(population=7, elites=2, children=3)
    result = search(evaluations=33, config=config)  # 7 + 5 * 5 + 1
    assert brkga.history_evaluations(33, config) == [7, 12, 17, 22, 27, 32, 33]
    assert result.history.shape == (7,)


def test_ties_keep_the_older_chromosome():
    state = BRKGAState(
        chromosomes=jnp.arange(100.0)[:, None] * jnp.ones(NUM_GENES), costs=jnp.zeros(100)
    )
    flat = lambda chromosomes: jnp.zeros(len(chromosomes))  # noqa: E731
    after = brkga.step(jax.random.key(0), state, flat, MUTANTS, elite_bias=0.7, config=CONFIG)
    assert after.chromosomes[: CONFIG.elites, 0].tolist() == list(range(CONFIG.elites))


TINY = GraphShape(ops=4, tensors=4, edges=24, output_window=4, edge_window=24)
TINY_GENES = chromosome.num_genes(TINY.ops, TINY.tensors, 2)


@functools.partial(jax.jit, static_argnums=0)
def tiny_search(model, packed):
    mutants = brkga.uniform_mutants(TINY_GENES)
    key = jax.random.key(0)
    return brkga.search(
        key, lambda x: placement_cost.costs(model, packed, x), mutants, 1000
    ).history[-1]


@settings(max_examples=60)
@given(computation_graphs(max_ops=4, max_tensors=4))
def test_reaches_the_optimum_of_tiny_graphs(graph):
    """1,000 evaluations where all schedules can be enumerated."""
    plain = oracle.plain(graph)
    schedules = list(oracle.every_schedule(plain, 2))
    optima = {
        "peak_memory": min(max(oracle.peak_memory(plain, *s, 2)) for s in schedules),
        "makespan": min(oracle.makespan(plain, *s) for s in schedules),
    }
    for objective, optimum in optima.items():
        problem = PlacementProblem(graph, 2, objective, shape=TINY, backend="native")
        packed = problem.operand
        packed = np.pad(packed, (0, 512 - len(packed)))
        assert tiny_search(problem.spec, packed) == optimum
