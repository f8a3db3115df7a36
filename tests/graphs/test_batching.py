"""Padding: the ladder of sizes, and that GraphArrays hold the graph and nothing else."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.errors import OptionError
from regal_jax.graphs import batching
from regal_jax.graphs.batching import GraphShape
from regal_jax.graphs.computation_graph import ComputationGraph
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs


def test_trees_are_stacked_as_numpy_arrays():
    trees = [{"a": np.float32(x), "b": jax.numpy.full(3, x)} for x in (1, 2)]
    found = batching.stacked(trees)
    assert found["a"].tolist() == [1, 2]
    assert found["b"].tolist() == [[1] * 3, [2] * 3]
    assert all(type(leaf) is np.ndarray for leaf in found.values())


def test_the_first_rungs():
    rungs = sorted({batching.padded_size(count) for count in range(200)})
    assert rungs == [8, 16, 24, 32, 48, 64, 88, 128, 184, 264]


@given(st.integers(0, 10**7))
def test_a_rung_holds_the_count_and_wastes_little(count):
    rung = batching.padded_size(count)
    assert rung >= count
    assert rung % 8 == 0
    assert batching.padded_size(rung) == rung
    assert rung <= batching.padded_size(count + 1)
    if count > 32:
        assert rung < 1.5 * count
    if count > 1000:
        assert rung < 1.43 * count


def hand_graph() -> ComputationGraph:
    """w -> op 0 -> (a, b); a -> op 1, op 2; b -> op 2."""
    return ComputationGraph.create(
        num_ops=3,
        producer=[-1, 0, 0],
        size=[100, 10, 20],
        persistent=[True, False, False],
        consumers=[[0], [1, 2], [2]],
        duration=[1.0, 2.0, 3.0],
        workspace=[0, 5, 0],
    )


def test_graph_arrays_by_hand():
    shape = GraphShape(ops=4, tensors=5, edges=6, output_window=3, edge_window=4)
    arrays = batching.graph_arrays(hand_graph(), shape)
    expected = {
        "num_ops": 3,
        "num_tensors": 3,
        "producer": [-1, 0, 0, -1, -1],
        "size": [100, 10, 20, 0, 0],
        "persistent": [True, False, False, False, False],
        "duration": [1, 2, 3, 0],
        "workspace": [0, 5, 0, 0],
        "edge_tensor": [1, 1, 2, 0, 5, 5],
        "edge_op": [1, 2, 2, 0, 4, 4],
        "output_offsets": [0, 2, 2, 2, 2],
        "output_tensors": [1, 2, 5, 5, 5],
        "edge_offsets": [0, 3, 3, 3, 3],
        "output_window": [0, 1, 2],
        "edge_window": [0, 1, 2, 3],
    }
    assert {name: arrays[name].tolist() for name in expected} == expected


def test_exact_shape():
    assert batching.exact_shape(hand_graph()) == GraphShape(3, 3, 4, 2, 3)
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    assert batching.exact_shape(empty) == GraphShape(1, 1, 1, 1, 1)


@pytest.mark.parametrize("axis", range(5))
def test_a_shape_too_small_is_rejected(axis):
    shape = list(batching.exact_shape(hand_graph()))
    batching.graph_arrays(hand_graph(), GraphShape(*shape))
    shape[axis] -= 1
    with pytest.raises(OptionError, match="does not fit"):
        batching.graph_arrays(hand_graph(), GraphShape(*shape))


@settings(max_examples=50)
@given(st.lists(computation_graphs(max_ops=6), min_size=1, max_size=3))
def test_a_shared_shape_holds_each_graph(graphs):
    shape = batching.padded_shape(graphs)
    for graph in graphs:
        one = jax.tree.map(np.asarray, batching.graph_arrays(graph, shape))
        assert (one.num_ops, one.num_tensors) == (graph.num_ops, graph.num_tensors)
        assert one.producer[: graph.num_tensors].tolist() == graph.producer.tolist()
        assert np.all(one.producer[graph.num_tensors :] == -1)
        assert one.size.sum() == graph.size.sum()
        assert one.duration.sum() == graph.duration.sum()
        real = one.edge_op < shape.ops
        pairs = zip(one.edge_tensor[real].tolist(), one.edge_op[real].tolist(), strict=True)
        tensor = graph.consumers.row_of_value().tolist()
        assert sorted(pairs) == sorted(zip(tensor, graph.consumers.values.tolist(), strict=True))
        for op in range(shape.ops):
            made = one.output_tensors[one.output_offsets[op] : one.output_offsets[op + 1]].tolist()
            own = op < graph.num_ops
            assert made == (graph.outputs.row(op).tolist() if own else [])
            read = one.edge_tensor[one.edge_offsets[op] : one.edge_offsets[op + 1]]
            assert np.all(one.producer[read] == op)
            assert len(read) == np.sum(graph.edges[:, 0] == op)


def test_shared_shapes_hold_their_graph_and_are_few():
    graphs = [random_graph(seed, num_ops) for seed, num_ops in enumerate(range(1, 120, 7))]
    shapes = [batching.shared_shape(graph) for graph in graphs]
    for graph, shape in zip(graphs, shapes, strict=True):
        for need, room in zip(batching.exact_shape(graph), shape, strict=True):
            assert need <= room
    assert len({shape[:3] for shape in shapes}) <= 7
