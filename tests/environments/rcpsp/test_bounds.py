"""Lower bounds of machine problems: by hand, and never above the optimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.rcpsp.bounds import makespan_bound
from regal_jax.environments.rcpsp.problem import MachineProblem
from tests.environments.rcpsp.cases import genes, graph_of, machine_graphs
from tests.oracles import machine_scheduling as oracle


def test_longest_path():
    graph = graph_of([(0, 1), (1, 2)], capacity=[9], duration=[1.5, 2, 3])
    assert makespan_bound(graph) == 6.5


def test_area_between_head_and_tail():
    """Op 0, then 1 to 5 on two units, then op 6: 3 + ceil(5 * 3 / 2) + 4."""
    edges = [(0, op) for op in range(1, 6)] + [(op, 6) for op in range(1, 6)]
    columns = {"machine_type": [0, 1, 1, 1, 1, 1, 0], "capacity": [1, 2]}
    graph = graph_of(edges, duration=[3, *[3] * 5, 4], **columns)
    assert makespan_bound(graph) == 3 + 8 + 4
    halves = graph_of(edges, duration=[2.5, *[3] * 5, 4], **columns)
    assert makespan_bound(halves) == pytest.approx(2.5 + 7.5 + 4, rel=1e-12)
    assert makespan_bound(halves) <= 14


def test_ops_that_come_late_or_have_long_tails():
    """An early, short op of the type doesn't spoil the bound of the others."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
    columns = {"machine_type": [0, 1, 1, 0, 1], "capacity": [1, 1]}
    graph = graph_of(edges, duration=[10, 5, 5, 10, 1], **columns)
    assert makespan_bound(graph) == 10 + (5 + 5) + 10
    alone = graph_of(edges[2:], duration=[0, 5, 5, 10, 1], **columns)
    assert makespan_bound(alone) == 5 + 5 + 10


def test_nothing_to_do():
    assert makespan_bound(graph_of([], capacity=[0], demand=[0, 0], duration=[0, 2])) == 2
    assert makespan_bound(graph_of([], capacity=[1], duration=[0, 0])) == 0


def test_large_whole_numbers_are_exact():
    graph = graph_of([], capacity=[2**40], demand=[2**40] * 3, duration=[2.0**50 + 1, 1, 1])
    assert makespan_bound(graph) == 2.0**50 + 3


@settings(max_examples=60)
@given(machine_graphs(5, whole=True))
def test_never_above_the_optimum(graph):
    assert makespan_bound(graph) <= oracle.least_by_integers(oracle.plain_machines(graph))


@settings(max_examples=300)
@given(machine_graphs(), st.data())
def test_never_above_a_schedule(graph, data):
    rows = data.draw(genes(graph.num_ops))
    bound = makespan_bound(graph)
    assert bound >= max(graph.duration.max(), 0)
    for generation in ("parallel", "serial"):
        assert MachineProblem(graph, generation=generation).makespans(rows).min() >= bound


def test_one_unit_without_idle_time():
    graph = graph_of([], capacity=[1], duration=np.full(1000, 0.1))
    exact = MachineProblem(graph).makespans(np.zeros((1, 1000)))[0]
    assert makespan_bound(graph) <= exact
    assert makespan_bound(graph) == pytest.approx(100, rel=1e-12)
