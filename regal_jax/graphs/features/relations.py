"""How every op relates to every other: the topological transforms of a graph that Topoformer sees.

Two ops are comparable if a path joins them. The transitive reduction has the edges that no longer
path implies; the closure an edge for every path (neural_topological_ordering, 3.1 and 4.1).
"""

import chex
import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph

UNRELATED, BEFORE, AFTER, INCOMPARABLE = range(4)
"""Codes of pairs, of which the second op is before, after or neither; UNRELATED are an op and
itself, the ends of an edge, and padding."""


@chex.dataclass(frozen=True)
class Relations:
    """The relations between ops, padded to O ops and E edges.

    Attributes:
      code: uint8[O, O]: how op j relates to op i, where no edge joins them.
      senders, receivers: int32[E], the distinct (producer, consumer) pairs; O for padding.
      reduced: bool[E], whether the pair is in the transitive reduction.
      real: bool[O], False for padding.
      machine_type: int32[O], -1 for padding; None where no encoder looks at it.
    """

    code: chex.Array
    senders: chex.Array
    receivers: chex.Array
    reduced: chex.Array
    real: chex.Array
    machine_type: chex.Array | None = None


def relations(
    graph: ComputationGraph,
    num_ops: int | None = None,
    num_edges: int | None = None,
    *,
    machines: bool = False,
) -> Relations:
    """The relations of a graph, padded if sizes are given; with ``machines``, ops' types, too.

    OptionError if it does not fit the sizes.
    """
    pairs = graph.op_pairs
    num_ops, num_edges = num_ops or graph.num_ops, num_edges or len(pairs)
    if num_ops < graph.num_ops or num_edges < len(pairs):
        raise OptionError(f"{graph} does not fit {num_ops} ops and {num_edges} pairs of ops")
    code = np.zeros((num_ops, num_ops), np.uint8)
    code[: graph.num_ops, : graph.num_ops] = _codes(graph, pairs)
    ends = np.full((num_edges, 2), num_ops, np.int32)
    ends[: len(pairs)] = pairs
    reduced = np.zeros(num_edges, bool)
    reduced[: len(pairs)] = _is_reduced(graph, pairs)
    machine_type = np.full(num_ops, -1, np.int32)
    machine_type[: graph.num_ops] = graph.machine_type
    return Relations(
        code=code,
        senders=ends[:, 0],
        receivers=ends[:, 1],
        reduced=reduced,
        real=np.arange(num_ops) < graph.num_ops,
        machine_type=machine_type if machines else None,
    )


def _codes(graph: ComputationGraph, pairs: np.ndarray) -> np.ndarray:
    """uint8[O, O] without padding."""
    descends = precedence.unpack(precedence.closure(graph))
    code = np.full(descends.shape, INCOMPARABLE, np.uint8)
    code[descends] = AFTER
    code[descends.T] = BEFORE
    np.fill_diagonal(code, UNRELATED)
    code[pairs[:, 0], pairs[:, 1]] = UNRELATED
    code[pairs[:, 1], pairs[:, 0]] = UNRELATED
    return code


def _is_reduced(graph: ComputationGraph, pairs: np.ndarray) -> np.ndarray:
    kept = precedence.transitive_reduction(graph).astype(np.int64)
    key = pairs.astype(np.int64) @ (graph.num_ops, 1)
    return np.isin(key, kept @ (graph.num_ops, 1), assume_unique=True)
