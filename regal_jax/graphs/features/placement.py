"""Node and edge features of a computation graph for a policy (REGAL A.1)."""

from typing import Literal

import chex
import numpy as np

from regal_jax.graphs.batching import GraphShape
from regal_jax.graphs.computation_graph import ComputationGraph

FeatureSet = Literal["paper", "workshop"]


@chex.dataclass(frozen=True)
class PolicyInputs:
    """What a policy sees of a graph, padded to a GraphShape (O, E); F and G features.

    An edge is a (producer, tensor, consumer) triple, so edges may be parallel. Padding edges have
    sender and receiver O, which doesn't exist.

    Attributes:
      nodes: float32[O, F]. edges: float32[E, G]. senders, receivers: int32[E].
      real: bool[O], False for padding.
      pinned: int32[], the op whose placement is fixed to device 0 to break the symmetry.
      producer: int32[T], of each tensor, -1 for none.
    """

    nodes: chex.Array
    edges: chex.Array
    senders: chex.Array
    receivers: chex.Array
    real: chex.Array
    pinned: chex.Array
    producer: chex.Array


def policy_inputs(
    graph: ComputationGraph,
    statistics: np.ndarray,
    shape: GraphShape,
    *,
    feature_set: FeatureSet = "paper",
) -> PolicyInputs:
    """Features of one graph.

    Nodes: sums of input and output sizes and the workspace, over the largest such number in the
    graph; the expected placement per device and place in the order (``statistics``); a marker of
    the op with the most memory. Edges: the tensor's size on the same scale. The "workshop" set has
    the op's duration over the longest one, too (workshop paper, 2.1).

    Args:
      graph: the graph.
      statistics: float32[>= O, D + 1], ``cost.population_statistics`` of a short search.
      shape: sizes to pad to.
      feature_set: which features.
    """
    memory = memory_by_op(graph)
    pinned = pinned_op(graph)
    edge_size = graph.size[graph.edges[:, 1]].astype(np.float64)
    largest = max(memory.max(initial=0.0), edge_size.max(initial=0.0), 1.0)
    marker = (np.arange(graph.num_ops) == pinned)[:, None]
    node_parts = [memory / largest, statistics[: graph.num_ops], marker]
    if feature_set == "workshop":
        longest = graph.duration.max(initial=0.0)
        node_parts += [graph.duration[:, None] / (longest or 1.0)]
    return PolicyInputs(
        nodes=pad(np.concatenate(node_parts, axis=1).astype(np.float32), shape.ops, 0),
        edges=pad((edge_size[:, None] / largest).astype(np.float32), shape.edges, 0),
        senders=pad(graph.edges[:, 0], shape.edges, shape.ops),
        receivers=pad(graph.edges[:, 2], shape.edges, shape.ops),
        real=np.arange(shape.ops) < graph.num_ops,
        pinned=np.int32(pinned),
        producer=pad(graph.producer, shape.tensors, -1),
    )


def memory_by_op(graph: ComputationGraph) -> np.ndarray:
    """float64[O, 3], bytes: sums of input sizes, of output sizes, and the workspace."""
    sums = [rows.sums(graph.size) for rows in (graph.inputs, graph.outputs)]
    return np.stack([*sums, graph.workspace.astype(np.float64)], axis=1)


def pinned_op(graph: ComputationGraph) -> int:
    """The op with the most input and output bytes (A.1, 5.1); 0 in a graph without ops."""
    return int(np.argmax(memory_by_op(graph)[:, :2].sum(axis=1))) if graph.num_ops else 0


def pad(values: np.ndarray, length: int, fill: float) -> np.ndarray:
    """Rows up to a length, filled with one number."""
    padded = np.full((length, *values.shape[1:]), fill, values.dtype)
    padded[: len(values)] = values
    return padded
