"""The four cost implementations agree: compiled kernel, pure JAX, checker, and a plain oracle."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement import batch, bounds, checker, columns
from regal_jax.environments.placement import chromosome as placement_chromosome
from regal_jax.environments.placement import cost as placement_cost
from regal_jax.environments.placement.list_scheduler import list_schedule
from regal_jax.environments.placement.makespan import makespan
from regal_jax.environments.placement.peak_memory import peak_memory
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs import batching, random_graphs
from regal_jax.graphs.batching import GraphShape
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.microbatches import microbatches
from regal_jax.native import packing
from tests.oracles import schedule_cost as oracle
from tests.strategies import computation_graphs

MAX_OPS, MAX_TENSORS = 9, 14
SHAPE = GraphShape(MAX_OPS, MAX_TENSORS, 6 * MAX_TENSORS, MAX_TENSORS, 6 * MAX_TENSORS)
PACKED_WORDS = 1024
BATCH = 4
LATENCY, PER_BYTE = 3.0, 0.25  # exact in binary: makespans are equal to the last bit
CAPACITY = 60  # bytes: within the reach of some chromosomes of many small graphs

GRAPHS = computation_graphs(max_ops=MAX_OPS, max_tensors=MAX_TENSORS)
DEVICES = st.integers(1, 4)
GENE_POOLS = st.sampled_from(
    [
        [0.0, -0.0],
        [0.5],
        [0.0, 1.0],
        [-1.0, -0.5, -0.0, 0.0, 0.5, 1.0],
        [-3e38, -1e-30, -0.0, 0.0, 1e-30, 3e38],
        [-1e-40, -1e-45, -0.0, 0.0, 1e-45, 2e-45, 1e-40, 1.2e-38],  # 0 to threads of XLA
        list(np.linspace(-1, 1, 9)),
        None,
    ]
)


@st.composite
def chromosomes(draw, graph: ComputationGraph, num_devices: int) -> np.ndarray:
    """float32[BATCH, genes]: uniform ones, or many ties, signed zeros and extreme values."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = placement_chromosome.num_genes(graph.num_ops, graph.num_tensors, num_devices)
    pool = draw(GENE_POOLS)
    if pool is None:
        return rng.random((BATCH, count), np.float32)
    return rng.choice(np.array(pool, np.float32), (BATCH, count))


def step_index(graph, step, num_devices):
    """A step of the oracle as the index of BUILD_NOTES section 4."""
    if step[0] == "op":
        return step[1]
    return graph.num_ops + step[1] * num_devices + step[2]


def as_schedule(graph, placement, steps, num_devices):
    return Schedule(
        graph=graph.name,
        objective="peak_memory",
        num_devices=num_devices,
        placement=np.array(placement, np.int32),
        steps=np.array([step_index(graph, s, num_devices) for s in steps], np.int64),
    )


def padded(graph, genes, num_devices):
    sizes = (graph.num_ops, graph.num_tensors)
    return placement_chromosome.pad(genes, sizes, (MAX_OPS, MAX_TENSORS), num_devices)


def packed(graph):
    words = packing.pack(columns.native_graph(graph))
    return np.pad(words, (0, PACKED_WORDS - len(words)))


def model(objective, num_devices, backend, **platform):
    platform = Platform(num_devices, **platform)
    return placement_cost.cost_model(objective, platform, SHAPE, backend)


def traced_once(function, name):
    """The function under jit; a second trace, so a second compilation, is an error."""

    def traced(*operands):
        return function(*operands)

    traced.__name__ = name  # chex counts traces by name
    return jax.jit(chex.assert_max_traces(traced, n=1))


@functools.cache
def jitted_costs(model: placement_cost.CostModel, *, over_graphs: bool = False):
    """``placement_cost.costs`` under jit; fails if it is compiled twice."""

    def costs(graph, genes):
        return placement_cost.costs(model, graph, genes)

    mapped = jax.vmap(costs) if over_graphs else costs
    return traced_once(mapped, f"costs {model} {over_graphs}")


@functools.cache
def jitted_decode(num_devices: int):
    """Order and exact costs of a batch by the pure JAX functions, traced once a D."""

    def one(graph, chromosome):
        genes = placement_chromosome.split(chromosome, MAX_OPS, num_devices)
        placement = placement_chromosome.placement(genes)
        order = list_schedule(graph, placement, genes)
        link = {"latency": LATENCY, "per_byte": PER_BYTE}
        peak = peak_memory(graph, placement, order, num_devices)
        plain = makespan(graph, placement, order, num_devices=num_devices)
        linked = makespan(graph, placement, order, num_devices=num_devices, **link)
        return placement, order, peak, plain, linked

    return traced_once(jax.vmap(one, in_axes=(None, 0)), f"decode {num_devices}")


def jax_steps(order, row, num_ops, num_tensors):
    """Step indices of one row of a batched, padded ``Order``."""
    transfer = order.transfer[row][:num_tensors].ravel()
    position = np.concatenate([order.op[row][:num_ops], transfer])
    used = np.flatnonzero(position >= 0)
    assert sorted(position[used]) == list(range(int(order.num_steps[row])))
    return used[np.argsort(position[used])].tolist()


@settings(max_examples=400)
@given(data=st.data(), graph=GRAPHS, num_devices=DEVICES)
def test_kernel_and_checker_equal_the_oracle(data, graph, num_devices):
    genes = data.draw(chromosomes(graph, num_devices))
    kernel = columns.native_graph(graph)
    link = {"latency": LATENCY, "per_byte": PER_BYTE}
    peak, time = batch.evaluate_batch(
        kernel, genes, num_devices=num_devices, with_makespan=True, **link
    )
    only_peak, no_time = batch.evaluate_batch(kernel, genes, num_devices=num_devices)
    np.testing.assert_array_equal(only_peak, peak)
    assert not no_time.any()
    placement, steps = batch.decode_steps(kernel, genes, num_devices=num_devices)
    assert (peak.dtype, time.dtype, placement.dtype) == (np.int64, np.float64, np.int32)
    plain = oracle.plain(graph)
    for row, chromosome in enumerate(genes):
        place, order = oracle.decode(plain, chromosome, num_devices)
        schedule = as_schedule(graph, place, order, num_devices)
        assert placement[row].tolist() == place
        assert steps[row][steps[row] >= 0].tolist() == schedule.steps.tolist()
        expected = oracle.peak_memory(plain, place, order, num_devices)
        assert peak[row].tolist() == expected
        start = oracle.start_times(plain, place, order, LATENCY, PER_BYTE)
        assert time[row] == oracle.makespan(plain, place, order, LATENCY, PER_BYTE)
        cost = checker.evaluate(graph, schedule, Platform(num_devices, **link))
        assert cost.peak_memory.tolist() == expected
        assert (cost.makespan, cost.start.tolist()) == (time[row], start)


@settings(max_examples=400)
@given(data=st.data(), graph=GRAPHS, num_devices=DEVICES)
def test_pure_jax_equals_the_oracle(data, graph, num_devices):
    genes = data.draw(chromosomes(graph, num_devices))
    with jax.enable_x64(True):
        arrays = batching.graph_arrays(graph, SHAPE)
        results = jitted_decode(num_devices)(arrays, padded(graph, genes, num_devices))
    placement, order, peak, time, linked = jax.tree.map(np.asarray, results)
    plain = oracle.plain(graph)
    for row, chromosome in enumerate(genes):
        place, steps = oracle.decode(plain, chromosome, num_devices)
        assert placement[row][: graph.num_ops].tolist() == place
        expected = [step_index(graph, step, num_devices) for step in steps]
        assert jax_steps(order, row, graph.num_ops, graph.num_tensors) == expected
        assert peak[row].tolist() == oracle.peak_memory(plain, place, steps, num_devices)
        assert time[row] == oracle.makespan(plain, place, steps)
        assert linked[row] == oracle.makespan(plain, place, steps, LATENCY, PER_BYTE)


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
@settings(max_examples=150)
@given(data=st.data(), graph=GRAPHS, num_devices=st.sampled_from([1, 3]), limited=st.booleans())
def test_costs_of_both_backends_are_equal(objective, data, graph, num_devices, limited):
    """In jit on padded chromosomes, and outside on unpadded ones, with and without a capacity."""
    genes = data.draw(chromosomes(graph, num_devices))
    platform = {"latency": LATENCY, "per_byte": PER_BYTE}
    platform |= {"memory_capacity": CAPACITY} if limited else {}
    outside = PlacementProblem(graph, num_devices, objective, **platform).fitness(genes)
    with_padding = padded(graph, genes, num_devices)
    compiled = model(objective, num_devices, "native", **platform)
    exact = placement_cost.exact_costs(compiled, columns.unpack(packed(graph)), with_padding)
    np.testing.assert_array_equal(exact, outside)
    inside = jitted_costs(compiled)(packed(graph), with_padding)
    np.testing.assert_array_equal(inside, outside.astype(np.float32))
    with jax.enable_x64(True):
        pure = jitted_costs(model(objective, num_devices, "jax", **platform))
        values = pure(batching.graph_arrays(graph, SHAPE), with_padding)
    np.testing.assert_array_equal(values, outside)


@settings(max_examples=100)
@given(data=st.data(), graphs=st.lists(GRAPHS, min_size=3, max_size=3))
def test_costs_of_many_graphs_under_vmap(data, graphs):
    num_devices = 2
    genes = [data.draw(chromosomes(graph, num_devices)) for graph in graphs]
    stacked = np.stack([padded(g, x, num_devices) for g, x in zip(graphs, genes, strict=True)])
    expected = [
        PlacementProblem(g, num_devices).fitness(x) for g, x in zip(graphs, genes, strict=True)
    ]
    compiled = jitted_costs(model("peak_memory", num_devices, "native"), over_graphs=True)
    operands = np.stack([packed(graph) for graph in graphs])
    np.testing.assert_array_equal(compiled(operands, stacked), expected)
    pure = jitted_costs(model("peak_memory", num_devices, "jax"), over_graphs=True)
    with jax.enable_x64(True):
        arrays = [batching.graph_arrays(graph, SHAPE) for graph in graphs]
        arrays = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
        np.testing.assert_array_equal(pure(arrays, stacked), expected)


@settings(max_examples=300)
@given(data=st.data(), graph=GRAPHS, num_devices=DEVICES)
def test_padding_changes_no_cost_and_unpads(data, graph, num_devices):
    genes = data.draw(chromosomes(graph, num_devices))
    sizes, larger = (graph.num_ops, graph.num_tensors), (MAX_OPS, MAX_TENSORS)
    with_padding = placement_chromosome.pad(genes, sizes, larger, num_devices)
    np.testing.assert_array_equal(
        placement_chromosome.unpad(with_padding, sizes, larger, num_devices), genes
    )
    kernel = columns.native_graph(graph)
    plain = batch.evaluate_batch(kernel, genes, num_devices=num_devices)
    wide = batch.evaluate_batch(kernel, with_padding, num_devices=num_devices, op_capacity=MAX_OPS)
    np.testing.assert_array_equal(wide[0], plain[0])


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
@settings(max_examples=200)
@given(data=st.data(), graph=GRAPHS, num_devices=DEVICES)
def test_infeasible_costs_exceed_feasible_ones_and_rank_by_excess(
    objective, data, graph, num_devices
):
    genes = data.draw(chromosomes(graph, num_devices))
    capacity = tuple(data.draw(st.integers(1, 150)) for _ in range(num_devices))
    link = {"latency": LATENCY, "per_byte": PER_BYTE}
    free = PlacementProblem(graph, num_devices, objective, **link)
    limited = PlacementProblem(graph, num_devices, objective, memory_capacity=capacity, **link)
    cost, limited_cost = free.fitness(genes), limited.fitness(genes)
    kernel = columns.native_graph(graph)
    peak = batch.evaluate_batch(kernel, genes, num_devices=num_devices)[0]
    excess = np.maximum(peak - np.array(capacity), 0).sum(axis=1)
    np.testing.assert_array_equal(limited_cost[excess == 0], cost[excess == 0])
    worst = cost[excess == 0].max(initial=0.0)
    for value, beyond in zip(limited_cost, excess, strict=True):
        assert beyond == 0 or np.float32(value) > np.float32(worst)
    order = np.argsort(excess, kind="stable")
    infeasible = [int(row) for row in order if excess[row] > 0]
    differences = np.diff(limited_cost[infeasible])
    np.testing.assert_allclose(differences, np.diff(excess[infeasible]), atol=1e-6)


TINY = computation_graphs(max_ops=4, max_tensors=4)


@settings(max_examples=120)
@given(data=st.data(), graph=TINY, num_devices=st.integers(1, 2))
def test_exhaustive_search_bounds_every_decoded_cost(data, graph, num_devices):
    """lower bound <= optimum over all schedules <= any chromosome, and a chromosome attains it."""
    plain = oracle.plain(graph)
    costs = {
        "peak_memory": lambda schedule: max(oracle.peak_memory(plain, *schedule, num_devices)),
        "makespan": lambda schedule: oracle.makespan(plain, *schedule, LATENCY, PER_BYTE),
    }
    schedules = list(oracle.every_schedule(plain, num_devices))
    genes = data.draw(chromosomes(graph, num_devices))
    for objective, cost in costs.items():
        problem = PlacementProblem(
            graph, num_devices, objective, latency=LATENCY, per_byte=PER_BYTE
        )
        best = min(schedules, key=cost)
        assert problem.lower_bound <= cost(best)
        assert np.all(problem.fitness(genes) >= cost(best))
        chromosome = problem.encode(as_schedule(graph, *best, num_devices))
        assert problem.fitness(chromosome[None])[0] == cost(best)
        decoded = problem.decode(chromosome)
        assert decoded.cost == cost(best)
        if objective == "makespan":
            start = oracle.start_times(plain, *best, LATENCY, PER_BYTE)
            assert decoded.start.tolist() == start


@pytest.mark.parametrize("num_devices", [1, 4])
def test_agreement_on_a_microbatched_graph(num_devices):
    """About 150 ops: reaches what the small graphs can't (long queues, many copies)."""
    rng = np.random.default_rng(num_devices)
    edges = random_graphs.layered(rng, 38, 4)
    producer = np.concatenate([np.arange(38), np.full(10, -1)])
    readers = [edges[edges[:, 0] == op, 1].tolist() for op in range(38)]
    readers += [rng.integers(0, 38, 2).tolist() for _ in range(10)]
    graph = ComputationGraph.create(
        num_ops=38,
        producer=producer,
        size=rng.integers(0, 2**40, 48),
        consumers=readers,
        persistent=[False] * 38 + [True] * 10,
        duration=rng.integers(1, 100, 38),
        workspace=rng.integers(0, 2**30, 38),
    )
    graph = microbatches(graph, 4)
    problem = PlacementProblem(graph, num_devices, "makespan", per_byte=2.0**-20)
    genes = rng.random((3, problem.num_genes), np.float32)
    time = problem.fitness(genes)
    plain = oracle.plain(graph)
    with jax.enable_x64(True):
        arrays = batching.graph_arrays(graph, problem.shape)
        size_model = placement_cost.cost_model(
            "peak_memory", Platform(num_devices), problem.shape, "jax"
        )
        pure = np.asarray(
            jax.jit(functools.partial(placement_cost.costs, size_model))(arrays, problem.pad(genes))
        )
    for row, chromosome in enumerate(genes):
        place, steps = oracle.decode(plain, chromosome, num_devices)
        schedule = problem.decode(chromosome)
        assert schedule.placement.tolist() == place
        expected = oracle.peak_memory(plain, place, steps, num_devices)
        assert schedule.peak_memory == tuple(expected)
        assert pure[row] == max(expected)
        assert time[row] == schedule.makespan
        assert time[row] == oracle.makespan(plain, place, steps, 0.0, 2.0**-20)
        assert bounds.peak_memory_bound(graph, num_devices) <= max(expected)
