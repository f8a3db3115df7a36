"""Bounds by the first or last op of a set: never above the optimum, and sound witnesses only."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement import min_cut, set_bound
from regal_jax.errors import BoundError
from regal_jax.graphs.computation_graph import ComputationGraph
from tests.environments.placement.test_min_cut import least_peak
from tests.strategies import computation_graphs


def branches(count):
    """Each makes 100 of what 0 gave, and keeps 10; whichever is first, the others are to come."""
    return ComputationGraph.create(
        num_ops=2 * count + 2,
        producer=[0, *range(1, 2 * count + 1)],
        size=[count, *([100, 10] * count)],
        consumers=[
            range(1, 2 * count, 2),
            *(readers for op in range(1, 2 * count, 2) for readers in ([op + 1], [2 * count + 1])),
        ],
    )


@pytest.mark.parametrize("count", [2, 5])
def test_one_of_the_branches_is_last(count):
    graph = branches(count)
    cut = min_cut.min_cut_bound(graph).num_bytes
    assert cut == 100 + 10 + count  # beside a branch is 0's
    found = set_bound.set_bound(min_cut.Network(graph), graph.topological_order, cut)
    assert (found.num_bytes, found.is_last) == (100 + 10 + 10 * (count - 1), True)
    assert sorted(found.ops.tolist()) == list(range(2, 2 * count + 1, 2))
    bound = set_bound.certified(graph, found.ops, found.is_last)
    assert bound.num_bytes == found.num_bytes
    set_bound.check_set(graph, bound)
    if count == 2:
        assert found.num_bytes == least_peak(graph)


@settings(max_examples=200)
@given(
    computation_graphs(max_ops=6),
    st.booleans(),
    st.sets(st.integers(0, 5), min_size=1),
)
def test_never_above_the_least_peak_for_any_set(graph, is_last, some):
    least = least_peak(graph)
    found = set_bound.set_bound(min_cut.Network(graph), graph.topological_order, 0)
    assert found.num_bytes <= least
    ops = np.array(sorted(some))
    if ops.max() < graph.num_ops:
        bound = set_bound.certified(graph, ops, is_last)
        assert bound.num_bytes <= least
        set_bound.check_set(graph, bound)


@settings(max_examples=100)
@given(computation_graphs(min_ops=2, max_ops=5), st.randoms(use_true_random=False))
def test_pairs_that_an_order_has_leave_its_peak(graph, random):
    """With all pairs of one order in the network, no bound is above its peak."""
    order = graph.topological_order
    some = [(order[i], order[j]) for i in range(len(order)) for j in range(i + 1, len(order))]
    pairs = np.array(random.sample(some, random.randint(1, len(some))), np.int32)
    found = set_bound.set_bound(min_cut.Network(graph, pairs), order, 0)
    assert found.num_bytes <= min_cut.step_bytes(graph, order).max()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_bytes": 10**6}, "claimed, its flows show"),
        ({"ops": np.array([2, 2])}, "different ops"),
        ({"ops": np.array([2, 99])}, "different ops"),
        ({"ops": np.zeros(0, np.int64)}, "numbers of ops"),
        ({"ops": np.array([2.5])}, "numbers of ops"),
        ({"flows": np.zeros((1, 3), np.int64)}, "its flows must be 3"),
        ({"is_last": False}, "lost|show"),
    ],
)
def test_altered_witnesses_are_refused(change, message):
    graph = branches(3)
    bound = set_bound.certified(graph, np.array([2, 4, 6]), True)
    with pytest.raises(BoundError, match=message):
        set_bound.check_set(graph, dataclasses.replace(bound, **change))
    more = bound.flows.copy()
    more[0, np.flatnonzero(more[0])[0]] += 1
    with pytest.raises(BoundError):
        set_bound.check_set(graph, dataclasses.replace(bound, flows=more))


def test_sets_are_levels_and_ops_that_look_alike():
    graph = branches(4)
    sets = [sorted(ops.tolist()) for ops in set_bound.alike(graph)]
    assert sorted(sets) == [[1, 3, 5, 7], [2, 4, 6, 8]]
