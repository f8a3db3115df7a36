"""Sequencing: conflicts and what is known of them are those of the definition."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.datasets.job_shop import uniform_job_shops
from regal_jax.environments.choosing.kernel import MOST, Network
from regal_jax.environments.rcpsp import checker
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.environments.sequencing import choices
from regal_jax.environments.sequencing.choices import BACKWARDS, SEQUENCING
from regal_jax.environments.sequencing.kernel import FEATURES, NAMES
from regal_jax.errors import OptionError
from tests.environments.rcpsp.cases import graph_of, machine_graphs, random_graph
from tests.oracles.sequencing import Sequencer

EVEN = SEQUENCING.linear({})


def seeds(count):
    return np.arange(count, dtype=np.uint64)


@given(machine_graphs(max_ops=8, whole=True), st.integers(0, 50))
def test_choices_are_those_of_the_definition(graph, seed):
    columns, sequencer = SEQUENCING.columns(graph), Sequencer(graph)
    orders, makespans = SEQUENCING.drawn(columns, EVEN, np.array([seed], np.uint64), 1.0)
    found, at = SEQUENCING.choices(columns, orders[0]), 0
    for op in orders[0].tolist():
        conflict = sequencer.conflict()
        assert op in conflict
        if len(conflict) > 1:
            assert found.counts[at] == len(conflict)
            assert found.chosen[at] == conflict.index(op)
            expected = [[row[name] for name in NAMES] for row in sequencer.rows()]
            rows = found.rows[at]
            np.testing.assert_allclose(rows[: len(conflict)], expected, rtol=1e-5, atol=1e-6)
            assert not rows[len(conflict) :].any()
            at += 1
        sequencer.run(op)
    assert at == len(found.counts)
    ends = [start + graph.duration[op] for op, start in sequencer.start.items()]
    assert makespans[0] == max(ends)


@given(machine_graphs(max_ops=10))
def test_serial_generation_makes_no_longer_schedules_of_the_orders(graph):
    problem = MachineProblem(graph, generation="serial")
    orders, makespans = SEQUENCING.drawn(SEQUENCING.columns(graph), EVEN, seeds(5), 1.0)
    genes = choices.priorities(problem, orders)
    assert np.all(problem.makespans(genes) <= makespans * (1 + 1e-12))
    assert np.all(makespans >= problem.lower_bound * (1 - 1e-12))
    checker.evaluate_machines(graph, problem.decode(genes[0]))


def test_the_reverse_of_a_backward_order_makes_no_longer_schedules():
    """On machines of one unit; on others it makes some valid schedule."""
    for graph in uniform_job_shops(6, 4, count=4):
        problem = MachineProblem(graph, generation="serial")
        orders, makespans = BACKWARDS.drawn(BACKWARDS.columns(graph), EVEN, seeds(30), 1.0)
        later = problem.makespans(choices.priorities(problem, orders[:, ::-1]))
        assert np.all(later <= makespans * (1 + 1e-12))
        assert np.any(later < makespans)


@given(machine_graphs(max_ops=10))
def test_the_reverse_of_a_backward_order_is_an_order_of_the_graph(graph):
    orders, _ = BACKWARDS.drawn(BACKWARDS.columns(graph), EVEN, seeds(3), 1.0)
    at = np.argsort(orders[:, ::-1], axis=1)
    before, after = graph.op_pairs.T
    assert np.all(at[:, before] < at[:, after])


def test_larger_graphs_and_many_units():
    graph = random_graph(3, 300)
    columns, problem = SEQUENCING.columns(graph), MachineProblem(graph, generation="serial")
    orders, makespans = SEQUENCING.drawn(columns, EVEN, seeds(20), 1.0)
    assert np.all(np.sort(orders, axis=1) == np.arange(300))
    assert np.all(problem.makespans(choices.priorities(problem, orders)) <= makespans)
    alone = SEQUENCING.drawn(columns, EVEN, seeds(20)[7:8], 1.0)
    np.testing.assert_array_equal(alone[0][0], orders[7])
    assert len(np.unique(makespans)) > 5


def test_the_best_of_active_schedules_is_optimal():
    """On job shops of 2 x 3 all orders of priorities are tried by serial generation."""
    for graph in uniform_job_shops(3, 2, count=6):
        problem = MachineProblem(graph, generation="serial")
        ranks = np.array(list(itertools.permutations(range(6))), np.float32)
        drawn = SEQUENCING.drawn(SEQUENCING.columns(graph), EVEN, seeds(300), 1.0)[1]
        assert drawn.min() == problem.makespans(ranks / 6).min()


def test_a_rule_is_the_weighted_sum_of_names():
    graph = uniform_job_shops(8, 4, count=1)[0]
    columns, sequencer = SEQUENCING.columns(graph), Sequencer(graph)
    rule = {"tail": 1.0, "over": -2.0, "next_load": 0.3}
    order = SEQUENCING.drawn(columns, SEQUENCING.linear(rule), seeds(1), 0.0)[0][0]
    for op in order.tolist():
        conflict, best = sequencer.conflict(), 0
        if len(conflict) > 1:
            rows = sequencer.rows()
            best = int(np.argmax([sum(w * row[n] for n, w in rule.items()) for row in rows]))
        assert op == conflict[best]
        sequencer.run(op)


def test_a_network_is_its_definition():
    rng = np.random.default_rng(0)
    shapes = {"first": (FEATURES, 5), "first_bias": (5,), "second": (5, 5)}
    shapes |= {"second_bias": (5,), "last": (5,)}
    network = Network(
        **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    )
    graph = uniform_job_shops(6, 6, count=1)[0]
    columns = SEQUENCING.columns(graph)
    order = SEQUENCING.drawn(columns, network, seeds(1), 0.0)[0][0]
    found = SEQUENCING.choices(columns, order)
    hidden = np.maximum(found.rows @ network.first + network.first_bias, 0.0)
    logits = np.maximum(hidden @ network.second + network.second_bias, 0.0) @ network.last
    logits[np.arange(MOST) >= found.counts[:, None]] = -np.inf
    np.testing.assert_array_equal(found.chosen, logits.argmax(axis=1))


def test_choices_are_drawn_by_their_probabilities():
    """Two ops of one machine: the first of the order is drawn by the softmax of two logits."""
    graph = graph_of([], capacity=[1], duration=[2.0, 3.0], machine_type=[0, 0], demand=[1, 1])
    columns = SEQUENCING.columns(graph)
    orders, _ = SEQUENCING.drawn(columns, SEQUENCING.linear({"duration": 4.0}), seeds(20_000), 1.0)
    logit = 4.0 * (3.0 - 2.0) / columns.unit
    share = 1.0 / (1.0 + np.exp(-logit))
    assert np.mean(orders[:, 0] == 1) == pytest.approx(share, abs=4 * 0.5 / 20_000**0.5)


def test_very_many_units_are_refused():
    graph = graph_of([], capacity=[10**9], duration=[1.0], machine_type=[0], demand=[1])
    with pytest.raises(OptionError, match=r"up to 1,000,000 units of machines, not 1,000,000,000"):
        SEQUENCING.columns(graph)
