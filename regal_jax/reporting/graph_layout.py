"""Where to draw each op of a graph: layers by level, rows by barycentres (Sugiyama's method)."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows

SWEEPS = 6
CENTRING = 0.05
"""Pull of each op towards the middle, relative to an edge of one level."""


class Layout(NamedTuple):
    """A layered drawing.

    Attributes:
      layer: int32[O], the column of each op; edges go to higher ones.
      row: float64[O], its height; ops of a layer are at least the layer's spacing apart.
    """

    layer: np.ndarray
    row: np.ndarray


def layered(graph: ComputationGraph) -> Layout:
    """Places the ops of a graph; deterministic, close to linear in its edges.

    Layers are levels, except that ops which only wait for their consumers (constants, casts of
    parameters) stand next to these. A layer of w ops is about w ** 0.7 high.
    """
    layer = _late_layers(graph)
    row = np.zeros(graph.num_ops)
    members = ragged_rows(layer, np.arange(graph.num_ops), int(layer.max(initial=-1)) + 1)
    neighbours = _neighbours(graph, layer)
    for sweep in range(SWEEPS):
        layers = range(len(members.offsets) - 1)
        for column in layers if sweep % 2 == 0 else reversed(layers):
            ops = members.row(column)
            wanted = _barycentres(row, ops, *neighbours)
            row[ops] = wanted if len(ops) == 1 else _spread(wanted)
    return Layout(layer, row)


def _late_layers(graph: ComputationGraph) -> np.ndarray:
    """int32[O]: levels, with ops of no more producers than consumers as late as these allow."""
    layer = precedence.levels(graph)
    pairs = graph.op_pairs
    successors = ragged_rows(pairs[:, 0], pairs[:, 1], graph.num_ops)
    fan_in = np.bincount(pairs[:, 1], minlength=graph.num_ops)
    for op in graph.topological_order[::-1].tolist():
        after = successors.row(op)
        if len(after) and len(after) >= fan_in[op]:
            layer[op] = layer[after].min() - 1
    return layer


def _neighbours(graph: ComputationGraph, layer: np.ndarray) -> tuple[np.ndarray, ...]:
    """(offsets [O + 1], neighbour ops, weights): both ends of each pair, near ones weigh more."""
    pairs = graph.op_pairs
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    rows = ragged_rows(ends[:, 0], ends[:, 1], graph.num_ops)
    span = np.abs(layer[rows.row_of_value()] - layer[rows.values])
    return rows.offsets, rows.values, 1.0 / np.maximum(span, 1.0)


def _barycentres(
    row: np.ndarray, ops: np.ndarray, offsets: np.ndarray, other: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """float64[len(ops)]: the weighted mean row of each op's neighbours, drawn to the middle."""
    result = np.zeros(len(ops))
    for place, op in enumerate(ops.tolist()):
        mine = slice(offsets[op], offsets[op + 1])
        total = float(weight[mine].sum())
        result[place] = float(weight[mine] @ row[other[mine]]) / (total + CENTRING)
    return result


def _spread(wanted: np.ndarray) -> np.ndarray:
    """The rows closest to the wanted ones that keep their order and the layer's spacing."""
    order = np.argsort(wanted, kind="stable")
    steps = np.arange(len(wanted)) * len(wanted) ** -0.3
    result = np.empty(len(wanted))
    result[order] = isotonic_regression(wanted[order] - steps).x + steps
    return result - (result.mean() - wanted.mean())
