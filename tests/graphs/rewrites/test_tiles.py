"""Tiles: by hand, and what every split keeps."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers import roofline
from regal_jax.graphs.rewrites.row_wise import row_wise_ops
from regal_jax.graphs.rewrites.tiles import tiles
from regal_jax.graphs.rewrites.transforms import permute
from tests.strategies import computation_graphs

KINDS = ["relu", "relu_", "mm", "embedding", "native_batch_norm", "convolution_backward", "sum"]
PHASES = ["forward", "backward", "update"]
ROLES = ["parameter", "state", "input", "gradient", "output", ""]


def layer():
    """x @ w, relu, sum over the batch, and relu + sum: tensors x, w, product, relu, sum, result."""
    return ComputationGraph.create(
        num_ops=4,
        producer=[-1, -1, 0, 1, 2, 3],
        size=[32, 100, 13, 13, 4, 13],
        persistent=[True, True, False, False, False, True],
        consumers=[[0], [0], [1], [2, 3], [3], []],
        duration=[4, 1, 1, 1],
        workspace=[7, 0, 3, 0],
        flops=[1000, 13, 13, 13],
        bytes_accessed=[145, 26, 17, 30],
        op_names=("mm", "relu", "sum", "add"),
        op_kinds=("mm", "relu", "sum", "add"),
        extra={
            "tensors": {"role": ["input", "parameter", "", "", "", "output"]},
            "ops": {"line": [1, 2, 3, 4]},
        },
    )


@st.composite
def kinded_graphs(draw):
    graph = draw(computation_graphs(labelled=True, machine_types=2, max_ops=10))
    columns = {
        key: draw(st.lists(st.sampled_from(values), min_size=length, max_size=length))
        for key, values, length in (
            ("kind", KINDS, graph.num_ops),
            ("phase", PHASES, graph.num_ops),
            ("role", ROLES, graph.num_tensors),
        )
    }
    extra = {"ops": {"phase": columns["phase"]}, "tensors": {"role": columns["role"]}}
    return graph.replace(op_kinds=tuple(columns["kind"]), extra=extra)


def origins(graph, num_tiles):
    """(source op, tile) of each op of the split graph, tile 0 for whole ops."""
    pairs = []
    for op, is_split in enumerate(row_wise_ops(graph).op):
        pairs += [(op, tile) for tile in range(num_tiles if is_split else 1)]
    return pairs


def test_two_tiles_by_hand():
    graph = tiles(layer(), 2)
    assert graph.op_names == ("mm#0", "mm#1", "relu#0", "relu#1", "sum", "add#0", "add#1")
    assert graph.op_kinds == ("mm", "mm", "relu", "relu", "sum", "add", "add")
    np.testing.assert_array_equal(graph.producer, [-1, -1, 0, 1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(graph.size, [32, 100, 7, 6, 7, 6, 4, 7, 6])
    rows = [graph.consumers.row(t).tolist() for t in range(graph.num_tensors)]
    assert rows == [[0, 1], [0, 1], [2], [3], [4, 5], [4, 6], [5, 6], [], []]
    np.testing.assert_array_equal(graph.persistent, [1, 1, 0, 0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(graph.workspace, [4, 4, 0, 0, 3, 0, 0])
    np.testing.assert_array_equal(graph.flops, [500, 500, 7, 6, 13, 7, 6])
    np.testing.assert_array_equal(graph.bytes_accessed, [123, 122, 13, 13, 17, 15, 15])
    assert graph.extra["ops"]["line"] == [1, 1, 2, 2, 3, 4, 4]
    assert graph.extra["tensors"]["role"][-2:] == ["output", "output"]
    ratio = roofline.durations_us(np.array([500]), np.array([123])) / roofline.durations_us(
        np.array([1000]), np.array([145])
    )
    np.testing.assert_allclose(graph.duration[[0, 2, 4]], [4 * ratio[0], 0.5, 1])


def test_durations_are_shared_where_the_work_is_not_known():
    graph = tiles(layer().replace(flops=None), 4)
    np.testing.assert_array_equal(graph.duration[:5], [1, 1, 1, 1, 0.25])
    assert graph.flops is None


@given(kinded_graphs())
def test_one_tile_is_the_graph(graph):
    assert tiles(graph, 1) is graph


def test_graphs_without_row_wise_ops_stay_as_they_are():
    graph = layer().replace(op_kinds=("a", "b", "c", "d"))
    assert tiles(graph, 3) == graph
    with pytest.raises(OptionError, match="at least 1"):
        tiles(graph, 0)


@given(kinded_graphs(), st.integers(2, 4))
def test_totals_are_kept(graph, num_tiles):
    split = tiles(graph, num_tiles)
    source = np.array([op for op, _ in origins(graph, num_tiles)])
    assert split.num_ops == len(source)
    assert split.size.sum() == graph.size.sum()
    tensors = np.bincount(np.append(source, graph.num_ops)[split.producer], split.size)
    original = np.bincount(np.where(graph.producer < 0, graph.num_ops, graph.producer), graph.size)
    np.testing.assert_array_equal(np.trim_zeros(tensors, "b"), np.trim_zeros(original, "b"))
    if graph.flops is not None:
        np.testing.assert_array_equal(np.bincount(source, split.flops, graph.num_ops), graph.flops)
    if graph.bytes_accessed is not None:
        moved = np.bincount(source, split.bytes_accessed, graph.num_ops)
        assert np.all(moved >= graph.bytes_accessed)
        assert np.all(moved <= num_tiles * graph.bytes_accessed)
    spent = np.bincount(source, split.duration, graph.num_ops)
    assert np.all(spent >= graph.duration * (1 - 1e-9))
    assert np.all(spent <= num_tiles * graph.duration * (1 + 1e-9))
    for column in ("size", "producer", "duration", "workspace", "persistent", "demand"):
        assert getattr(split, column).dtype == getattr(graph, column).dtype


@given(kinded_graphs(), st.integers(2, 3))
def test_precedence_is_that_of_the_source_ops(graph, num_tiles):
    split, pairs = tiles(graph, num_tiles), origins(graph, num_tiles)
    source = np.array([op for op, _ in pairs])
    before, after = precedence.closure(graph), precedence.closure(split)
    before, after = precedence.unpack(before), precedence.unpack(after)
    assert not np.any(after & ~before[np.ix_(source, source)])
    contracted = {(source[u], source[v]) for u, v in split.op_pairs}
    assert contracted == {tuple(pair) for pair in graph.op_pairs}
    row_wise, number = row_wise_ops(graph).op, {pair: op for op, pair in enumerate(pairs)}
    for u, v in graph.op_pairs:
        for tile in range(num_tiles):
            first = number[u, tile if row_wise[u] else 0]
            second = number[v, tile if row_wise[v] else 0]
            assert after[first, second]
        if row_wise[u] and not row_wise[v]:
            assert all(after[number[u, tile], number[v, 0]] for tile in range(num_tiles))


@given(kinded_graphs(), st.integers(2, 3))
def test_tiles_of_a_program_order_are_in_program_order(graph, num_tiles):
    graph = permute(graph, graph.topological_order, np.arange(graph.num_tensors))
    edges = tiles(graph, num_tiles).edges
    assert np.all(edges[:, 0] < edges[:, 2])


def test_tiles_of_a_chain_are_independent():
    graph = ComputationGraph.create(
        num_ops=3,
        producer=[-1, 0, 1, 2],
        size=[64, 64, 64, 64],
        consumers=[[0], [1], [2], []],
        op_kinds=["relu", "tanh", "exp"],
    )
    closure = precedence.unpack(precedence.closure(tiles(graph, 4)))
    expected = np.kron(np.triu(np.ones((3, 3), bool), 1), np.eye(4, dtype=bool))
    np.testing.assert_array_equal(closure, expected)


def test_large_graphs_split_quickly():
    num_ops = 10_000
    graph = ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(-1, num_ops),
        size=np.full(num_ops + 1, 4096),
        consumers=[[op] for op in range(num_ops)] + [[]],
        op_kinds=["relu"] * num_ops,
    )
    start = time.perf_counter()
    split = tiles(graph, 8)
    assert time.perf_counter() - start < 2
    assert split.num_ops == 8 * num_ops
