"""Sub-graphs to train on: what they keep, and precedence through ops left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.datasets.makespan_graphs import makespan_graph
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.precedence import closure, unpack
from regal_jax.graphs.rewrites.subgraphs import induced_subgraph, random_subgraph
from tests.strategies import computation_graphs


def numbered(graph):
    """The graph with op i named i, so that ops of its sub-graphs can be told."""
    return graph.replace(op_names=tuple(map(str, range(graph.num_ops))))


def ops_of(part):
    return np.array([int(name) for name in part.op_names], int)


def descendants(graph):
    return unpack(closure(graph))


@given(computation_graphs(), st.integers(1, 14), st.integers(0, 999))
def test_windows_keep_precedence_exactly(graph, num_ops, seed):
    """One op precedes another in the sub-graph if and only if it does in the graph."""
    part = random_subgraph(np.random.default_rng(seed), numbered(graph), num_ops)
    ops = ops_of(part)
    assert part.num_ops == len(set(ops)) == min(num_ops, graph.num_ops)
    np.testing.assert_array_equal(descendants(part), descendants(graph)[np.ix_(ops, ops)])


@given(computation_graphs(), st.integers(1, 14), st.integers(0, 999))
def test_windows_are_convex(graph, num_ops, seed):
    """No op that is left out lies between two that are kept."""
    part = random_subgraph(np.random.default_rng(seed), numbered(graph), num_ops)
    kept = np.isin(np.arange(graph.num_ops), ops_of(part))
    before = descendants(graph)
    assert not np.any(before[kept].any(axis=0) & before[:, kept].any(axis=1) & ~kept)


@given(computation_graphs(labelled=True, machine_types=2), st.data())
def test_induced_subgraphs_keep_costs_and_tensors(graph, data):
    chosen = data.draw(st.sets(st.integers(0, graph.num_ops - 1)))
    ops = np.array(data.draw(st.permutations(sorted(chosen))), int)
    part = induced_subgraph(numbered(graph), ops)
    np.testing.assert_array_equal(ops_of(part), ops)
    for column in ("duration", "workspace", "machine_type", "demand"):
        np.testing.assert_array_equal(getattr(part, column), getattr(graph, column)[ops])
    np.testing.assert_array_equal(part.capacity, graph.capacity)
    assert rows(part) == expected_rows(graph, ops.tolist())


def rows(graph):
    """(producer, size, persistent, consumers) of each tensor."""
    columns = (graph.producer.tolist(), graph.size.tolist(), graph.persistent.tolist())
    return [
        (*row, graph.consumers.row(t).tolist()) for t, row in enumerate(zip(*columns, strict=True))
    ]


def expected_rows(graph, ops):
    """The tensors of the ops, by plain lists."""
    new = {op: i for i, op in enumerate(ops)}
    tensors = []
    for producer, size, persistent, consumers in rows(graph):
        inside = [new[op] for op in consumers if op in new]
        if inside or producer in new:
            tensors.append((new.get(producer, -1), size, persistent, inside))
    return tensors


def test_ops_left_out_by_hand():
    """a -> b -> c -> d: of b and c, a's output is an input and c's has nobody to read it."""
    chain = ComputationGraph.create(
        num_ops=4,
        producer=[-1, 0, 1, 2, 3],
        size=[5, 10, 20, 30, 40],
        consumers=[[0], [1, 3], [2], [3], []],
        duration=[1, 2, 3, 4],
        op_names=("a", "b", "c", "d"),
    )
    part = induced_subgraph(chain, np.array([1, 2]))
    assert part.op_names == ("b", "c")
    assert part.duration.tolist() == [2, 3]
    assert rows(part) == [(-1, 10, False, [0]), (0, 20, False, [1]), (1, 30, False, [])]
    np.testing.assert_array_equal(part.op_pairs, [[0, 1]])


def test_every_window_of_a_small_graph_comes_up():
    """A diamond of ops 0 to 3 in windows of 2: every pair but the two ends, which isn't convex."""
    diamond = ComputationGraph.create(
        num_ops=4, producer=[0, 1, 2], size=[1, 1, 1], consumers=[[1, 2], [3], [3]]
    )
    rng = np.random.default_rng(0)
    windows = {tuple(ops_of(random_subgraph(rng, numbered(diamond), 2))) for _ in range(200)}
    assert windows == {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)}


def test_the_generator_decides():
    graph = numbered(makespan_graph("layered", 0))
    one, same, other = (
        random_subgraph(np.random.default_rng(seed), graph, 25) for seed in (3, 3, 4)
    )
    assert one == same
    assert one.op_names != other.op_names


def test_small_graphs_are_returned_whole():
    graph = makespan_graph("layered", 0, 12)
    assert random_subgraph(np.random.default_rng(0), graph, 12) is graph
    assert random_subgraph(np.random.default_rng(0), graph, 75) is graph


def test_at_least_one_op():
    with pytest.raises(OptionError, match="num_ops is 0"):
        random_subgraph(np.random.default_rng(0), makespan_graph("layered", 0, 12), 0)
