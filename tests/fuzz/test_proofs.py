"""Bounds and proofs against brute force, on a hundred thousand random small graphs."""

import numpy as np
import pytest

import regal_jax as rj
from regal_jax.environments.placement import bounds, min_cut, set_bound
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.exact_order import search
from tests.oracles.exhaustive_search import least_peak_memory
from tests.oracles.schedule_cost import plain

GRAPHS, BLOCKS = 100_000, 100


def small_graph(rng: np.random.Generator, most_ops: int) -> ComputationGraph:
    """Up to so many ops: some tensors persist, have no producer, no reader, or two of them."""
    num_ops = int(rng.integers(1, most_ops + 1))
    num_tensors = int(rng.integers(1, 2 * num_ops + 2))
    producer = rng.integers(-1, num_ops, num_tensors)
    consumers = []
    for first in producer.tolist():
        later = np.arange(first + 1, num_ops)
        consumers.append(sorted(later[rng.random(len(later)) < 1.5 / num_ops].tolist()))
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=producer,
        size=rng.integers(0, 6, num_tensors),
        consumers=consumers,
        persistent=rng.random(num_tensors) < rng.choice([0, 0.3]),
        workspace=rng.integers(0, 4, num_ops) * rng.integers(0, 2),
    )


@pytest.mark.parametrize("block", range(BLOCKS))
def test_one_device(block):
    for index in range(GRAPHS // BLOCKS):
        graph = small_graph(np.random.default_rng((block, index)), 6)
        least = least_peak_memory(plain(graph), 1)
        cut = min_cut.min_cut_bound(graph)
        min_cut.check_cut(graph, cut)
        assert cut.num_bytes <= least
        ends = set_bound.set_bound(min_cut.Network(graph), graph.topological_order, cut.num_bytes)
        assert ends.num_bytes <= least
        found = search.GapSearch(graph, graph.topological_order, cut.num_bytes)
        found.run(10**7)
        assert found.proof.peak == found.proof.lower_bound == least


@pytest.mark.parametrize("block", range(BLOCKS))
def test_several_devices(block):
    for index in range(GRAPHS // BLOCKS // 10):
        rng = np.random.default_rng((1, block, index))
        graph, num_devices = small_graph(rng, 4), int(rng.integers(2, 4))
        least = least_peak_memory(plain(graph), num_devices)
        bound = rj.lower_bound(graph, num_devices=num_devices)
        rj.check_bound(graph, bound)
        assert bounds.peak_memory_bound(graph, num_devices) <= bound.value <= least
