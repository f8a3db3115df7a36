"""Lower bounds: values by hand, and that no schedule beats them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement import bounds
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.graphs.computation_graph import ComputationGraph
from tests.strategies import computation_graphs

# 0 -> 1 -> 2, and 3 alone. Tensor 3 is a parameter of op 1, tensor 4 one of op 2.
GRAPH = ComputationGraph.create(
    num_ops=4,
    producer=[0, 1, 2, -1, -1, -1],
    size=[10, 20, 30, 100, 50, 999],
    consumers=[[1], [2], [], [1], [2], []],
    persistent=[False, False, True, True, True, True],
    duration=[1, 2, 3, 10],
    workspace=[5, 0, 7, 0],
)


@pytest.mark.parametrize(
    ("num_devices", "bound"),
    [
        (1, 207),  # parameters 150 + op 2: 20 + 30 + 7; tensor 5 has no reader, so it is nowhere
        (2, 130),  # op 1: 10 + 20 + 100, more than ceil(207 / 2)
        (3, 130),
    ],
)
def test_peak_memory_by_hand(num_devices, bound):
    assert bounds.peak_memory_bound(GRAPH, num_devices) == bound
    problem = PlacementProblem(GRAPH, num_devices)
    assert problem.lower_bound == bound


def test_persistent_bytes_at_the_end():
    graph = ComputationGraph.create(
        num_ops=2, producer=[0, 1], size=[11, 4], consumers=[[], []], persistent=[True, True]
    )
    assert bounds.peak_memory_bound(graph, 1) == 15
    assert bounds.peak_memory_bound(graph, 2) == 11


@pytest.mark.parametrize(("num_devices", "bound"), [(1, 16.0), (2, 10.0), (4, 10.0)])
def test_makespan_by_hand(num_devices, bound):
    assert bounds.makespan_bound(GRAPH, Platform(num_devices)) == bound
    assert bounds.lower_bound(GRAPH, "makespan", Platform(num_devices)) == bound


def test_longest_path():
    longer = GRAPH.replace(duration=np.array([1.0, 2, 3, 4]))
    assert bounds.makespan_bound(longer, Platform(9)) == 6


def test_a_graph_without_tensors():
    graph = ComputationGraph.create(num_ops=1, producer=[], size=[], consumers=[])
    assert bounds.peak_memory_bound(graph, 2) == 0
    assert bounds.makespan_bound(graph, Platform(2)) == 1.0


@settings(max_examples=150)
@given(graph=computation_graphs(), num_devices=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_no_schedule_is_below_the_bound(graph, num_devices, seed):
    rng = np.random.default_rng(seed)
    for objective in ("peak_memory", "makespan"):
        problem = PlacementProblem(graph, num_devices, objective)
        genes = rng.random((20, problem.num_genes), np.float32)
        assert problem.fitness(genes).min() >= problem.lower_bound


@given(st.lists(st.floats(0, 1e6), max_size=12), st.randoms())
def test_no_order_of_additions_is_below_the_bound(durations, random):
    graph = ComputationGraph.create(
        num_ops=len(durations), producer=[], size=[], consumers=[], duration=durations
    )
    random.shuffle(durations)
    assert bounds.makespan_bound(graph, Platform(1)) <= sum(durations)


def test_the_work_of_halves_is_exact():
    graph = ComputationGraph.create(
        num_ops=3, producer=[], size=[], consumers=[], duration=[0.5, 2.25, 3.0]
    )
    assert bounds.makespan_bound(graph, Platform(1)) == 5.75


@settings(max_examples=100)
@given(graph=computation_graphs())
def test_more_devices_never_raise_the_bound(graph):
    for objective in ("peak_memory", "makespan"):
        values = [bounds.lower_bound(graph, objective, Platform(many)) for many in (1, 2, 3, 4)]
        assert values == sorted(values, reverse=True)
