"""Sequencing of machine problems: schedules that are made choice by choice, by a network or a rule.

Each choice is one of a conflict (see ``kernel``), so that schedules are active, of which one is
optimal where units are not shared (Giffler and Thompson 1960). State-dependent choices are what
one-shot priorities can't make: what it costs to wait, and which machine binds, change as a schedule
grows.
"""

import numpy as np

from regal_jax.environments.choosing.choices import Choices, Choosing
from regal_jax.environments.choosing.kernel import MOST, Network
from regal_jax.environments.rcpsp.bounds import makespan_bound
from regal_jax.environments.rcpsp.columns import machine_columns
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.environments.sequencing import kernel
from regal_jax.environments.sequencing.kernel import FEATURES, NAMES, Columns
from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native.threads import over_threads

MOST_UNITS = 1_000_000
"""Units of all machine types, each of which has a time of release."""


def columns(graph: ComputationGraph) -> Columns:
    """What sequencing reads of a graph. OptionError for one with more than MOST_UNITS units."""
    own = machine_columns(graph)
    if (units := int(own.capacity.sum())) > MOST_UNITS:
        raise OptionError(
            f"sequencing is for up to {MOST_UNITS:,} units of machines, not {units:,}"
        )
    bottom, pairs = precedence.bottom_levels(graph), graph.op_pairs
    behind = np.full(graph.num_ops, -1, np.int32)
    by_path = pairs[np.argsort(bottom[pairs[:, 1]], kind="stable")]
    behind[by_path[:, 0]] = by_path[:, 1]
    tail = bottom - graph.duration
    counts = np.bincount(own.machine, minlength=len(own.capacity))
    return Columns(
        duration=graph.duration.astype(float),
        tail=tail,
        levels=precedence.levels_to_sinks(graph).astype(float),
        demand=own.demand,
        machine=own.machine,
        missing=own.num_dependencies,
        successor_offsets=own.successor_offsets,
        successors=own.successors,
        next=behind,
        op_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        ops=np.lexsort((-tail, own.machine)).astype(np.int32),
        unit_offsets=np.concatenate([[0], np.cumsum(own.capacity)]).astype(np.int64),
        heads=precedence.top_levels(graph),
        unit=10.0 * (float(graph.duration.mean()) or 1.0),
    )


def sequences(
    columns: Columns, network: Network, seeds: np.ndarray, temperature: float
) -> tuple[np.ndarray, np.ndarray]:
    """(orders int32[B, O], makespans float64[B]) of drawn schedules, one a seed uint64[B]: of the
    largest logits with temperature 0."""
    orders = np.empty((len(seeds), len(columns.duration)), np.int32)
    makespans = np.empty(len(seeds))

    def run(first: int, last: int) -> None:
        part, state = slice(first, last), kernel.new_state(columns, len(network.last))
        into = orders[part], makespans[part]
        kernel.sequence(columns, state, network, seeds[part], float(temperature), *into)

    over_threads(run, len(seeds), len(seeds) * len(columns.duration) * len(network.last))
    return orders, makespans


def choices(columns: Columns, order: np.ndarray) -> Choices:
    """The choices that follow an order int32[O]: of ops in conflict the first is next. They make it
    again if it is one of ``sequences``."""
    num_ops, rank = len(order), np.argsort(order).astype(np.int32)
    rows = np.zeros((num_ops, MOST, FEATURES), np.float32)
    counts, chosen = np.empty(num_ops, np.int32), np.empty(num_ops, np.int32)
    kernel.follow(columns, kernel.new_state(columns, 1), rank, rows, counts, chosen)
    real = counts > 1
    return Choices(rows[real], counts[real], chosen[real])


def priorities(problem: MachineProblem, orders: np.ndarray) -> np.ndarray:
    """float32[B, genes]: chromosomes that fall along orders int32[B, O], without windows. By serial
    generation they decode to schedules that are no longer than the sequenced ones."""
    genes = np.zeros((len(orders), problem.num_genes), np.float32)
    falling = 1.0 - np.arange(problem.num_ops, dtype=np.float32) / problem.num_ops
    np.put_along_axis(genes, orders, np.broadcast_to(falling, orders.shape), axis=1)
    return genes


SEQUENCING = Choosing(NAMES, columns, makespan_bound, sequences, choices)
"""Sequencing as an environment of choices; costs are makespans."""
