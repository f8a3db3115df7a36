"""Islands of local search: one a core, the best of all goes on, all are counted."""

import numpy as np
import pytest

import regal_jax as rj
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.native import threads
from regal_jax.options import Budget, Result
from regal_jax.search.local_search import islands, search
from tests.policies.cases import random_graph


def problem_and_start():
    graph = random_graph(3, 40)
    order, placement = graph.topological_order, np.zeros(graph.num_ops, np.int32)
    return PlacementProblem(graph, num_devices=2), (order.astype(np.int32), placement)


@pytest.fixture(params=[1, 2, 3])
def cores(request, monkeypatch):
    monkeypatch.setattr(threads, "num_cores", lambda: request.param)
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 0)
    return request.param


def test_each_core_has_a_search_and_the_best_is_kept(cores):
    problem, start = problem_and_start()
    told = []
    budget = Budget(3000, seed=5, on_progress=lambda *point: told.append(point))
    found = islands.best_of_islands(problem, budget, start)
    alone = [
        search.search(problem, Budget(3000 // cores, 5 + islands.STRIDE * island), start=start)
        for island in range(cores)
    ]
    assert found.cost == found.schedule.cost == min(one.cost for one in alone)
    assert found.evaluations == 3000
    assert told
    assert max(spent for spent, _ in told) <= 3000
    spent, costs = np.array(found.history).T
    assert np.all(np.diff(spent) > 0)
    assert np.all(np.diff(costs) <= 0)


def test_there_are_no_more_islands_than_evaluations(cores):
    problem, start = problem_and_start()
    for count in (1, 2):
        budget = Budget(count, seed=7)
        assert islands.best_of_islands(problem, budget, start).evaluations == count


def test_auto_takes_them_where_time_is_limited(monkeypatch):
    calls = []
    whole = islands.best_of_islands
    monkeypatch.setattr(islands, "best_of_islands", lambda *rest: calls.append(1) or whole(*rest))
    graph = random_graph(3, 40)
    assert rj.optimize(graph, evaluations=5000, seed=1).evaluations <= 5000
    assert not calls
    rj.optimize(graph, time_limit=20.0, evaluations=20_000)
    assert calls


def test_the_history_is_of_all_together():
    first = Result("first", 10, ((1, 9.0), (4, 5.0), (10, 5.0)))
    other = Result("other", 9, ((1, 8.0), (5, 6.0), (9, 4.0)))
    both = islands.together([first, other])
    assert both.schedule == "other"
    assert both.evaluations == 19
    assert both.history == ((2, 8.0), (8, 5.0), (18, 4.0), (19, 4.0))
    assert both.cost == 4.0
