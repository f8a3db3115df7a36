"""Features of REGAL A.1, by hand."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings

from regal_jax.graphs.batching import GraphShape, exact_shape, padded_shape
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.placement import pinned_op, policy_inputs
from regal_jax.graphs.rewrites.microbatches import microbatches
from tests.strategies import computation_graphs

STATISTICS = np.arange(9, dtype=np.float32).reshape(3, 3) / 10


def hand_graph() -> ComputationGraph:
    """w (100) -> op 0 -> a (40), b (0, control); a -> op 1, op 2; b -> op 2 -> c (8)."""
    return ComputationGraph.create(
        num_ops=3,
        producer=[-1, 0, 0, 2],
        size=[100, 40, 0, 8],
        consumers=[[0], [1, 2], [2], []],
        workspace=[0, 200, 0],
    )


def test_paper_features_by_hand():
    """The largest number is the workspace of op 1; op 0 has the most inputs and outputs."""
    graph = hand_graph()
    inputs = policy_inputs(graph, STATISTICS, exact_shape(graph))
    expected = [
        [0.5, 0.2, 0.0, 0.0, 0.1, 0.2, 1.0],
        [0.2, 0.0, 1.0, 0.3, 0.4, 0.5, 0.0],
        [0.2, 0.04, 0.0, 0.6, 0.7, 0.8, 0.0],
    ]
    np.testing.assert_allclose(inputs.nodes, expected, rtol=1e-6)
    assert inputs.nodes.dtype == inputs.edges.dtype == np.float32
    triples = sorted(
        zip(inputs.senders, inputs.receivers, inputs.edges[:, 0].tolist(), strict=True)
    )
    real = [triple for triple in triples if triple[0] < 3]
    assert real == [(0, 1, pytest.approx(0.2)), (0, 2, 0.0), (0, 2, pytest.approx(0.2))]
    assert inputs.pinned == 0
    assert inputs.producer.tolist() == [-1, 0, 0, 2]


def test_padding():
    graph = hand_graph()
    inputs = policy_inputs(graph, np.ones((5, 3), np.float32), GraphShape(5, 6, 7, 2, 3))
    assert inputs.real.tolist() == [True] * 3 + [False] * 2
    assert not np.any(inputs.nodes[3:])
    assert not np.any(inputs.edges[3:])
    assert inputs.senders[3:].tolist() == inputs.receivers[3:].tolist() == [5] * 4
    assert inputs.producer.tolist() == [-1, 0, 0, 2, -1, -1]


def test_workshop_features_are_the_papers_and_the_duration():
    graph = hand_graph().replace(duration=np.array([3.0, 6.0, 0.0]))
    for durations, expected in (([3.0, 6.0, 0.0], [0.5, 1.0, 0.0]), ([0.0] * 3, [0.0] * 3)):
        graph = graph.replace(duration=np.array(durations))
        of = functools.partial(policy_inputs, graph, STATISTICS, exact_shape(graph))
        inputs, paper = of(feature_set="workshop"), of(feature_set="paper")
        np.testing.assert_array_equal(inputs.nodes[:, :-1], paper.nodes)
        np.testing.assert_array_equal(inputs.nodes[:, -1], np.float32(expected))


@pytest.mark.parametrize(("feature_set", "nodes"), [("paper", 5), ("workshop", 6)])
@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_num_features(num_devices, feature_set, nodes):
    graph = hand_graph()
    statistics = np.zeros((3, num_devices + 1), np.float32)
    inputs = policy_inputs(graph, statistics, exact_shape(graph), feature_set=feature_set)
    assert inputs.nodes.shape[1] == nodes + num_devices
    assert inputs.edges.shape[1] == 1


def test_the_pinned_op_is_the_first_of_the_largest():
    assert pinned_op(hand_graph()) == 0
    assert pinned_op(microbatches(hand_graph(), 2)) == 0
    graph = hand_graph().replace(size=np.array([0, 40, 0, 80]))
    assert pinned_op(graph) == 2
    assert pinned_op(ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])) == 0


@settings(max_examples=60)
@given(computation_graphs(max_ops=6))
def test_all_features_are_between_0_and_1(graph):
    statistics = np.ones((graph.num_ops, 3), np.float32)
    shape = padded_shape([graph])
    inputs = policy_inputs(graph, statistics, shape, feature_set="workshop")
    for values in (inputs.nodes, inputs.edges):
        assert np.all(np.isfinite(values))
        assert values.min(initial=0) >= 0
        assert values.max(initial=0) <= 1
    largest = inputs.nodes[:, :3].max()  # an edge's size is in two nodes' sums
    touched = np.concatenate([graph.inputs.values, graph.outputs.values])
    assert largest == float(np.any(graph.size[touched]) or np.any(graph.workspace))
    assert inputs.nodes[:, 6].sum() == min(graph.num_ops, 1)
    assert inputs.real.sum() == graph.num_ops
