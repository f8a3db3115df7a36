"""Scaled sizes, microbatches, renumbering."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.transforms import microbatches, permute, scale_sizes
from tests.strategies import computation_graphs


def training_step():
    """Weight (tensor 0), batch (1), activation (2) and persistent output (3) of two ops."""
    return ComputationGraph.create(
        num_ops=2,
        producer=[-1, -1, 0, 1],
        size=[100, 10, 20, 5],
        persistent=[True, False, False, True],
        consumers=[[0, 1], [0], [1], []],
        duration=[1, 2],
        workspace=[3, 4],
        op_names=("f", "g"),
        op_kinds=("dot", "add"),
        name="step",
        extra={"": {"a": 1}, "ops": {"line": [7, 8]}, "tensors": {"name": ["w", "x", "y", "z"]}},
    )


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


@given(computation_graphs(labelled=True))
def test_one_microbatch_is_the_graph(graph):
    assert microbatches(graph, 1) == graph


def test_two_microbatches_by_hand():
    graph = microbatches(training_step(), 2)
    np.testing.assert_array_equal(graph.producer, [-1, -1, 0, 1, -1, 2, 3])
    np.testing.assert_array_equal(graph.size, [100, 10, 20, 5, 10, 20, 5])
    np.testing.assert_array_equal(graph.persistent, [1, 0, 0, 1, 0, 0, 1])
    rows = [graph.consumers.row(t).tolist() for t in range(graph.num_tensors)]
    assert rows == [[0, 1, 2, 3], [0], [1], [], [2], [3], []]
    np.testing.assert_array_equal(graph.duration, [1, 2, 1, 2])
    np.testing.assert_array_equal(graph.workspace, [3, 4, 3, 4])
    assert graph.op_names == ("f@0", "g@0", "f@1", "g@1")
    assert graph.op_kinds == ("dot", "add", "dot", "add")
    assert graph.extra["ops"] == {"line": [7, 8, 7, 8]}
    assert graph.extra["tensors"] == {"name": ["w", "x", "y", "z", "x", "y", "z"]}
    assert graph.extra[""] == {"a": 1}


@given(computation_graphs(machine_types=2), st.integers(1, 4))
def test_microbatches_are_independent_copies(graph, num_replicas):
    replicated = microbatches(graph, num_replicas)
    shared = int(np.sum(graph.persistent & (graph.producer < 0)))
    own = graph.num_tensors - shared
    assert replicated.num_tensors == shared + num_replicas * own
    closure = precedence.unpack(precedence.closure(graph))
    expected = np.kron(np.eye(num_replicas, dtype=bool), closure)
    np.testing.assert_array_equal(precedence.unpack(precedence.closure(replicated)), expected)
    np.testing.assert_array_equal(
        replicated.machine_type, np.tile(graph.machine_type, num_replicas)
    )
    assert len(replicated.consumers.values) == num_replicas * len(graph.consumers.values)


@given(computation_graphs(max_ops=6), st.integers(2, 3))
def test_columns_keep_their_exact_types(graph, num_replicas):
    """The fingerprint hashes bytes, so a wider type would make equal graphs differ."""
    replicated = microbatches(graph, num_replicas)
    remade = permute(replicated, range(replicated.num_ops), range(replicated.num_tensors))
    for column in ("producer", "size", "persistent", "duration", "workspace", "demand"):
        assert getattr(remade, column).dtype == getattr(graph, column).dtype
        assert getattr(replicated, column).dtype == getattr(graph, column).dtype
    assert remade == replicated


def test_no_microbatches():
    with pytest.raises(OptionError, match="at least 1"):
        microbatches(training_step(), 0)


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
