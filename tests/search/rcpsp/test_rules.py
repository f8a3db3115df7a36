"""Priority rules against their definitions, path by path, on small graphs."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.rcpsp import rules
from regal_jax.search.rcpsp.rules import RULES
from tests.strategies import computation_graphs

SMALL = settings(max_examples=60, deadline=None)
machine_graphs = computation_graphs(max_ops=9, machine_types=3)


def as_networkx(graph):
    digraph = nx.DiGraph()
    digraph.add_nodes_from(range(graph.num_ops))
    digraph.add_edges_from(graph.edges[:, [0, 2]].tolist())
    return digraph


def paths_from(digraph, op):
    """Every path that begins at an op."""
    yield [op]
    for successor in digraph.successors(op):
        for path in paths_from(digraph, successor):
            yield [op, *path]


def definitions(graph):
    """{rule: [O]}, by enumeration of all paths and descendants."""
    forwards = as_networkx(graph)
    backwards = forwards.reverse()
    duration = graph.duration.tolist()
    share = [d / graph.capacity[m] for d, m in zip(graph.demand, graph.machine_type, strict=True)]
    ops = range(graph.num_ops)

    def longest(digraph, op, weight):
        return max(sum(weight[v] for v in path) for path in paths_from(digraph, op))

    tail = [longest(forwards, op, duration) for op in ops]
    head = [longest(backwards, op, duration) for op in ops]
    reached = [nx.descendants(forwards, op) for op in ops]
    return {
        "critical_path": tail,
        "mopnr": [longest(forwards, op, [1] * graph.num_ops) for op in ops],
        "spt": [-d for d in duration],
        "lpt": duration,
        "tetris": share,
        "most_work_remaining": [duration[v] + sum(duration[w] for w in reached[v]) for v in ops],
        "most_successors": [len(reached[v]) for v in ops],
        "latest_finish": [tail[v] - duration[v] for v in ops],
        "least_slack": [head[v] + tail[v] - duration[v] for v in ops],
        "rank_positional_weight": [
            duration[v] + sum(duration[w] for w in forwards.successors(v)) for v in ops
        ],
        "greatest_resource_demand": [d * s for d, s in zip(duration, share, strict=True)],
    }


@SMALL
@given(machine_graphs)
def test_rules_are_what_they_say(graph):
    expected = definitions(graph)
    assert set(expected) == set(RULES)
    for name, rule in RULES.items():
        priority = rule(graph)
        assert priority.dtype == np.float64
        np.testing.assert_array_equal(priority, expected[name], err_msg=name)


def test_rules_see_past_one_word_of_a_closure():
    """A chain of 150 ops, op 0 last, and one op apart."""
    graph = ComputationGraph.create(
        num_ops=151,
        producer=list(range(1, 150)),
        size=[1] * 149,
        consumers=[[op] for op in range(149)],
        duration=range(151),
        capacity=[1],
    )
    below = np.append(np.arange(150), 0)
    np.testing.assert_array_equal(RULES["most_successors"](graph), below)
    work = np.append(np.cumsum(np.arange(150)), 150)
    np.testing.assert_array_equal(RULES["most_work_remaining"](graph), work)
    np.testing.assert_array_equal(RULES["critical_path"](graph), work)


def test_demand_needs_a_capacity():
    graph = ComputationGraph.create(num_ops=1, producer=[], size=[], consumers=[])
    with pytest.raises(OptionError, match="capacities"):
        RULES["tetris"](graph)


def test_no_capacity_and_no_demand_has_no_share():
    graph = ComputationGraph.create(
        num_ops=1, producer=[], size=[], consumers=[], demand=[0], capacity=[0]
    )
    assert RULES["tetris"](graph).tolist() == [0.0]


priorities = st.lists(st.sampled_from([-3.0, 0.0, 1e-30, 0.1, 7.0, 2.0**60]), max_size=12).map(
    lambda values: np.array(values, np.float64)
)


def by_priority(priority, *, last=False):
    """Op indices, highest priority first."""
    sign = -1 if last else 1
    return sorted(range(len(priority)), key=lambda op: (-priority[op], sign * op))


@given(priorities)
def test_genes_keep_the_order_and_the_ties(priority):
    genes = rules.genes(priority)
    assert genes.dtype == np.float32
    assert np.all((genes >= 0) & (genes < 1))
    np.testing.assert_array_equal(
        np.sign(np.subtract.outer(genes, genes)), np.sign(np.subtract.outer(priority, priority))
    )


def test_genes_of_close_priorities_differ():
    priority = 1.0 + 1e-12 * np.arange(20_000)
    assert np.all(np.diff(rules.genes(priority)) > 0)


@given(priorities)
def test_ties_last(priority):
    ranks = rules.ties_last(priority)
    assert sorted(ranks.tolist()) == list(range(len(priority)))
    assert by_priority(ranks) == by_priority(priority, last=True)
    assert by_priority(rules.genes(ranks)) == by_priority(priority, last=True)
