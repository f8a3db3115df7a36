"""Double justification: valid, never longer, and what it does to a schedule made by hand."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.rcpsp import justification
from tests.search.rcpsp.cases import FT06, check_valid, random_machines
from tests.strategies import computation_graphs

SMALL = settings(max_examples=60, deadline=None)
machine_graphs = computation_graphs(max_ops=10, machine_types=3)
factors = st.sampled_from([1.0, 0.1, 1 / 3])


def some_starts(graph, count=5, generation="parallel"):
    rng = np.random.default_rng(0)
    genes = rng.random((count, graph.num_ops), dtype=np.float32)
    return MachineProblem(graph, generation=generation).starts(genes)


@SMALL
@given(machine_graphs, factors)
def test_justified_schedules_are_valid_and_no_longer(graph, factor):
    graph = graph.replace(duration=graph.duration * factor)
    both, start = justification.both_ways(graph), some_starts(graph)
    justified = justification.justify(both, start)
    assert justified.shape == start.shape
    for row in justified:
        check_valid(graph, row)
    before, after = justification.makespans(both, start), justification.makespans(both, justified)
    assert np.all(after <= before)
    assert np.all(after >= both.forwards.lower_bound)


def test_justification_pays():
    """On a job shop and a graph with demands, for most of 50 random schedules."""
    for graph in (FT06, random_machines(1, 80)):
        both, start = justification.both_ways(graph), some_starts(graph, 50)
        justified = justification.justify(both, start)
        before, after = (justification.makespans(both, s) for s in (start, justified))
        assert np.mean(after < before) > 0.5


def test_by_hand():
    """Op 0 (1 us) delays op 1 (2 us), which op 2 (3 us) on the other machine waits for.

    Right-justified, op 0 runs last on its machine (5..6) and ops 1 and 2 from 1 on; to the left,
    op 1 runs at 0, op 0 behind it.
    """
    graph = ComputationGraph.create(
        num_ops=3,
        producer=[1],
        size=[0],
        consumers=[[2]],
        duration=[1, 2, 3],
        machine_type=[0, 0, 1],
        capacity=[1, 1],
    )
    both = justification.both_ways(graph)
    justified = justification.justify(both, np.array([[0.0, 1.0, 3.0]]))
    np.testing.assert_array_equal(justified, [[2.0, 0.0, 2.0]])


@SMALL
@given(machine_graphs, factors)
def test_no_op_gets_later_when_timed_anew(graph, factor):
    graph = graph.replace(duration=graph.duration * factor)
    problem = MachineProblem(graph, generation="serial")
    for start in some_starts(graph):
        for given_start in (start, start + 5):
            anew = justification.retime(problem, given_start)
            check_valid(graph, anew)
            assert np.all(anew <= given_start)


@SMALL
@given(machine_graphs)
def test_timing_an_active_schedule_anew_changes_nothing(graph):
    problem = MachineProblem(graph, generation="serial")
    for start in some_starts(graph, generation="serial"):
        np.testing.assert_array_equal(justification.retime(problem, start), start)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_priorities_are_distinct_and_by_start(start):
    start = np.array([start], float)
    genes = justification.priorities(start)[0]
    assert genes.dtype == np.float32
    assert np.all((genes >= 0) & (genes < 1))
    order = np.argsort(-genes)
    assert len(set(genes.tolist())) == len(genes)
    assert np.all(np.diff(start[0][order]) >= 0)


@SMALL
@given(machine_graphs)
def test_the_reverse_of_a_graph(graph):
    reverse = justification.reverse(graph)
    turned = np.unique(graph.op_pairs[:, ::-1], axis=0)
    np.testing.assert_array_equal(reverse.op_pairs, turned)
    np.testing.assert_array_equal(
        precedence.bottom_levels(reverse) - graph.duration, precedence.top_levels(graph)
    )
    for column in ("duration", "machine_type", "demand", "capacity"):
        np.testing.assert_array_equal(getattr(reverse, column), getattr(graph, column))
