"""CP-SAT's least work equals that of every schedule in its model, on tiny graphs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.search.cp_sat import recompute
from regal_jax.search.orders import rules
from tests.environments.recompute.test_checker import AGAIN
from tests.oracles import recomputation as oracle
from tests.oracles.schedule_cost import plain
from tests.strategies import computation_graphs

pytest.importorskip("ortools")


def staged(order, most_runs):
    """Every schedule in which some earlier ops run again, in order, before each op's first run."""
    some = [list(itertools.product([False, True], repeat=stage)) for stage in range(len(order))]
    for choice in itertools.product(*some):
        runs = [
            order[place]
            for stage, again in enumerate(choice)
            for place in [*np.flatnonzero(again), stage]
        ]
        if max(map(runs.count, order)) <= most_runs:
            yield runs


@given(computation_graphs(max_ops=4, max_tensors=7), st.floats(0.3, 1), st.integers(0, 9))
@settings(max_examples=25)
def test_the_least_work_of_all_in_the_model(graph, part, seed):
    order = rules.random_order(graph, seed)
    peak = max(oracle.usage(plain(graph), order.tolist()))
    limit = int(part * peak)
    works = [
        sum(graph.duration[op] for op in runs)
        for runs in staged(order.tolist(), 2)
        if oracle.is_valid(plain(graph), runs) and max(oracle.usage(plain(graph), runs)) <= limit
    ]
    solved = recompute.solve(graph, order, limit, seconds=30)
    assert solved.optimal
    assert solved.work == solved.bound == min(works, default=np.inf)
    if solved.runs is not None:
        assert max(oracle.usage(plain(graph), solved.runs.tolist())) <= limit


def test_a_chain_by_hand():
    order = np.arange(5)
    again = recompute.solve(AGAIN, order, 28, seconds=10, hint=np.array([0, 1, 2, 3, 0, 4]))
    assert again.runs.tolist() == [0, 1, 2, 3, 0, 4]
    assert (again.work, again.optimal) == (15.0, True)
    assert recompute.solve(AGAIN, order, 30, seconds=10).work == 12.0
    assert recompute.solve(AGAIN, order, 25, seconds=10).bound == np.inf
    unsolved = recompute.solve(AGAIN, order, 28, seconds=0)
    assert (unsolved.runs, unsolved.bound, unsolved.optimal) == (None, 12.0, False)
