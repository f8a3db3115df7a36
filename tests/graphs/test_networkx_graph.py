"""To networkx and back; graphs made in networkx."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from regal_jax.errors import GraphError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.networkx_graph import from_networkx, to_networkx
from tests.strategies import computation_graphs


@given(computation_graphs(labelled=True, machine_types=2))
def test_round_trip_is_lossless(graph):
    assert from_networkx(to_networkx(graph)) == graph


@given(computation_graphs())
def test_one_edge_for_each_producer_tensor_consumer(graph):
    edges = to_networkx(graph).edges(keys=True)
    assert sorted((u, key, v) for u, v, key in edges) == sorted(map(tuple, graph.edges.tolist()))


def test_attributes_are_what_a_user_expects():
    graph = ComputationGraph.create(
        num_ops=2,
        producer=[0, -1],
        size=[10, 20],
        consumers=[[1], [0]],
        duration=[1.5, 2.0],
        op_names=("a", "b"),
        name="net",
    )
    nx_graph = to_networkx(graph)
    assert nx_graph.name == "net"
    assert nx_graph.nodes[0]["name"] == "a"
    assert nx_graph.nodes[0]["duration"] == 1.5
    assert nx_graph.edges[0, 1, 0] == {"size": 10, "persistent": False, "position": 0}
    row = {"producer": -1, "size": 20, "persistent": False, "consumers": [0]}
    assert nx_graph.graph["tensors"] == {1: row}


def test_plain_graph_gets_defaults():
    graph = from_networkx(nx.DiGraph([("a", "b"), ("a", "c"), ("b", "c")]))
    assert graph.op_names == ("a", "b", "c")
    np.testing.assert_array_equal(graph.producer, [0, 1])
    np.testing.assert_array_equal(graph.consumers.row(0), [1, 2])
    np.testing.assert_array_equal(graph.consumers.row(1), [2])
    np.testing.assert_array_equal(graph.size, [0, 0])
    np.testing.assert_array_equal(graph.duration, [1, 1, 1])
    assert not graph.persistent.any()


def test_integer_labels_are_op_numbers():
    graph = from_networkx(nx.DiGraph([(2, 0), (0, 1)]))
    assert graph.op_names == ()
    np.testing.assert_array_equal(graph.topological_order, [2, 0, 1])


def test_sizes_of_nodes_and_edges():
    nx_graph = nx.DiGraph()
    nx_graph.add_node("a", memory=5, duration=3.0)
    nx_graph.add_node("b", size=6, workspace=4)
    nx_graph.add_edge("a", "b")
    nx_graph.add_edge("b", "c", size=7, persistent=True)
    nx_graph.nodes["c"]["memory"] = 8
    graph = from_networkx(nx_graph)
    np.testing.assert_array_equal(graph.size, [5, 7, 8])
    np.testing.assert_array_equal(graph.persistent, [False, True, False])
    np.testing.assert_array_equal(graph.consumers.lengths(), [1, 1, 0])
    np.testing.assert_array_equal(graph.duration, [3, 1, 1])
    np.testing.assert_array_equal(graph.workspace, [0, 4, 0])


def test_multigraph_has_one_tensor_for_each_producer_and_key():
    nx_graph = nx.MultiDiGraph()
    nx_graph.add_edges_from([(0, 1), (0, 2), (0, 2), (1, 2)])
    graph = from_networkx(nx_graph)
    np.testing.assert_array_equal(graph.producer, [0, 0, 1])
    assert [graph.consumers.row(t).tolist() for t in range(3)] == [[1, 2], [2], [2]]


def test_edited_export():
    """Edges removed and added in networkx count; other tensors stay."""
    graph = ComputationGraph.create(
        num_ops=3, producer=[0, -1], size=[3, 4], consumers=[[1, 2], [0]], persistent=[False, True]
    )
    nx_graph = to_networkx(graph)
    nx_graph.remove_edge(0, 1, key=0)
    nx_graph.add_edge(1, 2, key=2, size=9)
    edited = from_networkx(nx_graph)
    np.testing.assert_array_equal(edited.producer, [0, -1, 1])
    np.testing.assert_array_equal(edited.size, [3, 4, 9])
    assert [edited.consumers.row(t).tolist() for t in range(3)] == [[2], [0], [2]]


def with_edge(**attributes):
    nx_graph = nx.DiGraph([(0, 1), (0, 2)])
    nx_graph.edges[0, 1].update(attributes)
    return nx_graph


def with_node(**attributes):
    nx_graph = nx.DiGraph([(0, 1)])
    nx_graph.nodes[0].update(attributes)
    return nx_graph


def with_table(table):
    nx_graph = nx.MultiDiGraph(tensors=table)
    nx_graph.add_node(0)
    return nx_graph


BAD_GRAPHS = {
    "undirected": (nx.Graph([(0, 1)]), "directed"),
    "cycle": (nx.DiGraph([(0, 1), (1, 0)]), "cycle"),
    "self-loop": (nx.DiGraph([(0, 0)]), "cycle"),
    "two sizes": (with_edge(size=3), "two costs"),
    "position": (with_edge(position="first"), "position"),
    "negative": (with_node(duration=-1.0), "negative"),
    "not finite": (with_node(duration=float("nan")), "finite"),
    "no number": (with_node(duration="long"), "numbers"),
    "fraction": (with_node(memory=1.5), "integers"),
    "boolean": (with_node(demand=True), "boolean"),
    "table": (with_table([1]), "dict"),
    "index": (with_table({0: {"consumers": [7]}}), "7"),
}


@pytest.mark.parametrize("case", BAD_GRAPHS)
def test_bad_graphs_are_rejected(case):
    nx_graph, reason = BAD_GRAPHS[case]
    with pytest.raises(GraphError, match=reason):
        from_networkx(nx_graph)
