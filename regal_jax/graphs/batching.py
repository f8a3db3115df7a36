"""Graphs as padded arrays for JAX: one pytree a graph, stacked over a leading axis for ``vmap``."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph


class GraphShape(NamedTuple):
    """The array sizes a graph is padded to; graphs of one shape share a compilation."""

    ops: int
    tensors: int
    edges: int
    output_window: int
    edge_window: int


@chex.dataclass(frozen=True)
class GraphArrays:
    """A computation graph for JAX, padded to a GraphShape (O, T, E, K, W).

    (tensor, consumer) edges are sorted by producer, those of tensors without producer last.
    Padding ops have no edges, padding tensors no producer and no consumer; padding edges point at
    tensor T and op O, which don't exist.

    Attributes:
      num_ops, num_tensors: int32[], without padding.
      producer: int32[T], -1 for none. size: [T], bytes (see ``bytes_dtype``).
      persistent: bool[T]. duration: float[O], us. workspace: [O], bytes.
      edge_tensor, edge_op: int32[E].
      output_offsets: int32[O + 1] into output_tensors int32[T]: what each op makes.
      edge_offsets: int32[O + 1] into the edges: who reads what each op makes.
      output_window: int32[K], edge_window: int32[W]: 0, 1, ... up to the most outputs, and the most
        readers of all its outputs, that an op has.
    """

    num_ops: chex.Array
    num_tensors: chex.Array
    producer: chex.Array
    size: chex.Array
    persistent: chex.Array
    duration: chex.Array
    workspace: chex.Array
    edge_tensor: chex.Array
    edge_op: chex.Array
    output_offsets: chex.Array
    output_tensors: chex.Array
    edge_offsets: chex.Array
    output_window: chex.Array
    edge_window: chex.Array


def bytes_dtype() -> type:
    """int64, exact, where JAX has 64-bit types enabled; else float32, rounded to 24 bits."""
    return np.int64 if jax.config.jax_enable_x64 else np.float32  # type: ignore[attr-defined]


def padded_pairs(count: int) -> int:
    """A power of two, at least 2: how many pairs of ops the inputs of attention have room for."""
    return 1 << (max(count, 2) - 1).bit_length()


def padded_size(count: int, *, smallest: int = 8) -> int:
    """The next rung of a ladder of sizes whose steps are the square root of two."""
    rung = smallest
    while rung < count:
        rung = max(rung + 8, round(rung * 2**0.5 / 8) * 8)
    return rung


def exact_shape(graph: ComputationGraph) -> GraphShape:
    """A graph's own shape: no padding (but no axis is empty)."""
    readers = np.bincount(graph.edges[:, 0], minlength=graph.num_ops)
    counts = (
        graph.num_ops,
        graph.num_tensors,
        len(graph.consumers.values),
        graph.outputs.lengths().max(initial=0),
        readers.max(initial=0),
    )
    return GraphShape(*(max(1, int(count)) for count in counts))


def padded_shape(graphs: Sequence[ComputationGraph]) -> GraphShape:
    """The smallest ladder shape that all graphs fit into."""
    shapes = [exact_shape(graph) for graph in graphs]
    return GraphShape(*(padded_size(max(axis)) for axis in zip(*shapes, strict=True)))


def shared_shape(graph: ComputationGraph) -> GraphShape:
    """A shape out of few, so that searches on many graphs share compilations.

    Real graphs have one to two tensors and edges an op; for so many ops of a ladder there is room
    for twice as many tensors and three times as many edges.
    """
    exact = exact_shape(graph)
    ops = padded_size(max(exact.ops, exact.tensors // 2 + 1, exact.edges // 3 + 1), smallest=32)
    windows = (padded_size(exact.output_window), padded_size(exact.edge_window))
    return GraphShape(ops, 2 * ops, 3 * ops, *windows)


def graph_arrays(graph: ComputationGraph, shape: GraphShape | None = None) -> GraphArrays:
    """Pads a graph to a shape (its own by default). Raises OptionError if it does not fit."""
    shape = shape or exact_shape(graph)
    if any(need > room for need, room in zip(exact_shape(graph), shape, strict=True)):
        raise OptionError(f"{graph} needs {exact_shape(graph)}, which does not fit {shape}")
    tensor = graph.consumers.row_of_value()
    producer = graph.producer[tensor]
    order = np.argsort(np.where(producer < 0, graph.num_ops, producer), kind="stable")
    edges_of_op = np.bincount(producer[producer >= 0], minlength=graph.num_ops)
    return GraphArrays(
        num_ops=jnp.int32(graph.num_ops),
        num_tensors=jnp.int32(graph.num_tensors),
        producer=_pad(graph.producer, shape.tensors, -1),
        size=_pad(graph.size.astype(bytes_dtype()), shape.tensors, 0),
        persistent=_pad(graph.persistent, shape.tensors, False),
        duration=_pad(graph.duration, shape.ops, 0),
        workspace=_pad(graph.workspace.astype(bytes_dtype()), shape.ops, 0),
        edge_tensor=_pad(tensor[order], shape.edges, shape.tensors),
        edge_op=_pad(graph.consumers.values[order], shape.edges, shape.ops),
        output_offsets=_pad_offsets(graph.outputs.lengths(), shape.ops),
        output_tensors=_pad(graph.outputs.values, shape.tensors, shape.tensors),
        edge_offsets=_pad_offsets(edges_of_op, shape.ops),
        output_window=jnp.arange(shape.output_window, dtype=jnp.int32),
        edge_window=jnp.arange(shape.edge_window, dtype=jnp.int32),
    )


def stacked(trees: Sequence[Any]) -> Any:
    """Pytrees of arrays, of equal shapes, as one of numpy arrays with an axis more, the first."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _pad(values: np.ndarray, length: int, fill: float) -> jax.Array:
    padded = np.full(length, fill, values.dtype)
    padded[: len(values)] = values
    return jnp.asarray(padded)


def _pad_offsets(lengths: np.ndarray, rows: int) -> jax.Array:
    offsets = np.zeros(rows + 1, np.int32)
    offsets[1 : len(lengths) + 1] = np.cumsum(lengths)
    offsets[len(lengths) + 1 :] = offsets[len(lengths)]
    return jnp.asarray(offsets)
