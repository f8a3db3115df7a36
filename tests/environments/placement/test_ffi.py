"""The compiled kernel as an XLA custom call: padding, stacking, threads."""

import threading

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from regal_jax.environments.placement import batch, chromosome, columns, cost, ffi
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.graphs import random_graphs
from regal_jax.graphs.batching import GraphShape, padded_shape
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native import packing
from regal_jax.search.evolution import brkga
from tests.native.test_threads import exit_code_of_child


def layered_graph(seed, num_ops=60):
    rng = np.random.default_rng(seed)
    edges = random_graphs.layered(rng, num_ops, 5)
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=rng.integers(1, 1000, num_ops),
        consumers=[edges[edges[:, 0] == op, 1].tolist() for op in range(num_ops)],
        duration=rng.integers(1, 9, num_ops),
    )


def test_pack_keeps_every_number_and_ignores_padding():
    graph = columns.native_graph(layered_graph(0))
    packed = packing.pack(graph)
    assert packed.dtype == np.int32
    assert len(packed) % 2 == 0
    for column, again in zip(graph, columns.unpack(np.pad(packed, (0, 64))), strict=True):
        np.testing.assert_array_equal(column, again)


@pytest.mark.parametrize("extra_words", [0, 8, 1000])
@pytest.mark.parametrize("extra", [(0, 0), (1, 0), (0, 1), (13, 7)])
def test_padding_changes_nothing(extra, extra_words):
    graph = layered_graph(1)
    sizes = (graph.num_ops, graph.num_tensors)
    wide = (sizes[0] + extra[0], sizes[1] + extra[1])
    problem = PlacementProblem(graph, 3)
    genes = np.random.default_rng(0).random((5, problem.num_genes), np.float32)
    model = cost.cost_model("peak_memory", Platform(3), GraphShape(*wide, 0, 0, 0), "native")
    packed = packing.pack(columns.native_graph(graph))
    packed = np.pad(packed, (0, extra_words), constant_values=-1)
    padded = chromosome.pad(genes, sizes, wide, 3)
    padded[padded == 0] = 0.5  # whatever stands in the padding
    padded = np.where(chromosome.pad(np.ones_like(genes), sizes, wide, 3) > 0, padded, 0.5)
    costs = jax.jit(lambda graph, genes: cost.costs(model, graph, genes))(packed, padded)
    np.testing.assert_array_equal(costs, problem.fitness(genes))


def test_stacked_operands_and_shared_ones_under_vmap():
    graphs = [layered_graph(seed) for seed in range(3)]
    shape = padded_shape(graphs)
    problems = [PlacementProblem(graph, 2, shape=shape, backend="native") for graph in graphs]
    model = problems[0].spec
    words = [problem.operand for problem in problems]
    longest = max(len(packed) for packed in words)
    stacked = np.stack([np.pad(packed, (0, longest - len(packed))) for packed in words])
    count = chromosome.num_genes(shape.ops, shape.tensors, 2)
    genes = np.random.default_rng(0).random((3, 4, count), np.float32)

    def costs(graph, genes):
        return cost.costs(model, graph, genes)

    expected = np.array([[costs(g, x) for x in genes] for g in words])
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(costs))(stacked, genes), expected[range(3), range(3)]
    )
    by_graph = jax.jit(jax.vmap(costs, in_axes=(0, None)))(stacked, genes[0])
    np.testing.assert_array_equal(by_graph, expected[:, 0])
    by_genes = jax.jit(jax.vmap(costs, in_axes=(None, 0)))(stacked[0], genes)
    np.testing.assert_array_equal(by_genes, expected[0])
    both = jax.jit(jax.vmap(jax.vmap(costs, in_axes=(None, 0)), in_axes=(0, None)))
    np.testing.assert_array_equal(both(stacked, genes), expected)


def test_scratch_is_large_enough():
    """The buffer handed to the kernel holds the arrays that ``batch._allocate`` makes."""
    for num_ops, num_tensors, num_devices in [(1, 1, 1), (2, 3, 4), (7, 0, 2), (101, 333, 3)]:
        words = 4 + num_devices  # peak, and one word of rounding for each int32 array
        words += 2 * ((num_ops + 1) // 2) + (num_tensors * num_devices + 1) // 2
        words += num_ops + (num_ops + num_tensors * num_devices + 2) + num_ops + 2 * num_devices
        assert ffi.scratch_words(num_ops, num_tensors, num_devices) >= words


def test_two_threads_search_at_the_same_time():
    problems = [PlacementProblem(layered_graph(seed), 2, backend="native") for seed in range(2)]

    @jax.jit
    def run(key, packed):
        model = problems[0].spec
        mutants = brkga.uniform_mutants(problems[0].num_genes)
        search = brkga.search(key, lambda x: cost.costs(model, packed, x), mutants, 1000)
        return search.history, search.state.best()[0]

    words = [problem.operand for problem in problems]
    longest = max(len(packed) for packed in words)
    operands = [jnp.asarray(np.pad(w, (0, longest - len(w)))) for w in words]
    keys = [jax.random.key(seed) for seed in range(2)]
    alone = [jax.device_get(run(*job)) for job in zip(keys, operands, strict=True)]
    together = [[], []]

    def work(index):
        for _ in range(5):
            together[index].append(jax.device_get(run(keys[index], operands[index])))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    for expected, results in zip(alone, together, strict=True):
        assert len(results) == 5
        for result in results:
            jax.tree.map(np.testing.assert_array_equal, result, expected)


@pytest.mark.parametrize("num_threads", [1, 2, 7, 1000])
def test_threads_change_nothing(num_threads):
    graph = columns.native_graph(layered_graph(0, num_ops=200))
    count = chromosome.num_genes(200, 200, 2)
    genes = np.random.default_rng(0).random((301, count), np.float32)
    one = batch.evaluate_batch(graph, genes, num_devices=2, num_threads=1)
    many = batch.evaluate_batch(graph, genes, num_devices=2, num_threads=num_threads)
    for expected, found in zip(one, many, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_fitness_in_a_child_after_a_fork():
    problem = PlacementProblem(layered_graph(0, num_ops=200), 2, backend="native")
    genes = np.random.default_rng(0).random((301, problem.num_genes), np.float32)
    expected = problem.fitness(genes)  # on threads, where there are cores
    assert exit_code_of_child(lambda: np.array_equal(problem.fitness(genes), expected)) == 0


def test_graphs_share_a_compilation_whatever_their_arrays():
    graph = layered_graph(0)
    others = [graph.replace(duration=np.arange(120.0)[::2]), graph.replace(name="read-only")]
    types = [[numba.typeof(column) for column in columns.native_graph(g)] for g in (graph, *others)]
    assert types[0] == types[1] == types[2]
