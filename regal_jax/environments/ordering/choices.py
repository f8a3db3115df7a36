"""Orders of one device that are made choice by choice, by a network or a rule (``kernel``)."""

import numpy as np

from regal_jax.environments.choosing.choices import Choices, Choosing
from regal_jax.environments.choosing.kernel import MOST, Network
from regal_jax.environments.ordering import kernel
from regal_jax.environments.ordering.kernel import FEATURES, NAMES, Columns
from regal_jax.environments.placement.bounds import working_set_bound
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.native.threads import over_threads


def columns(graph: ComputationGraph) -> Columns:
    """What is read of a graph (BUILD_NOTES.md, section 3, with one device)."""
    num_ops, readers, pairs = graph.num_ops, graph.consumers.lengths(), graph.op_pairs
    made = graph.outputs.sums(np.where((readers > 0) | graph.persistent, graph.size, 0))
    sole = ~graph.persistent & (readers == 1)
    shared = ~graph.persistent & (readers > 1) & (graph.size > 0)
    number = np.cumsum(shared) - 1
    tensor, op = graph.consumers.row_of_value(), graph.consumers.values
    tensor, op = number[tensor[shared[tensor]]], op[shared[tensor]]
    levels, reach = precedence.levels(graph).astype(float), np.zeros(num_ops)
    np.maximum.at(reach, pairs[:, 0], levels[pairs[:, 1]] - levels[pairs[:, 0]])
    during = graph.outputs.sums(graph.size) + graph.workspace
    start = int(graph.size[(graph.producer < 0) & (readers > 0)].sum())
    return Columns(
        during,
        made - graph.inputs.sums(np.where(sole, graph.size, 0)),
        made,
        *ragged_rows(op, tensor, num_ops),
        graph.size[shared],
        readers[shared].astype(np.int32),
        np.bincount(tensor, op, shared.sum()).astype(np.int64),
        *ragged_rows(pairs[:, 0], pairs[:, 1], num_ops),
        *ragged_rows(pairs[:, 1], pairs[:, 0], num_ops),
        levels,
        precedence.levels_to_sinks(graph).astype(float),
        reach,
        start,
        max(start, working_set_bound(graph, 1), 1),
        max(float(during.mean()), 1.0) if num_ops else 1.0,
    )


def orders(
    columns: Columns, network: Network, seeds: np.ndarray, temperature: float
) -> tuple[np.ndarray, np.ndarray]:
    """(orders int32[B, O], peaks int64[B], bytes) of drawn orders, one a seed uint64[B]: of the
    largest logits with temperature 0."""
    found = np.empty((len(seeds), len(columns.during)), np.int32)
    peaks = np.empty(len(seeds), np.int64)

    def run(first: int, last: int) -> None:
        part, state = slice(first, last), kernel.new_state(columns, len(network.last))
        into = found[part], peaks[part]
        kernel.draw_orders(columns, state, network, seeds[part], float(temperature), *into)

    over_threads(run, len(seeds), len(seeds) * len(columns.during) * len(network.last))
    return found, peaks


def choices(columns: Columns, order: np.ndarray) -> Choices:
    """The choices that follow an order int32[O]: of the ops that are looked at the first is next.
    They make it again if it is one of ``orders``; ops that cost nothing run before their turn."""
    num_ops, rank = len(order), np.argsort(order).astype(np.int32)
    rows = np.zeros((num_ops, MOST, FEATURES), np.float32)
    counts, chosen = np.empty(num_ops, np.int32), np.empty(num_ops, np.int32)
    kernel.follow(columns, kernel.new_state(columns, 1), rank, rows, counts, chosen)
    real = counts > 1
    return Choices(rows[real], counts[real], chosen[real])


def peak_bound(graph: ComputationGraph) -> float:
    """Bytes that some op needs by itself."""
    return float(working_set_bound(graph, 1))


NEXT_OP = Choosing(NAMES, columns, peak_bound, orders, choices)
"""Orders of one device as an environment of choices; costs are peaks, bytes."""
