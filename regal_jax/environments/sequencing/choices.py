"""Sequencing of machine problems: schedules that are made choice by choice, by a network or a rule.

Each choice is one of a conflict (see ``kernel``), so that schedules are active, of which one is
optimal where units are not shared (Giffler and Thompson 1960). State-dependent choices are what
one-shot priorities can't make: what it costs to wait, and which machine binds, change as a schedule
grows.
"""

import numpy as np

from regal_jax.environments.choosing.choices import Choosing
from regal_jax.environments.rcpsp.bounds import makespan_bound
from regal_jax.environments.rcpsp.columns import machine_columns
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.environments.sequencing import kernel
from regal_jax.environments.sequencing.kernel import Columns
from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.transforms import reverse

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


def priorities(problem: MachineProblem, orders: np.ndarray) -> np.ndarray:
    """float32[B, genes]: chromosomes that fall along orders int32[B, O], without windows. By serial
    generation they decode to schedules that are no longer than the sequenced ones."""
    genes = np.zeros((len(orders), problem.num_genes), np.float32)
    falling = 1.0 - np.arange(problem.num_ops, dtype=np.float32) / problem.num_ops
    np.put_along_axis(genes, orders, np.broadcast_to(falling, orders.shape), axis=1)
    return genes


SEQUENCING = Choosing(kernel, columns, makespan_bound)
"""Sequencing as an environment of choices; costs are makespans."""

BACKWARDS = SEQUENCING._replace(columns=lambda graph: columns(reverse(graph)))
"""The same of graphs turned round: a schedule grows from its end. The reverse of an order is one of
the graph itself; serial generation then starts each op as early as it can."""
