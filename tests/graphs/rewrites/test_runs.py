"""The graph of runs needs what the schedule does, step by step."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.recompute import checker
from regal_jax.graphs.rewrites.runs import graph_of_runs
from regal_jax.search.orders import rules
from regal_jax.search.recompute.search import PlanSearch
from tests.environments.recompute.test_checker import CHAIN
from tests.strategies import computation_graphs


def test_by_hand():
    every = graph_of_runs(CHAIN, [0, 1, 2, 3, 0, 4])
    # weights, batch, first activation, second one, loss, gradient, first activation again, result
    assert every.producer.tolist() == [-1, -1, 0, 1, 2, 3, 4, 5]
    assert every.size.tolist() == [8, 4, 10, 6, 1, 5, 10, 8]
    assert every.consumers.lists() == [[0, 4, 5], [0, 4], [1], [2, 3], [3], [5], [5], []]
    assert every.persistent.tolist() == [True, *[False] * 3, True, False, False, True]
    assert every.duration.tolist() == [3, 2, 1, 2, 3, 4]
    assert every.workspace.tolist() == [0, 2, 0, 0, 0, 0]


@given(computation_graphs(max_ops=7, max_tensors=9), st.floats(0, 1))
@settings(max_examples=50)
def test_bytes_are_those_of_the_schedule(graph, part):
    search = PlanSearch(graph, rules.depth_first(graph), graph.duration)
    plan = search.within(int(part * search.plain.peak), 200) or search.nearest
    every = graph_of_runs(graph, plan.runs.tolist())
    assert checker.usage(every, range(every.num_ops)) == checker.usage(graph, plan.runs)
    np.testing.assert_array_equal(every.duration, graph.duration[plan.runs])
