"""PlacementProblem: the same costs in and out of jit, exactness, and rejected options."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from regal_jax.environments.placement import cost
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import GraphError, OptionError
from regal_jax.graphs.batching import GraphShape
from regal_jax.graphs.computation_graph import ComputationGraph
from tests.strategies import computation_graphs

GRAPH = ComputationGraph.create(
    num_ops=4,
    producer=[0, 0, 1, 2, -1],
    size=[8, 3, 5, 6, 40],
    consumers=[[1, 2], [3], [3], [3], [0, 3]],
    duration=[1.5, 2.25, 4.0, 0.125],
    name="net",
)


def uniform(problem, count, seed=0):
    return np.random.default_rng(seed).random((count, problem.num_genes), np.float32)


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
@pytest.mark.parametrize("backend", ["native", "jax"])
def test_fitness_is_the_same_outside_jit_inside_and_under_vmap(objective, backend):
    problem = PlacementProblem(GRAPH, 2, objective, backend=backend)
    genes = uniform(problem, 6)
    expected = [problem.decode(chromosome).cost for chromosome in genes]
    if backend == "native":
        np.testing.assert_array_equal(problem.fitness(genes), expected)
    np.testing.assert_array_equal(jax.jit(problem.fitness)(genes), expected)
    halves = jax.jit(jax.vmap(problem.fitness))(genes.reshape(2, 3, -1))
    np.testing.assert_array_equal(halves.reshape(-1), expected)


def test_jax_arrays_are_costed_exactly_outside_jit():
    problem = PlacementProblem(GRAPH, backend="native")
    genes = uniform(problem, 3)
    costs = problem.fitness(jnp.asarray(genes))
    assert costs.dtype == np.float64
    np.testing.assert_array_equal(costs, problem.fitness(genes))


def test_fitness_works_inside_scan():
    problem = PlacementProblem(GRAPH, backend="native")
    genes = uniform(problem, 12).reshape(4, 3, -1)
    scanned = jax.lax.scan(lambda carry, x: (carry, problem.fitness(x)), 0, genes)[1]
    np.testing.assert_array_equal(scanned, [problem.fitness(x) for x in genes])


def test_an_empty_batch():
    problem = PlacementProblem(GRAPH, backend="native")
    assert problem.fitness(uniform(problem, 0)).shape == (0,)


def test_large_sizes_are_exact():
    size = 2**50 + 1
    graph = ComputationGraph.create(
        num_ops=2, producer=[0, -1], size=[size, 2], consumers=[[1], [0]], workspace=[3, 0]
    )
    problem = PlacementProblem(graph, 1, backend="native")
    assert problem.fitness(uniform(problem, 2)).tolist() == [size + 5] * 2
    assert problem.decode(uniform(problem, 1)[0]).peak_memory == (size + 5,)
    with jax.enable_x64(True):
        pure = jax.jit(PlacementProblem(graph, 1, backend="jax").fitness)(uniform(problem, 2))
        assert np.asarray(pure).tolist() == [size + 5] * 2


@settings(max_examples=100)
@given(computation_graphs())
def test_makespan_of_one_device_is_the_work(graph):
    problem = PlacementProblem(graph, 1, "makespan", latency=5.0, per_byte=1.0)
    assert problem.fitness(uniform(problem, 2)).tolist() == [graph.duration.sum()] * 2


@settings(max_examples=100)
@given(computation_graphs())
def test_decoded_schedules_carry_their_exact_cost(graph):
    for objective in ("peak_memory", "makespan"):
        problem = PlacementProblem(graph, 3, objective, latency=1.0)
        chromosome = uniform(problem, 1)[0]
        schedule = problem.decode(chromosome, method="test", seed=4)
        assert schedule.cost == problem.fitness(chromosome[None])[0]
        assert (schedule.method, schedule.seed, schedule.num_devices) == ("test", 4, 3)
        assert (schedule.start is None) == (objective == "peak_memory")
        assert schedule.lower_bound == problem.lower_bound <= schedule.cost


@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3)])
def test_wrong_shapes_are_rejected(shape):
    problem = PlacementProblem(GRAPH, backend="native")
    for function in (problem.fitness, jax.jit(problem.fitness)):
        with pytest.raises(OptionError, match=r"must have shape \[batch, 22\]"):
            function(np.zeros(shape, np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_numbers_are_rejected(value):
    problem = PlacementProblem(GRAPH, backend="native")
    genes = uniform(problem, 2)
    genes[1, 3] = value
    with pytest.raises(OptionError, match="finite"):
        problem.fitness(genes)
    with pytest.raises(OptionError, match="finite"):
        problem.decode(genes[1])


@pytest.mark.parametrize(
    "options",
    [
        {"num_devices": 0},
        {"objective": "speed"},
        {"latency": -1.0},
        {"memory_capacity": (1, 2, 3)},
    ],
    ids=str,
)
def test_options_out_of_range_are_rejected(options):
    with pytest.raises(OptionError):
        PlacementProblem(GRAPH, **options)


def test_totals_beyond_exact_numbers_are_rejected():
    half = 2**52
    graph = ComputationGraph.create(
        num_ops=1, producer=[0, 0, 0], size=[half, half, 2], consumers=[[], [], []]
    )
    with pytest.raises(GraphError, match=r"2\*\*53"):
        PlacementProblem(graph)


@pytest.mark.parametrize("backend", ["native", "jax"])
@pytest.mark.parametrize("num_ops", [0, 1])
def test_graphs_without_tensors_or_ops(backend, num_ops):
    graph = ComputationGraph.create(num_ops=num_ops, producer=[], size=[], consumers=[])
    problem = PlacementProblem(graph, 2, "makespan", backend=backend)
    expected = [float(num_ops)] * 2
    assert np.asarray(jax.jit(problem.fitness)(uniform(problem, 2))).tolist() == expected
    assert problem.decode(uniform(problem, 1)[0]).makespan == num_ops


def test_fits():
    free = PlacementProblem(GRAPH, 2)
    schedule = free.decode(uniform(free, 1)[0])
    peak = max(schedule.peak_memory)
    assert PlacementProblem(GRAPH, 2, memory_capacity=peak).fits(schedule)
    assert not PlacementProblem(GRAPH, 2, memory_capacity=peak - 1).fits(schedule)


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_population_statistics(backend):
    """Chromosome 0: all on device 0, program order; 1: op 3 moves to device 1."""
    shape = GraphShape(6, 8, 20, 4, 8)
    problem = PlacementProblem(GRAPH, 2, shape=shape, backend=backend)
    genes = np.zeros((2, 6 * 3 + 8 * 2), np.float32)
    genes[1, 3 * 2 + 1] = 1.0
    statistics = cost.population_statistics(problem.spec, problem.operand, genes)
    # steps of 1: ops 0, 1, 2, then transfers of tensors 1, 2, 3 to device 1, then op 3
    place = [0, (1 / 3 + 1 / 6) / 2, (2 / 3 + 2 / 6) / 2, 1]
    expected = [[1, 0, place[0]], [1, 0, place[1]], [1, 0, place[2]], [0.5, 0.5, place[3]]]
    np.testing.assert_allclose(statistics, [*expected, [0, 0, 0], [0, 0, 0]], rtol=1e-6)
