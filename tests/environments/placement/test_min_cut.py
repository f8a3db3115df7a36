"""Bounds by minimum cuts: never above the optimum, and their certificates can't be altered."""

import dataclasses

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from regal_jax.environments.placement import bounds, min_cut
from regal_jax.errors import BoundError, OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from tests.oracles import schedule_cost as oracle
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs


def least_peak(graph):
    """By trying all orders."""
    plain, placement = oracle.plain(graph), [0] * graph.num_ops
    peaks = (
        oracle.peak_memory(plain, placement, order, 1)[0]
        for order in oracle.every_order(plain, placement)
    )
    return min(peaks, default=0)


def cut_by_networkx(graph, op):
    """The least cut below one op, and the op's own bytes, from the definitions."""
    network, edges = nx.DiGraph(), graph.edges.tolist()
    precedence = nx.DiGraph([(a, b) for a, _, b in edges])
    precedence.add_nodes_from(range(graph.num_ops))
    network.add_nodes_from(["s", "t", ("op", op)])
    for ancestor in nx.ancestors(precedence, op):
        network.add_edge("s", ("op", ancestor))
    network.add_edge(("op", op), "t")
    for a, _, b in edges:
        network.add_edge(("op", b), ("op", a))
    own = int(graph.workspace[op])
    for tensor in range(graph.num_tensors):
        producer, size = int(graph.producer[tensor]), int(graph.size[tensor])
        readers = graph.consumers.row(tensor).tolist()
        own += size * (producer == op)
        if graph.persistent[tensor]:
            own += size * (producer < 0 and bool(readers))
            if producer >= 0 and size:
                network.add_edge(("op", producer), ("end", tensor), capacity=size)
                network.add_edge(("end", tensor), "t")
            continue
        if size:
            source = "s" if producer < 0 else ("op", producer)
            network.add_edge(source, ("tensor", tensor), capacity=size)
            for reader in readers:
                network.add_edge(("tensor", tensor), ("op", reader))
    return nx.maximum_flow_value(network, "s", "t") + own


def test_by_hand():
    """Two branches of 0, each makes 100 and keeps 10. While op 4 runs the other branch may not have
    run, and 0's byte is there, or have run, and its 10 are: the cut is less than the optimum."""
    graph = ComputationGraph.create(
        num_ops=6,
        producer=[0, 1, 2, 3, 4],
        size=[1, 100, 10, 100, 10],
        consumers=[[1, 3], [2], [5], [4], [5]],
    )
    found = min_cut.min_cut_bound(graph)
    assert found.num_bytes == 1 + 100 + 10
    assert least_peak(graph) == 10 + 100 + 10
    assert found.is_exact
    assert bounds.working_set_bound(graph, 1) == 110
    assert bounds.peak_memory_bound(graph, 1) == 111
    assert bounds.peak_memory_bound(graph, 2) == 110
    min_cut.check_cut(graph, found)


@settings(max_examples=300)
@given(graph=computation_graphs(max_ops=6))
def test_never_above_the_least_peak(graph):
    found = min_cut.min_cut_bound(graph)
    assert found.num_bytes <= least_peak(graph)
    assert found.num_bytes == max(
        (cut_by_networkx(graph, op) for op in range(graph.num_ops)), default=0
    )
    min_cut.check_cut(graph, found)
    if graph.num_ops:
        some = min_cut.min_cut_bound(graph, most_flows=1)
        assert some.num_bytes <= found.num_bytes
        min_cut.check_cut(graph, some)


@given(graph=computation_graphs(max_ops=9))
def test_what_steps_need_is_the_checkers(graph):
    plain, order = oracle.plain(graph), graph.topological_order
    steps = [("op", int(op)) for op in order]
    peak = oracle.peak_memory(plain, [0] * graph.num_ops, steps, 1)[0]
    assert min_cut.step_bytes(graph, order).max(initial=0) <= peak
    least = min_cut.step_bytes(graph, order).max(initial=0)
    kept = graph.size[(graph.producer < 0) & (graph.consumers.lengths() > 0)].sum()
    assert max(least, kept) == max(peak, kept)


@pytest.mark.parametrize("seed", range(5))
def test_altered_certificates_are_refused(seed):
    graph, rng = random_graph(seed, 40), np.random.default_rng(seed)
    bound = min_cut.min_cut_bound(graph)
    min_cut.check_cut(graph, bound)
    with pytest.raises(BoundError, match=f"{bound.num_bytes + 1} bytes claimed"):
        min_cut.check_cut(graph, dataclasses.replace(bound, num_bytes=bound.num_bytes + 1))
    with pytest.raises(BoundError, match="no op 40"):
        min_cut.check_cut(graph, dataclasses.replace(bound, op=40))
    with pytest.raises(BoundError, match="integers"):
        min_cut.check_cut(graph, dataclasses.replace(bound, flow=bound.flow[:-1]))
    for arc in rng.permutation(np.flatnonzero(bound.flow))[:20]:
        for change in (-1, 1, 2**60):
            flow = bound.flow.copy()
            flow[arc] += change
            claimed = dataclasses.replace(bound, flow=flow, num_bytes=bound.num_bytes + 1)
            with pytest.raises(BoundError):
                min_cut.check_cut(graph, claimed)


def test_sizes_beyond_32_bits():
    graph = random_graph(3, 30)
    large = graph.replace(size=graph.size * 2**40, workspace=graph.workspace * 2**40)
    found = min_cut.min_cut_bound(large)
    assert found.num_bytes == min_cut.min_cut_bound(graph).num_bytes * 2**40
    min_cut.check_cut(large, found)


def test_limits():
    with pytest.raises(OptionError, match="most_flows must be at least 1, got 0"):
        min_cut.min_cut_bound(random_graph(0), most_flows=0)
    nothing = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    assert min_cut.min_cut_bound(nothing).num_bytes == 0
    min_cut.check_cut(nothing, min_cut.min_cut_bound(nothing))
