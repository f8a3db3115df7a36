"""Exact orders: the least peak of every order, with a bound that meets it, whatever finds it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement import min_cut
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.exact_order import search
from regal_jax.search.exact_order.deductions import Deductions
from tests.oracles.exhaustive_search import least_peak_memory
from tests.oracles.schedule_cost import plain
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs


def two_parts(sizes):
    """Independent pairs of ops: one makes bytes, the other reads them and keeps some."""
    count = len(sizes)
    return ComputationGraph.create(
        num_ops=2 * count,
        producer=list(range(2 * count)),
        size=[size for pair in sizes for size in pair],
        consumers=[[op + 1] if op % 2 == 0 else [] for op in range(2 * count)],
        persistent=[op % 2 == 1 for op in range(2 * count)],
    )


def close(graph, bound=0, **options):
    options = {"most_states": 10**7} | options
    found = search.GapSearch(graph, graph.topological_order, bound)
    found.run(**options)
    return found.proof


def check_order(graph, proof):
    assert sorted(proof.order.tolist()) == list(range(graph.num_ops))
    position = np.argsort(proof.order)
    assert all(position[a] < position[b] for a, _, b in graph.edges.tolist())


@settings(max_examples=150)
@given(computation_graphs(max_ops=7), st.booleans())
def test_equals_the_best_of_all_orders(graph, from_the_cut):
    least = least_peak_memory(plain(graph), 1)
    proof = close(graph, min_cut.min_cut_bound(graph).num_bytes if from_the_cut else 0)
    assert proof.peak == proof.lower_bound == least
    assert proof.is_optimal
    check_order(graph, proof)


@settings(max_examples=60)
@given(computation_graphs(max_ops=7, min_ops=2))
def test_deductions_alone_order_what_all_best_orders_order(graph):
    """At the least peak, every order within it has the deduced pairs; below it nothing is left."""
    least = int(least_peak_memory(plain(graph), 1))
    deductions = deduced(graph, least)
    assert not deductions.refuted
    at_start = int(graph.size[(graph.producer < 0) & (graph.consumers.lengths() > 0)].sum())
    for order in itertools.islice(every_order(graph), 5000):
        if max(int(min_cut.step_bytes(graph, np.array(order)).max()), at_start) <= least:
            assert all(order.index(a) < order.index(b) for a, b in deductions.pairs)


WEAK_CUTS = [
    ([2, 1, 0, 1], [[0], [], [], []], [5, 3, 1, 3], [0, 1, 1, 0], [0, 0, 0]),
    ([1, 1, 0, 0], [[2, 3], [], [3], []], [4, 0, 4, 5], [0, 1, 0, 0], [0, 4, 0, 0]),
    (
        [0, 0, 0, 2, 3, 1, 2],
        [[1], [1, 2, 4], [4], [1], [], [], []],
        [2, 0, 4, 1, 4, 2, 2],
        [0, 0, 1, 1, 1, 1, 1],
        [0, 0, 1, 3, 3],
    ),
]
"""(producer, consumers, size, persistent, workspace): no order meets the largest cut."""


@pytest.mark.parametrize(("producer", "consumers", "size", "kept", "workspace"), WEAK_CUTS)
def test_deductions_refute_more_than_cuts(producer, consumers, size, kept, workspace):
    """No single cut knows that one of two must be first; what follows from each does."""
    graph = ComputationGraph.create(
        num_ops=len(workspace),
        producer=producer,
        consumers=consumers,
        size=size,
        persistent=np.array(kept, bool),
        workspace=workspace,
    )
    least = int(least_peak_memory(plain(graph), 1))
    assert min_cut.min_cut_bound(graph).num_bytes < least
    assert deduced(graph, least - 1).refuted
    assert not deduced(graph, least).refuted


def test_a_small_budget_gives_bounds_on_both_sides():
    graph = random_graph(3, 40)
    best = close(graph)
    assert best.is_optimal
    for most_states in (0, 1, 500):
        some = close(graph, most_states=most_states)
        assert some.lower_bound <= best.peak <= some.peak
        check_order(graph, some)
    assert close(graph, out_of_time=lambda: True).states == 0


def test_the_same_twice_and_what_is_told():
    graph, told = random_graph(5, 30), []
    one, two = close(graph, on_progress=told.append), close(graph)
    assert one.order.tolist() == two.order.tolist()
    assert one.states == two.states
    assert told[-1].peak == one.peak
    assert told[-1].lower_bound == one.lower_bound
    for before, after in itertools.pairwise(told):
        assert after.peak <= before.peak
        assert after.lower_bound >= before.lower_bound


def test_independent_parts_run_by_what_they_leave():
    """Liu's hills and valleys: by size less what stays, largest first; 30 parts, in moments."""
    sizes = [(100 + 7 * i % 90, 3 * i % 50) for i in range(30)]
    proof = close(two_parts(sizes))
    kept, peak = 0, 0
    for size, rest in sorted(sizes, key=lambda pair: pair[1] - pair[0]):
        peak, kept = max(peak, kept + size + rest), kept + rest
    assert proof.peak == proof.lower_bound == peak


def test_wide_graphs_are_no_more_work_than_their_hills():
    """A hundred independent chains, whose sets are 3**100."""
    graph = two_parts([(10, 1)] * 100)
    proof = close(graph)
    assert proof.peak == proof.lower_bound == 99 + 10 + 1
    assert proof.states < 100_000


@pytest.mark.parametrize("num_ops", [0, 1])
def test_tiny_graphs(num_ops):
    graph = ComputationGraph.create(
        num_ops=num_ops, producer=[-1], size=[7], consumers=[[0] if num_ops else []]
    )
    proof = close(graph)
    assert proof.peak == proof.lower_bound == 7 * num_ops
    assert len(proof.order) == num_ops


def deduced(graph, limit):
    descendants = precedence.unpack(precedence.closure(graph))
    deductions = Deductions(graph, descendants)
    deductions.deduce(limit, graph.topological_order, 10**6, lambda: False)
    return deductions


def every_order(graph):
    """All orders of the ops, one after another."""
    pairs = [(a, b) for a, _, b in graph.edges.tolist()]

    def extended(order, left):
        if not left:
            yield order
        for op in sorted(left):
            if not any(b == op and a in left for a, b in pairs):
                yield from extended([*order, op], left - {op})

    return extended([], frozenset(range(graph.num_ops)))
