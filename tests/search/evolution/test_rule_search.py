"""Search among rules: exactly the budget, no rule of the pool twice, the best never gets worse."""

import numpy as np
import pytest

import regal_jax as rj
from regal_jax.environments.dispatching import rule
from regal_jax.environments.dispatching.kernel import AT_HOME, FEATURES, TIMED
from regal_jax.options import Budget
from regal_jax.search.evolution import rule_search
from tests.policies.cases import random_graph

PROBLEM = rj.PlacementProblem(random_graph(1, 20), 3)
COLUMNS = rule.columns(PROBLEM)
POOL = rule.random_rules(np.random.default_rng(0), 90, timed=False)


def search(count, promise=rule_search.in_order, **budget):
    return rule_search.search(PROBLEM, COLUMNS, POOL, promise, count, Budget(count, **budget))


@pytest.mark.parametrize("count", [1, 2, 13, 64, 65, 114, 115, 300])
def test_the_budget_is_spent_exactly_and_the_best_never_gets_worse(count):
    reports = []
    found = search(count, on_progress=lambda *report: reports.append(report))
    assert found.evaluations == count == found.history[-1][0]
    assert reports == list(found.history)
    costs = [cost for _, cost in found.history]
    assert costs == sorted(costs, reverse=True)
    assert found.cost == costs[-1]
    population = PROBLEM.fitness(found.population)
    assert len(population) == min(count, rule_search.PARENTS)
    assert population[0] == found.cost == population.min()


def test_a_pool_is_tried_as_promised():
    """Rules whose promise rises with the index, or that is as high as their costs are low."""
    costs = rule.tried(PROBLEM, COLUMNS, POOL).costs
    seen = []

    def last_first(known, done):
        seen.append(np.flatnonzero(done).tolist())
        np.testing.assert_array_equal(known[done], costs[done])
        return np.arange(len(known), dtype=float)

    search(20, last_first)
    assert seen[:6] == [[], [89], [88, 89], [87, 88, 89], [86, 87, 88, 89], [85, 86, 87, 88, 89]]
    assert seen[-1] == list(range(90 - len(seen[-1]), 90))
    assert search(1, lambda known, done: -costs).cost == costs.min()
    assert search(64).cost <= costs[: rule_search.PICKS].min()


def test_it_stops_when_time_is_up():
    found = search(500, deadline=0.0)
    assert found.evaluations == 1
    assert found.cost == rule.tried(PROBLEM, COLUMNS, POOL[:1]).costs[0]


def test_the_same_seed_is_the_same_search():
    one, again, other = (search(400, seed=seed) for seed in (3, 3, 4))
    assert one.history == again.history
    np.testing.assert_array_equal(one.population, again.population)
    assert not np.array_equal(one.population, other.population)


def test_changed_rules_stay_in_range_and_without_times():
    rng = np.random.default_rng(0)
    parents = np.full((2, FEATURES), rule.MOST)
    parents[:, TIMED:] = 0.0
    found = rule_search.changed(rng, parents, 400, timed=False)
    assert found.shape == (400, FEATURES)
    assert not found[:, TIMED:].any()
    assert np.abs(found).max() == rule.MOST
    kept = np.mean(found[:, :TIMED] == rule.MOST)
    assert 0.7 < kept < 0.8  # half aren't changed; half of the changes are beyond what is allowed
    assert np.any(rule_search.changed(rng, parents, 9, timed=True)[:, TIMED:])


@pytest.mark.parametrize(
    ("latency", "seen"),
    [(0.0, [0, 0, 1, 0, 1, 2, 3, 4]), (0.9, [0, 0, 0, 1, 2, 3]), (10.0, [0, 0, 1, 2, 3])],
)
def test_one_device_is_tried_early_where_transfers_take_long(latency, seen):
    """As parts of all the work; ``seen`` is how many rules of the pool were tried at each look."""
    graph = random_graph(1, 20)
    away = rule.MOST * np.eye(FEATURES)[AT_HOME]  # each op is where its inputs aren't
    work, pool, looks = graph.duration.sum(), np.stack([away, *POOL]), []

    def promise(known, done):
        looks.append(int(done.sum()))
        return rule_search.in_order(known, done)

    problem = rj.PlacementProblem(graph, 3, "makespan", latency=latency * work)
    columns = rule.columns(problem)
    first = rule.tried(problem, columns, pool[:1])
    assert (first.costs[0] > work) == (latency > 0.0)
    found = [
        rule_search.search(problem, columns, pool, promise, count, Budget(count))
        for count in (1, 2, 5)
    ]
    assert looks == seen
    assert [one.evaluations for one in found] == [1, 2, 5]
    alone = [one.cost == pytest.approx(work, rel=1e-6) for one in found[:2]]
    assert alone == [latency >= 1.0, latency > 0.0]
    if latency:
        assert len(set(found[1].schedule.placement.tolist())) == 1
    else:
        assert found[0].cost == first.costs[0]
