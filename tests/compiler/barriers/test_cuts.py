import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.compiler.barriers.cuts import live_bytes, valleys
from tests.compiler.barriers.programs import kernels_of, random_function, random_order, traced


def prominence(heights, place):
    """How far one must climb from a place to reach a lower one, or an equal one before it."""
    climbs = []
    for step in (-1, 1):
        top, here = heights[place], place
        while 0 < here + step < len(heights) - 1:
            here += step
            top = max(top, heights[here])
            if (heights[here], here) < (heights[place], place):
                climbs.append(top - heights[place])
                break
    return min(climbs, default=float("inf"))


@given(st.lists(st.integers(0, 6), max_size=14))
def test_valleys_are_by_prominence(heights):
    found = valleys(np.array([0, *heights, 0]))
    of = {place: prominence([0, *heights, 0], place) for place in range(1, len(heights) + 1)}
    assert sorted(found) == sorted(place for place, rise in of.items() if rise > 0)
    assert [of[place] for place in found] == sorted((of[p] for p in found), reverse=True)


def test_a_walk_by_hand():
    assert valleys(np.array([0, 5, 2, 6, 1, 4, 3, 7, 0])) == [4, 2, 6]
    assert valleys(np.array([0, 0])) == []


@given(st.integers(0, 10**6))
def test_live_bytes_are_counted(seed):
    graph = kernels_of(traced(random_function(seed))).graph
    order = random_order(graph, seed)
    live = live_bytes(graph, order)
    for place in range(graph.num_ops + 1):
        done, rest = set(order[:place]), set(order[place:])
        assert live[place] == sum(
            int(graph.size[tensor])
            for tensor in range(graph.num_tensors)
            if graph.producer[tensor] in done
            and not graph.persistent[tensor]
            and rest.intersection(graph.consumers.row(tensor).tolist())
        )
