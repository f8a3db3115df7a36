"""Relations between ops against networkx, and their padding."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.relations import (
    AFTER,
    BEFORE,
    INCOMPARABLE,
    UNRELATED,
    relations,
)
from tests.oracles.ordering import graph_of, plain_pairs
from tests.strategies import computation_graphs


def as_networkx(graph: ComputationGraph) -> nx.DiGraph:
    simple = nx.DiGraph()
    simple.add_nodes_from(range(graph.num_ops))
    simple.add_edges_from(plain_pairs(graph))
    return simple


def diamond() -> ComputationGraph:
    """0 -> 1, 2 -> 3, the shortcut 0 -> 3 by a tensor of its own and by the one for 1; 4 alone."""
    return ComputationGraph.create(
        num_ops=5,
        producer=[0, 0, 1, 2, -1],
        size=[1] * 5,
        consumers=[[1, 3], [2, 3], [3], [3], [4, 0]],
    )


def test_by_hand():
    found = relations(diamond())
    ends = np.stack([found.senders, found.receivers], axis=1)
    assert ends.tolist() == [[0, 1], [0, 2], [0, 3], [1, 3], [2, 3]]
    assert found.reduced.tolist() == [True, True, False, True, True]
    assert found.real.tolist() == [True] * 5
    neither, joined = INCOMPARABLE, UNRELATED
    assert found.code.tolist() == [
        [joined, joined, joined, joined, neither],
        [joined, joined, neither, joined, neither],
        [joined, neither, joined, joined, neither],
        [joined, joined, joined, joined, neither],
        [neither, neither, neither, neither, joined],
    ]


def test_before_and_after_are_of_the_second_op():
    """0 -> 1 -> 2: for op 0, op 2 is after."""
    code = relations(graph_of(3, [(0, 1), (1, 2)])).code
    assert code.dtype == np.uint8
    assert code.tolist() == [[0, 0, AFTER], [0, 0, 0], [BEFORE, 0, 0]]


@given(computation_graphs())
def test_relations_are_those_of_networkx(graph):
    found, simple = relations(graph), as_networkx(graph)
    edges = list(zip(found.senders.tolist(), found.receivers.tolist(), strict=True))
    assert sorted(edges) == sorted(simple.edges)
    kept = {edge for edge, reduced in zip(edges, found.reduced, strict=True) if reduced}
    assert kept == set(nx.transitive_reduction(simple).edges)
    for op in range(graph.num_ops):
        before, after = nx.ancestors(simple, op), nx.descendants(simple, op)
        beside = set(range(graph.num_ops)) - before - after - {op}
        joined = set(nx.all_neighbors(simple, op))
        assert set(np.flatnonzero(found.code[op] == BEFORE)) == before - joined
        assert set(np.flatnonzero(found.code[op] == AFTER)) == after - joined
        assert set(np.flatnonzero(found.code[op] == INCOMPARABLE)) == beside


@given(computation_graphs())
def test_two_ops_are_related_in_exactly_one_way(graph):
    found = relations(graph)
    ways = np.zeros((graph.num_ops, graph.num_ops), int)
    for code in (BEFORE, AFTER, INCOMPARABLE):
        ways += found.code == code
    for chosen in (found.reduced, ~found.reduced):
        np.add.at(ways, (found.senders[chosen], found.receivers[chosen]), 1)
        np.add.at(ways, (found.receivers[chosen], found.senders[chosen]), 1)
    np.testing.assert_array_equal(ways, 1 - np.eye(graph.num_ops, dtype=int))
    np.testing.assert_array_equal(found.code == BEFORE, (found.code == AFTER).T)


@given(computation_graphs())
def test_padding_is_related_to_nothing(graph):
    exact, padded = relations(graph), relations(graph, 15, 80)
    num_ops, num_edges = graph.num_ops, len(exact.senders)
    assert padded.code.shape == (15, 15)
    assert padded.real.tolist() == [True] * num_ops + [False] * (15 - num_ops)
    np.testing.assert_array_equal(padded.code[:num_ops, :num_ops], exact.code)
    assert not padded.code[num_ops:].any()
    assert not padded.code[:, num_ops:].any()
    for name in ("senders", "receivers"):
        assert padded[name].dtype == np.int32
        np.testing.assert_array_equal(padded[name][:num_edges], exact[name])
        assert padded[name][num_edges:].tolist() == [15] * (80 - num_edges)
    np.testing.assert_array_equal(padded.reduced[:num_edges], exact.reduced)
    assert not padded.reduced[num_edges:].any()


def test_machine_types_are_there_where_asked_for():
    graph = diamond().replace(machine_type=np.array([2, 0, 1, 0, 2], np.int32))
    assert relations(graph).machine_type is None
    assert relations(graph, 7, 9, machines=True).machine_type.tolist() == [2, 0, 1, 0, 2, -1, -1]


def test_one_op_and_ops_without_edges():
    one = relations(graph_of(1, []))
    assert (one.code.tolist(), one.senders.shape, one.real.tolist()) == ([[0]], (0,), [True])
    three = relations(graph_of(3, []))
    np.testing.assert_array_equal(three.code, INCOMPARABLE * (1 - np.eye(3, dtype=int)))
    assert relations(graph_of(3, []), 4, 2).senders.tolist() == [4, 4]


@pytest.mark.parametrize("sizes", [(4, 5), (5, 4), (4, None), (None, 4)])
def test_a_graph_that_does_not_fit(sizes):
    with pytest.raises(OptionError, match="does not fit"):
        relations(diamond(), *sizes)
    assert relations(diamond(), 5, 5).real.all()
