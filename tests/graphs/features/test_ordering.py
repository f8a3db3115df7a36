"""Features of neural topological ordering (C.5): by hand, against networkx and dense numpy."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse.linalg import ArpackNoConvergence

from regal_jax.datasets.layered import layered_graph
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.graphs.features import ordering as module
from regal_jax.graphs.features.ordering import (
    laplacian_encoding,
    ordering_features,
)
from tests.strategies import computation_graphs


def from_pairs(num_ops, pairs):
    """A graph with one output of a byte an op."""
    before, after = np.array(pairs, np.int64).reshape(-1, 2).T
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=np.ones(num_ops, np.int64),
        consumers=ragged_rows(before, after, num_ops),
    )


def hand_graph():
    """0 -> 1 -> 2 -> 4, 0 -> 4 twice, 3 -> 4; a weight (100, persistent) and a batch (6)."""
    return ComputationGraph.create(
        num_ops=5,
        producer=[-1, -1, 0, 0, 1, 2, 3, 4],
        size=[100, 6, 8, 2, 4, 20, 5, 1],
        persistent=[True] + [False] * 7,
        consumers=[[0, 3], [0, 3], [1, 4], [4], [2], [4], [4], []],
        workspace=[0, 0, 40, 10, 0],
    )


def test_paper_features_by_hand():
    features = ordering_features(hand_graph(), dimensions=3)
    expected = np.array(
        [  # m, p, in, out, source min, max, target min, max
            [10, 0, 0, 2, 1, 1, 2, 4],
            [4, 0, 1, 1, 2, 2, 3, 3],
            [20, 40, 1, 1, 3, 3, 2, 2],
            [5, 10, 0, 1, 1, 1, 2, 2],
            [1, 0, 3, 0, 2, 4, 1, 1],
        ]
    )
    assert features.dtype == np.float32
    assert features.shape == (5, 8 + 3)
    np.testing.assert_allclose(features[:, :8], expected / expected.max(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(features[:, 8:], laplacian_encoding(hand_graph(), 3))


def test_extended_features_by_hand():
    """Freed: half the batch each, half of tensor 2, all of others; the weight stays."""
    features = ordering_features(hand_graph(), dimensions=2, feature_set="extended")
    assert features.shape == (5, 13 + 2)
    scale = np.log1p(114 - 8)  # the inputs of op 0 and op 3, weight and batch
    outputs, workspace = [10, 4, 20, 5, 1], [0, 0, 40, 10, 0]
    inputs, freed = [106, 8, 4, 106, 8 + 2 + 20 + 5], np.array([3, 4, 4, 3, 4 + 2 + 20 + 5])
    for column, values in zip((8, 9, 10), (outputs, workspace, inputs), strict=True):
        np.testing.assert_allclose(features[:, column], np.log1p(values) / scale, rtol=1e-6)
    np.testing.assert_allclose(features[:, 11], freed / 31, rtol=1e-6)
    np.testing.assert_allclose(features[:, 12], (outputs - freed) / 30, rtol=1e-6)
    plain = ordering_features(hand_graph(), dimensions=2)
    np.testing.assert_array_equal(features[:, :8], plain[:, :8])
    np.testing.assert_array_equal(features[:, -2:], plain[:, -2:])


def longest(dag, start, end):
    return max(len(path) - 1 for path in nx.all_simple_paths(dag, start, end))


@settings(max_examples=60, deadline=None)
@given(computation_graphs(max_ops=8))
def test_hops_against_networkx(graph):
    dag = nx.DiGraph()
    dag.add_nodes_from(range(graph.num_ops))
    dag.add_edges_from(graph.op_pairs.tolist())
    firsts = [op for op in dag if dag.in_degree(op) == 0]
    lasts = [op for op in dag if dag.out_degree(op) == 0]
    dag.add_edges_from([("source", op) for op in firsts] + [(op, "target") for op in lasts])
    expected = np.array(
        [
            [
                nx.shortest_path_length(dag, "source", op),
                longest(dag, "source", op),
                nx.shortest_path_length(dag, op, "target"),
                longest(dag, op, "target"),
            ]
            for op in range(graph.num_ops)
        ]
    )
    hops = ordering_features(graph, dimensions=0)[:, 4:]
    np.testing.assert_allclose(hops, expected / expected.max(axis=0), rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(computation_graphs())
def test_normalised(graph):
    features = ordering_features(graph, dimensions=4, feature_set="extended")
    assert np.isfinite(features).all()
    scaled = features[:, :-5]
    assert scaled.min() >= 0
    assert scaled.max() <= 1
    np.testing.assert_array_equal(np.isin(scaled[:, :8].max(axis=0), [0, 1]), True)
    assert np.abs(features[:, -5]).max() <= 1


def laplacian(graph):
    """The dense normalised Laplacian, by networkx (0 on the diagonal of a single op)."""
    undirected = nx.Graph()
    undirected.add_nodes_from(range(graph.num_ops))
    undirected.add_edges_from(graph.op_pairs.tolist())
    return nx.normalized_laplacian_matrix(undirected, nodelist=range(graph.num_ops)).toarray()


@settings(max_examples=60, deadline=None)
@given(computation_graphs())
def test_encoding_has_the_smallest_positive_eigenvalues(graph):
    """Holds for equal eigenvalues, too: columns are orthogonal eigenvectors in order."""
    matrix = laplacian(graph)
    encoding = laplacian_encoding(graph, 6).astype(np.float64)
    values = np.linalg.eigvalsh(matrix)
    values = values[values > 1e-9][:6]
    assert not encoding[:, len(values) :].any()
    vectors = encoding[:, : len(values)]
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-5)
    gram = vectors.T @ vectors
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-4)
    sizes = [np.sum(column != 0) for column in vectors.T]
    assert np.all(np.diag(gram) > 0.99 * np.array(sizes))  # mean square 1 over the component


def test_encoding_of_a_layered_graph():
    graph = layered_graph(2, 60)
    encoding = laplacian_encoding(graph, 20)
    vectors = np.linalg.eigh(laplacian(graph))[1][:, 1:21]
    sign = np.sign(np.sum(encoding * vectors, axis=0))
    np.testing.assert_allclose(encoding, vectors * sign * np.sqrt(60), atol=1e-4)
    largest = np.argmax(np.abs(encoding), axis=0)
    assert np.all(encoding[largest, np.arange(20)] > 0)


@pytest.mark.parametrize("solver", ["_by_products", "_by_factorisation"])
def test_iterative_solvers(solver):
    graph = layered_graph(3, 700)
    matrix = laplacian(graph)
    values, vectors = np.linalg.eigh(matrix)
    assert np.diff(values[:22]).min() > 1e-4  # eigenvectors are unique up to sign
    [(ops, sparse)] = module._laplacians(graph)
    assert len(ops) == 700
    np.testing.assert_allclose(sparse.toarray(), matrix, atol=1e-12)
    found_values, found = getattr(module, solver)(sparse, 20)
    np.testing.assert_allclose(found_values, values[1:21], atol=1e-9)
    cosines = np.abs(np.sum(found * vectors[:, 1:21], axis=0))
    np.testing.assert_allclose(cosines, 1, atol=1e-7)


def test_large_graph_through_the_public_function():
    graph = layered_graph(3, 700)
    vectors = np.linalg.eigh(laplacian(graph))[1][:, 1:21]
    encoding = laplacian_encoding(graph, 20)
    sign = np.sign(np.sum(encoding * vectors, axis=0))
    np.testing.assert_allclose(encoding, vectors * sign * np.sqrt(700), atol=2e-3)
    np.testing.assert_array_equal(encoding, laplacian_encoding(graph, 20))


def test_long_chain():
    """Eigenvectors of a path: sqrt(degree) * cos(pi k i / (n - 1)), eigenvalues close to 0."""
    size = 3000
    chain = from_pairs(size, [(op, op + 1) for op in range(size - 1)])
    encoding = laplacian_encoding(chain, 5)
    degree = np.full(size, 2.0)
    degree[[0, -1]] = 1
    for column, k in enumerate(range(1, 6)):
        exact = np.sqrt(degree) * np.cos(np.pi * k * np.arange(size) / (size - 1))
        exact *= np.sqrt(size) / np.linalg.norm(exact)
        cosine = encoding[:, column] @ exact / size
        assert abs(cosine) == pytest.approx(1, abs=1e-5)


def test_products_give_way_to_a_factorisation():
    """A clique with a long tail: many edges, but eigenvalues too close for plain Lanczos."""
    clique = [(u, v) for v in range(150) for u in range(v)]
    tail = [(op, op + 1) for op in range(149, 2500)]
    graph = from_pairs(2501, clique + tail)
    [(_, sparse)] = module._laplacians(graph)
    assert sparse.nnz > 7 * 2501
    with pytest.raises(ArpackNoConvergence):
        module._by_products(sparse, 8)
    encoding = laplacian_encoding(graph, 8).astype(np.float64)
    values = np.sum(encoding * (sparse @ encoding), axis=0) / 2501
    residual = sparse @ encoding - encoding * values
    assert np.abs(residual).max() < 1e-5
    assert np.all(np.diff(values) > 0)


def test_components_are_apart():
    """A chain of three, a chain of two and a single op: three non-zero eigenvalues."""
    graph = from_pairs(6, [(0, 2), (2, 4), (1, 5)])
    encoding = laplacian_encoding(graph, 5)
    third, second = np.sqrt(3), np.sqrt(2)
    expected = np.zeros((6, 5))
    expected[[0, 4], 0] = third / second, -third / second  # eigenvalue 1
    expected[[0, 2, 4], 1] = np.array([-0.5, np.sqrt(0.5), -0.5]) * third  # eigenvalue 2
    expected[[1, 5], 2] = 1, -1  # eigenvalue 2
    eigenvalue_two = encoding[:, 1:3]
    np.testing.assert_allclose(encoding[:, 0], expected[:, 0], atol=1e-6)
    if not eigenvalue_two[0, 0]:  # two equal eigenvalues, in either order
        eigenvalue_two = eigenvalue_two[:, ::-1]
    np.testing.assert_allclose(eigenvalue_two, expected[:, 1:3], atol=1e-6)
    assert not encoding[:, 3:].any()


def test_star():
    """Eigenvalue 1 with multiplicity 48, then 2: any basis, orthogonal, zero at the centre."""
    graph = from_pairs(50, [(0, op) for op in range(1, 50)])
    encoding = laplacian_encoding(graph, 20).astype(np.float64)
    np.testing.assert_allclose(encoding.T @ encoding, 50 * np.eye(20), atol=1e-3)
    np.testing.assert_allclose(encoding[0], 0, atol=1e-5)
    np.testing.assert_allclose(encoding.sum(axis=0), 0, atol=1e-4)


@pytest.mark.parametrize("num_ops", [0, 1, 3])
def test_no_edges(num_ops):
    features = ordering_features(from_pairs(num_ops, []), feature_set="extended")
    assert features.shape == (num_ops, 33)
    assert np.isfinite(features).all()
    assert not features[:, 13:].any()
    np.testing.assert_array_equal(features[:, 4:8], 1)


def test_relabelling_permutes():
    graph = layered_graph(1, 120)
    assert np.diff(np.linalg.eigvalsh(laplacian(graph))[:12]).min() > 1e-3
    label = np.random.default_rng(0).permutation(120)
    old = np.argsort(label)
    other = from_pairs(120, label[graph.op_pairs]).replace(
        size=graph.size[old], workspace=graph.workspace[old]
    )
    before, after = (ordering_features(g, dimensions=10) for g in (graph, other))
    np.testing.assert_allclose(after[label], before, atol=1e-4)


def test_option_errors():
    with pytest.raises(OptionError, match="dimensions"):
        laplacian_encoding(hand_graph(), -1)
    with pytest.raises(OptionError, match="feature_set"):
        ordering_features(hand_graph(), feature_set="all")
