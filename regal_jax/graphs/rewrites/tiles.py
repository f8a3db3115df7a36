"""Ops split along the rows of the batch, as compilers for accelerators split them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.graphs.importers import roofline
from regal_jax.graphs.rewrites.row_wise import RULES, RowWise, Rule, row_wise_ops
from regal_jax.graphs.rewrites.transforms import taken


def tiles(
    graph: ComputationGraph, num_tiles: int, *, rules: Mapping[str, Rule] = RULES
) -> ComputationGraph:
    """The graph with each row-wise op split into ``num_tiles`` ops, each on its share of the rows.

    Which ops are row-wise: ``row_wise.row_wise_ops``, by ``rules`` for their kinds. Each output of
    a split op becomes ``num_tiles`` tensors that share its bytes (the first ones one more, if they
    don't divide), persistent if it was. A tile op reads the tile of its number of each split
    tensor, and other tensors whole: parameters, and activations that ops before made in one piece
    (a view of a slice is free). Other ops aren't split: they read all tiles and make whole tensors.

    Costs of a tile op: its share of the FLOPs; its share of the bytes, but all of those of the
    constants every row needs; the original duration times the ratio of ``roofline.A100``'s bounds
    (a share of it where FLOPs and bytes aren't known); a share of the workspace, rounded up.
    Halos aren't modelled: what a convolution's tile reads of its neighbours' rows when the rows are
    not whole examples.

    Ops and tensors are numbered in the old order, the tiles of each one after another, so a program
    order stays one. Names of tile ops get the suffix ``#tile``. One tile is the graph itself.
    Raises OptionError for less than one.
    """
    if num_tiles < 1:
        raise OptionError(f"num_tiles is {num_tiles}, needs at least 1")
    if num_tiles == 1:
        return graph
    row_wise = row_wise_ops(graph, rules)
    is_split = np.append(row_wise.op, False)[graph.producer]  # producer -1 looks up the last
    ops, tensors = _copies(row_wise.op, num_tiles), _copies(is_split, num_tiles)
    columns = taken(graph, ops.old, tensors.old)
    columns["size"] = _share(graph.size, tensors).astype(np.int64)
    columns["producer"] = _producers(graph, ops, tensors)
    rows, consumers = _readings(graph, ops, tensors)
    columns["consumers"] = ragged_rows(rows, consumers, len(tensors.old))
    columns["op_names"] = _names(columns["op_names"], ops)
    return graph.replace(**(columns | _costs(graph, row_wise, ops)))


class _Copies(NamedTuple):
    """Ops or tensors, some of them split.

    Attributes:
      first: int[N], the number of each one's first tile; parts: int[N], its tiles (1: whole).
      old: int[N'], which one each new one is of; part: int[N'], its tile.
    """

    first: np.ndarray
    parts: np.ndarray
    old: np.ndarray
    part: np.ndarray


def _copies(is_split: np.ndarray, num_tiles: int) -> _Copies:
    parts = np.where(is_split, num_tiles, 1)
    first = np.cumsum(parts) - parts
    old = np.repeat(np.arange(len(parts)), parts)
    return _Copies(first, parts, old, np.arange(len(old)) - first[old])


def _share(amount: np.ndarray, copies: _Copies) -> np.ndarray:
    """[N']: each tile's share of an amount [N]; exact sums, whole numbers but for one remainder."""
    quotient, remainder = np.divmod(amount, copies.parts)
    return quotient[copies.old] + np.clip(remainder[copies.old] - copies.part, 0, 1)


def _producers(graph: ComputationGraph, ops: _Copies, tensors: _Copies) -> np.ndarray:
    """int32[T']: a split tensor's tile is made by that tile of its producer."""
    old = graph.producer[tensors.old]
    first = np.append(ops.first, -1)[old]
    return (first + tensors.part).astype(np.int32)


def _readings(
    graph: ComputationGraph, ops: _Copies, tensors: _Copies
) -> tuple[np.ndarray, np.ndarray]:
    """(tensor, its reader), int[N] each: tile by tile where both are split."""
    tensor, reader = graph.consumers.row_of_value(), graph.consumers.values
    pairs = _copies((tensors.parts[tensor] > 1) | (ops.parts[reader] > 1), _most(ops, tensors))
    tensor, reader = tensor[pairs.old], reader[pairs.old]
    return (
        tensors.first[tensor] + np.where(tensors.parts[tensor] > 1, pairs.part, 0),
        ops.first[reader] + np.where(ops.parts[reader] > 1, pairs.part, 0),
    )


def _most(ops: _Copies, tensors: _Copies) -> int:
    return max(int(ops.parts.max(initial=1)), int(tensors.parts.max(initial=1)))


def _costs(graph: ComputationGraph, row_wise: RowWise, ops: _Copies) -> dict[str, Any]:
    """The columns of durations, workspaces, FLOPs and bytes."""
    costs: dict[str, Any] = {
        "duration": (graph.duration / ops.parts)[ops.old],
        "workspace": (-(-graph.workspace // ops.parts))[ops.old],
    }
    if graph.flops is not None:
        costs["flops"] = _share(graph.flops, ops)
    if graph.bytes_accessed is not None:
        costs["bytes_accessed"] = _tile_bytes(graph.bytes_accessed, row_wise, ops)
    if graph.flops is not None and graph.bytes_accessed is not None:
        whole = roofline.durations_us(graph.flops, graph.bytes_accessed)[ops.old]
        tile = roofline.durations_us(costs["flops"], costs["bytes_accessed"])
        known = (whole > 0) & (ops.parts[ops.old] > 1)
        scaled = graph.duration[ops.old] * tile / np.where(known, whole, 1.0)
        costs["duration"] = np.where(known, scaled, costs["duration"])
    return costs


def _tile_bytes(bytes_accessed: np.ndarray, row_wise: RowWise, ops: _Copies) -> np.ndarray:
    """int64[O']: its share of the rows' bytes, and all of the constants' (if the op read them)."""
    constant = np.where(bytes_accessed >= row_wise.whole_bytes, row_wise.whole_bytes, 0)
    return (_share(bytes_accessed - constant, ops) + constant[ops.old]).astype(np.int64)


def _names(names: tuple[str, ...], ops: _Copies) -> tuple[str, ...]:
    is_tile = ops.parts[ops.old] > 1
    labels = zip(names, is_tile.tolist(), ops.part.tolist(), strict=False)
    return tuple(f"{name}#{part}" if tile else name for name, tile, part in labels)
