"""Bounds with transfers: by hand, never above the optimum, and as tight as paths without them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regal_jax as rj
from regal_jax.environments.placement import arrivals, bounds
from regal_jax.environments.platform import Platform
from regal_jax.errors import BoundError
from tests.oracles.exhaustive_search import least_makespan
from tests.oracles.schedule_cost import plain
from tests.strategies import computation_graphs


def join(durations, sizes):
    """Ops that the last one reads, a tensor each."""
    last = len(durations) - 1
    return rj.ComputationGraph.create(
        num_ops=len(durations),
        producer=list(range(last)),
        size=sizes,
        consumers=[[last]] * last,
        duration=durations,
    )


@pytest.mark.parametrize(
    ("per_byte", "head"),
    [
        (0.0, 5),  # apart, 5 is the longest
        (0.5, 6),  # 5 at home; 4 arrives at 6 from elsewhere, 2 at 2.5
        (2.0, 9),  # 5 and 4 at home; 2 arrives at 4
        (9.0, 11),  # all at home: 2 would arrive at 11
        (99.0, 11),
    ],
)
def test_by_hand(per_byte, head):
    graph = join([5, 4, 2, 1], [10, 4, 1])
    found = arrivals.ends(graph, Platform(4, per_byte=per_byte))
    assert found.heads.tolist() == [0, 0, 0, head]
    assert found.exact
    bound = rj.lower_bound(graph, objective="makespan", num_devices=4, per_byte=per_byte)
    assert bound.value == head + 1
    assert least_makespan(plain(graph), 4, per_byte=per_byte) == head + 1


def test_tails_are_heads_of_the_reversed_graph():
    graph = rj.ComputationGraph.create(
        num_ops=4, producer=[0], size=[4], consumers=[[1, 2, 3]], duration=[1, 5, 4, 2]
    )
    found = arrivals.ends(graph, Platform(3, latency=1.0, per_byte=0.5))
    assert found.tails.tolist() == [7, 0, 0, 0]  # 5 and 2 at home; 4 elsewhere, 3 later
    bound = rj.lower_bound(graph, objective="makespan", latency=1.0, per_byte=0.5)
    assert (bound.value, bound.kind, bound.witness) == (8, "arrivals", (0,))


def test_altered_arrivals_are_refused():
    graph = join([5, 4, 2, 1], [10, 4, 1])
    bound = rj.lower_bound(graph, objective="makespan", num_devices=4, per_byte=2.0)
    rj.check_bound(graph, bound)
    for change, message in [
        ({"value": 11}, "11 is claimed, its arrivals shows 10"),
        ({"per_byte": 0.5}, "its arrivals shows 7"),
        ({"num_devices": 1}, "its arrivals shows"),
        ({"witness": (0, 1)}, "arrivals are of one op"),
        ({"witness": None}, "numbers of ops"),
    ]:
        with pytest.raises(BoundError, match=message):
            rj.check_bound(graph, dataclasses.replace(bound, **change))


@settings(max_examples=60, deadline=None)
@given(
    computation_graphs(max_ops=5),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.3, 2.0, 50.0]),
    st.sampled_from([0.0, 0.01, 0.37]),
    st.sampled_from([1.0, 1 / 3]),
)
def test_never_above_the_least_makespan(graph, num_devices, latency, per_byte, scale):
    graph = graph.replace(duration=graph.duration * scale)
    prices = {"latency": latency, "per_byte": per_byte}
    bound = rj.lower_bound(graph, objective="makespan", num_devices=num_devices, **prices)
    rj.check_bound(graph, bound)
    assert bound.value <= least_makespan(plain(graph), num_devices, **prices)
    problem = rj.PlacementProblem(graph, num_devices, "makespan", **prices)
    assert bound.value == problem.lower_bound


@settings(max_examples=60, deadline=None)
@given(computation_graphs(), st.integers(0, 10**6))
def test_never_above_a_schedule(graph, seed):
    rng = np.random.default_rng(seed)
    graph = graph.replace(duration=rng.exponential(1.0, graph.num_ops))
    latency, per_byte = rng.exponential(1.0), rng.exponential(0.01)
    problem = rj.PlacementProblem(graph, 3, "makespan", latency=latency, per_byte=per_byte)
    genes = rng.random((20, problem.num_genes), np.float32)
    assert problem.fitness(genes).min() >= problem.lower_bound
    free = bounds.makespan_bound(graph, Platform(3))
    assert problem.lower_bound >= free * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(computation_graphs())
def test_free_transfers_are_paths(graph):
    found = arrivals.ends(graph, Platform(2))
    np.testing.assert_array_equal(found.heads, rj.graphs.precedence.top_levels(graph))
