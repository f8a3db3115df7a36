"""Dispatching rules: equal to their definition step by step, and their chromosomes decode so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regal_jax as rj
from regal_jax.environments.dispatching import rule
from regal_jax.environments.dispatching.kernel import FEATURES, NAMES, TIMED
from regal_jax.environments.dispatching.rule import Tried
from regal_jax.errors import OptionError
from tests.oracles import dispatching as oracle
from tests.policies.cases import chain, random_graph
from tests.strategies import computation_graphs


def problems_of(graph):
    yield rj.PlacementProblem(graph, 1)
    yield rj.PlacementProblem(graph, 3, memory_capacity=300)
    yield rj.PlacementProblem(graph, 2, "makespan", latency=0.7, per_byte=0.013)


def weights_of(seed, timed):
    return np.sinh(rule.random_rules(np.random.default_rng(seed), 1, timed=timed) / 3.0)


@pytest.mark.parametrize("seed", range(20))
def test_schedules_are_those_of_the_definition(seed):
    graph = random_graph(seed, 9)
    persistent = np.random.default_rng(seed).random(graph.num_tensors) < 0.2
    for problem in problems_of(graph.replace(persistent=persistent)):
        columns = rule.columns(problem)
        weights = weights_of(seed, problem.objective == "makespan")
        orders, placements = rule.dispatched(columns, problem.num_devices, weights)
        order, placement, margin = oracle.dispatched(problem, columns.scales, weights[0])
        assert margin > 1e-9
        assert orders[0].tolist() == order
        assert placements[0].tolist() == placement


@given(computation_graphs(max_ops=6), st.integers(0, 100))
def test_chromosomes_decode_to_the_schedules(graph, seed):
    for problem in problems_of(graph):
        columns = rule.columns(problem)
        weights = weights_of(seed, problem.objective == "makespan")
        orders, placements = rule.dispatched(columns, problem.num_devices, weights)
        schedule = problem.decode(rule.chromosomes(columns, problem.num_devices, weights)[0])
        assert schedule.placement.tolist() == placements[0].tolist()
        decoded = schedule.steps[schedule.steps < graph.num_ops]
        assert decoded.tolist() == orders[0].tolist()
        rj.evaluate(graph, schedule)


def test_known_rules():
    """Against place in program order it is program order; for the tail, critical path first."""
    graph = random_graph(3, 12)
    problem = rj.PlacementProblem(graph, 1, "makespan")
    columns = rule.columns(problem)
    weights = np.zeros((2, FEATURES))
    weights[0, NAMES.index("place")] = 1.0
    weights[1, NAMES.index("tail")], weights[1, NAMES.index("work")] = -1.0, -1.0
    orders, _ = rule.dispatched(columns, 1, weights)
    assert orders[0].tolist() == graph.topological_order.tolist()
    at = np.argsort(orders[1])
    path = columns.tail + columns.duration
    before = {op: graph.edges[graph.edges[:, 2] == op, 0] for op in range(12)}
    for step, op in enumerate(orders[1]):
        waiting = [one for one in range(12) if at[one] >= step and np.all(at[before[one]] < step)]
        assert path[op] == max(path[other] for other in waiting)


def test_many_rules_are_each_alone():
    """Whatever else is in a batch, and however many threads work on it."""
    problem = rj.PlacementProblem(random_graph(5, 300), 4, "makespan", latency=1.0)
    columns = rule.columns(problem)
    weights = np.sinh(rule.random_rules(np.random.default_rng(0), 70, timed=True))
    together = rule.dispatched(columns, 4, weights)
    for row in (0, 33, 69):
        alone = rule.dispatched(columns, 4, weights[row : row + 1])
        for many, one in zip(together, alone, strict=True):
            np.testing.assert_array_equal(many[row], one[0])


@pytest.mark.parametrize(
    "weights", [np.zeros(FEATURES), np.zeros((1, 3)), np.full((1, FEATURES), np.nan)]
)
def test_weights_of_another_shape_or_none_are_refused(weights):
    with pytest.raises(OptionError, match="weights must be finite"):
        rule.dispatched(rule.columns(rj.PlacementProblem(chain(3), 2)), 2, weights)


def test_the_best_of_two_batches_has_each_cost_once_if_it_can():
    def made(costs):
        rows = np.asarray(costs, float)[:, None]
        return Tried(rows, rows, rows[:, 0])

    one, other = made([3.0, 1.0, 1.0]), made([2.0, 3.0])
    assert one.and_best(other, 3).costs.tolist() == [1.0, 2.0, 3.0]
    assert one.and_best(other, 5).costs.tolist() == [1.0, 2.0, 3.0, 1.0, 3.0]
    best = one.and_best(other, 4)
    np.testing.assert_array_equal(best.rules[:, 0], best.costs)


def test_random_rules_are_bounded_and_without_times_unless_they_count():
    rules = rule.random_rules(np.random.default_rng(0), 500, timed=False)
    assert not rules[:, TIMED:].any()
    assert np.abs(rules).max() == rule.MOST
    timed = rule.random_rules(np.random.default_rng(0), 500, timed=True)
    assert 0.3 < np.mean(timed != 0.0) < 0.5
    assert np.all((timed <= 0) | ~np.isin(NAMES, rule.WANTED))


@given(computation_graphs(max_ops=6))
def test_live_bytes_are_those_of_program_order(graph):
    order = graph.topological_order
    problem = rj.PlacementProblem(graph, 1)
    live = rule.live_bytes(graph)
    bare = rj.PlacementProblem(graph.replace(workspace=0 * graph.workspace), 1)
    weights = np.eye(FEATURES)[[NAMES.index("place")]]
    genes = rule.chromosomes(rule.columns(problem), 1, weights)
    assert bare.fitness(genes)[0] == pytest.approx(live.max(initial=0.0))
    assert len(live) == len(order)


def test_pairs_are_those_of_program_order():
    graph = random_graph(7, 15)
    problem = rj.PlacementProblem(graph, 3)
    dispatcher, pairs = oracle.Dispatcher(problem, 1.0, 1.0), 0
    for op in graph.topological_order:
        pairs += 3 * len(dispatcher.ready())
        dispatcher.run(int(op), 0)
    assert rule.num_pairs(problem) == pairs
    assert rule.most_rules(problem, 3 * pairs) == 3
    assert rule.most_rules(problem, 3 * pairs - 1) == 2
