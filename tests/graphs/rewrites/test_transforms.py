"""Scaled sizes, renumbering."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.transforms import permute, scale_sizes
from tests.graphs.cases import training_step
from tests.strategies import computation_graphs


@given(computation_graphs(), st.integers(0, 99))
def test_scaled_sizes_stay_in_range(graph, seed):
    scaled = scale_sizes(np.random.default_rng(seed), graph)
    assert scaled.size.dtype == np.int64
    assert np.all(np.abs(scaled.size - graph.size) <= 0.5 * graph.size + 0.5)
    assert np.all(scaled.size[graph.size == 0] == 0)
    assert scaled.replace(size=graph.size) == graph


def test_scale_factors_are_uniform_and_independent():
    graph = ComputationGraph.create(
        num_ops=1, producer=[0] * 4000, size=[10**6] * 4000, consumers=[[]] * 4000
    )
    factor = scale_sizes(np.random.default_rng(0), graph).size / 10**6
    assert abs(factor.mean() - 1) < 0.02
    assert abs(factor.std() - 12**-0.5) < 0.01
    fixed = scale_sizes(np.random.default_rng(0), graph, low=2, high=2)
    np.testing.assert_array_equal(fixed.size, 2 * 10**6)


@given(computation_graphs(labelled=True, machine_types=2), st.randoms(use_true_random=False))
def test_permutation_is_undone_by_its_inverse(graph, random):
    op_order = random.sample(range(graph.num_ops), graph.num_ops)
    tensor_order = random.sample(range(graph.num_tensors), graph.num_tensors)
    permuted = permute(graph, op_order, tensor_order)
    assert permute(permuted, np.argsort(op_order), np.argsort(tensor_order)) == graph


def test_permutation_by_hand():
    graph = permute(training_step(), [1, 0], [3, 2, 0, 1])
    np.testing.assert_array_equal(graph.producer, [0, 1, -1, -1])
    np.testing.assert_array_equal(graph.size, [5, 20, 100, 10])
    rows = [graph.consumers.row(t).tolist() for t in range(graph.num_tensors)]
    assert rows == [[], [0], [1, 0], [1]]
    np.testing.assert_array_equal(graph.duration, [2, 1])
    assert graph.op_names == ("g", "f")
    assert graph.extra["tensors"] == {"name": ["z", "y", "w", "x"]}


@pytest.mark.parametrize(
    ("op_order", "tensor_order"), [([0, 0], range(4)), ([0], range(4)), ([0, 1], [0, 1, 2, 4])]
)
def test_orders_must_be_permutations(op_order, tensor_order):
    with pytest.raises(OptionError, match="permutation"):
        permute(training_step(), op_order, tensor_order)
