"""Op features for a policy that orders ops: neural topological ordering, C.5.

Gagrani et al. 2022, "Neural Topological Ordering for Computation Graphs" (arXiv 2207.05899). The
positional encodings are eigenvectors of the graph's Laplacian (Dwivedi and Bresson 2020, "A
Generalization of Transformer Networks to Graphs", arXiv 2012.09699).

Relabelling the ops permutes the features, but for the encodings of equal eigenvalues (any basis of
their space is as good) and the signs of eigenvectors whose largest entries are equal. The same
graph gives the same features on one platform; other linear-algebra libraries, or another number of
their threads, change last bits, and so the basis for equal eigenvalues.
"""

from collections.abc import Callable, Iterator
from typing import Literal, get_args

import numba
import numpy as np
import scipy.linalg
from scipy.sparse import coo_array, csr_array, eye_array
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.graphs.features.placement import memory_by_op
from regal_jax.graphs.precedence import connected_components, levels, levels_to_sinks

OrderingFeatureSet = Literal["paper", "extended"]

DENSE_OPS = 400
"""Up to so many connected ops LAPACK is fast, and it is exact for equal eigenvalues. (For layered
graphs of 500 ops the iterative solver takes half the time, and their eigenvalues are apart.)"""

SPARSE_DEGREE = 3
"""Up to so many edges an op, as in real graphs, a sparse factorisation fills in little."""

SHIFT = 1e-6
"""Makes the Laplacian regular; about as small as the least eigenvalues of long chains."""

TOLERANCE = 1e-8
"""Of the iterative solver, relative: below what float32 features can tell."""

MAX_RESTARTS = 50
"""Of the solver without a factorisation: dense graphs need about 15."""


def ordering_features(
    graph: ComputationGraph,
    *,
    dimensions: int = 20,
    feature_set: OrderingFeatureSet = "paper",
) -> np.ndarray:
    """float32[O, F]: the features of each op: 8 of "paper", 13 of "extended", dimensions.

    In this order, each over its maximum over the ops (0 where that is 0):

    - output memory cost (the sum of its output sizes), parameter memory cost (its workspace);
    - in-degree and out-degree, in distinct ops;
    - hops from the source: fewest, most; hops to the target: fewest, most. The source precedes all
      ops without predecessors, the target follows all ops without successors.

    The "extended" set, ours, adds five, as real sizes span orders of magnitude:

    - log(1 + bytes) of outputs, workspace and inputs, over that of the largest of them all;
    - the op's share of what it helps to free: the sum over its inputs that aren't persistent of
      size over number of consumers, over the maximum;
    - growth, the output bytes less this share, over its largest magnitude: in [-1, 1].

    The last ``dimensions`` columns are the ``laplacian_encoding``, not normalised further.

    Raises:
      OptionError: for an unknown feature set or negative ``dimensions``.
    """
    if feature_set not in get_args(OrderingFeatureSet):
        raise OptionError(f"feature_set is {feature_set!r}: paper or extended")
    memory = memory_by_op(graph)
    parts = [_relative(np.column_stack([memory[:, 1:], _degrees(graph), _hops(graph)]))]
    if feature_set == "extended":
        parts += [_extended(graph, memory)]
    parts += [laplacian_encoding(graph, dimensions)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def laplacian_encoding(graph: ComputationGraph, dimensions: int) -> np.ndarray:
    """float32[O, dimensions]: eigenvectors of the smallest non-zero eigenvalues, in order.

    Of the symmetric normalised Laplacian ``I - D^-1/2 A D^-1/2`` of the undirected graph of ops.
    Zeros fill the columns that a small graph lacks. The entry of largest magnitude is positive (the
    lowest index on ties); in training, signs are to be flipped at random.

    Deviations from Dwivedi and Bresson, whose vectors have unit norm, and who leave out one
    eigenvector, whatever its eigenvalue: vectors are scaled to a mean square of 1 over the ops of
    their component, so that entries don't shrink with the graph; and in a graph of several
    components the eigenvalue 0 of each is left out, as any mixture of these vectors would do. Then
    each vector belongs to one component, and is 0 on the others; single ops have none.

    Of several equal eigenvalues in one component of over 400 ops, some may be missed.

    Raises:
      OptionError: for negative ``dimensions``.
    """
    if dimensions < 0:
        raise OptionError(f"dimensions is {dimensions}, less than 0")
    encoding = np.zeros((graph.num_ops, dimensions), np.float32)
    if dimensions == 0:
        return encoding
    found = [(ops, *_eigenpairs(laplacian, dimensions)) for ops, laplacian in _laplacians(graph)]
    sizes = [len(values) for _, values, _ in found]
    component = np.repeat(np.arange(len(found)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes] or [np.empty(0, int)])
    values = np.concatenate([values for _, values, _ in found] or [np.empty(0)])
    for column, index in enumerate(np.argsort(values, kind="stable")[:dimensions]):
        ops, _, vectors = found[component[index]]
        encoding[ops, column] = _scaled(vectors[:, place[index]])
    return encoding


def _relative(values: np.ndarray) -> np.ndarray:
    """float64[O, F]: each column over its largest magnitude."""
    largest = np.abs(values).max(axis=0, initial=0)
    return values / np.where(largest > 0, largest, 1)


def _degrees(graph: ComputationGraph) -> np.ndarray:
    """int64[O, 2]: distinct predecessors and successors."""
    before, after = graph.op_pairs.T
    return np.stack([np.bincount(ops, minlength=graph.num_ops) for ops in (after, before)], axis=1)


def _hops(graph: ComputationGraph) -> np.ndarray:
    """int64[O, 4]: fewest and most from the source, fewest and most to the target; 1 at least."""
    pairs, position = graph.op_pairs, graph.position
    forward = pairs[np.argsort(position[pairs[:, 0]])]
    backward = pairs[np.argsort(-position[pairs[:, 1]])][:, ::-1]
    fewest = [_fewest_hops(np.ascontiguousarray(p), graph.num_ops) for p in (forward, backward)]
    most = levels(graph) + 1, levels_to_sinks(graph) + 1
    return np.stack([fewest[0], most[0], fewest[1], most[1]], axis=1)


@numba.njit(cache=True)
def _fewest_hops(pairs: np.ndarray, num_ops: int) -> np.ndarray:
    """int64[O]: fewest hops to each op, 1 to those without predecessors.

    In ``pairs`` (before, after) every pair into an op comes before every pair out of it.
    """
    hops = np.zeros(num_ops, np.int64)  # 0: no predecessor seen
    for edge in range(len(pairs)):
        before, after = pairs[edge, 0], pairs[edge, 1]
        reached = max(hops[before], 1) + 1
        hops[after] = reached if hops[after] == 0 else min(hops[after], reached)
    return np.maximum(hops, 1)


def _extended(graph: ComputationGraph, memory: np.ndarray) -> np.ndarray:
    """float64[O, 5]; see ``ordering_features``."""
    logarithmic = np.log1p(memory[:, [1, 2, 0]])
    largest = max(logarithmic.max(initial=0.0), 1.0)
    shared = np.where(graph.persistent, 0, graph.size) / np.maximum(graph.consumers.lengths(), 1)
    tensor = graph.consumers.row_of_value()
    freed = np.bincount(graph.consumers.values, shared[tensor], graph.num_ops)
    growth = memory[:, 1] - freed
    return np.column_stack([logarithmic / largest, _relative(np.stack([freed, growth], axis=1))])


def _laplacians(graph: ComputationGraph) -> Iterator[tuple[np.ndarray, csr_array]]:
    """The ops of each component of two ops or more, and their normalised Laplacian."""
    pairs = graph.op_pairs
    label = connected_components(graph)
    num_components = int(label.max(initial=-1)) + 1
    members = ragged_rows(label, np.arange(graph.num_ops), num_components)
    edges = ragged_rows(label[pairs[:, 0]], np.arange(len(pairs)), num_components)
    place = np.empty(graph.num_ops, np.int64)
    place[members.values] = np.arange(graph.num_ops) - members.offsets[label[members.values]]
    for component in np.flatnonzero(edges.lengths()).tolist():
        ops = members.row(component)
        yield ops, _normalised_laplacian(place[pairs[edges.row(component)]], len(ops))


def _normalised_laplacian(pairs: np.ndarray, num_ops: int) -> csr_array:
    """``I - D^-1/2 A D^-1/2``; every op has an edge."""
    before, after = pairs.T
    weight = 1 / np.sqrt(np.bincount(pairs.ravel(), minlength=num_ops))
    rows, columns = np.concatenate([before, after]), np.concatenate([after, before])
    adjacency = coo_array((weight[rows] * weight[columns], (rows, columns)), (num_ops, num_ops))
    return (eye_array(num_ops, format="csr") - adjacency.tocsr()).tocsr()


def _eigenpairs(laplacian: csr_array, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest non-zero eigenvalues, ascending, and their eigenvectors as columns."""
    num_ops = laplacian.shape[0]
    if num_ops <= max(DENSE_OPS, 4 * dimensions):  # a Krylov space needs room
        wanted = [1, min(dimensions, num_ops - 1)]
        return scipy.linalg.eigh(laplacian.toarray(), subset_by_index=wanted, driver="evx")
    if laplacian.nnz <= (1 + 2 * SPARSE_DEGREE) * num_ops:
        return _by_factorisation(laplacian, dimensions)
    try:
        return _by_products(laplacian, dimensions)
    except ArpackNoConvergence:  # eigenvalues too close together
        return _by_factorisation(laplacian, dimensions)


def _by_factorisation(laplacian: csr_array, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenpairs by Lanczos on the inverse: few steps, even for a long chain."""
    shifted = (laplacian + SHIFT * eye_array(laplacian.shape[0])).tocsc()
    # Positive definite: no pivoting, and an ordering for symmetric matrices.
    factors = splu(
        shifted,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    inverse, vectors = _largest(factors.solve, laplacian, dimensions)
    return 1 / inverse - SHIFT, vectors


def _by_products(laplacian: csr_array, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenpairs by Lanczos on ``2 I - L``, whose eigenvalues are in 0..2: no fill-in."""
    flipped = 2 * eye_array(laplacian.shape[0], format="csr") - laplacian
    complement, vectors = _largest(flipped.dot, laplacian, dimensions, max_restarts=MAX_RESTARTS)
    return 2 - complement, vectors


def _largest(
    apply: Callable[[np.ndarray], np.ndarray],
    laplacian: csr_array,
    dimensions: int,
    *,
    max_restarts: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of ``apply``, descending, and their vectors, but for L's kernel."""
    kernel = _kernel(laplacian)

    def projected(vector: np.ndarray) -> np.ndarray:
        image = apply(vector - kernel * (kernel @ vector))
        return image - kernel * (kernel @ image)

    values, vectors = eigsh(
        LinearOperator(laplacian.shape, projected, dtype=np.float64),
        dimensions,
        which="LA",
        v0=np.random.default_rng(0).standard_normal(laplacian.shape[0]),
        tol=TOLERANCE,
        maxiter=max_restarts,
    )
    return values[::-1], vectors[:, ::-1]


def _kernel(laplacian: csr_array) -> np.ndarray:
    """float64[O]: the unit eigenvector of eigenvalue 0, the square roots of the degrees."""
    root = np.sqrt(np.diff(laplacian.indptr) - 1)  # neighbours: what a row has off the diagonal
    return root / np.linalg.norm(root)


def _scaled(vector: np.ndarray) -> np.ndarray:
    """The eigenvector with a mean square of 1 and its largest entry positive."""
    magnitude = np.abs(vector)
    largest = np.argmax(magnitude >= magnitude.max() * (1 - 1e-6))  # the first of equal ones
    return vector * np.sign(vector[largest]) * np.sqrt(len(vector)) / np.linalg.norm(vector)
