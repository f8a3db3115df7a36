"""What a kernel of machine problems reads and writes: addresses, as arrays."""

import numpy as np

from regal_jax.environments.rcpsp.columns import MachineColumns
from regal_jax.native import bridge
from regal_jax.native.compilation import inlined, inlined_with_arrays
from regal_jax.native.packing import array, floats, narrow, wide, words

MOST_HELD = 2**60
"""Units; sums of demands stop here, far above any capacity (2**53) and below int64's end."""


def scratch_words(num_ops: int, num_slots: int, num_types: int) -> int:
    """int64 words of the working memory for a graph of up to this size, whatever the generation."""
    order = 2 * num_ops + 1024
    rows = 5 * (num_ops + 2)
    parallel = 2 * num_slots + num_slots // 32 + num_slots // 4096 + 4 * num_types + 8
    serial = num_ops // 64 + 1 + 4 * num_slots + 5 * num_types
    return order + num_ops + rows + max(parallel, serial)


@inlined_with_arrays
def arguments(frame):
    """An evaluation's arguments: what XLA calls with a packed graph and chromosomes."""
    packed, _ = bridge.operand(frame, 0)
    genes, gene_dims = bridge.operand(frame, 1)
    dims = words(gene_dims, 2)
    results = (np.int64(0), bridge.result(frame, 0), np.int64(0))
    return packed, genes, (dims[0], dims[1]), bridge.result(frame, 1), results


@inlined_with_arrays
def unpack(address):
    """The columns of a packed graph, in the order of MachineColumns."""
    lengths = words(address, 10)
    at = address + 8 * 10
    duration, at = floats(at, lengths[0])
    longest, at = floats(at, lengths[1])
    demand, at = wide(at, lengths[2])
    capacity, at = wide(at, lengths[3])
    least, at = wide(at, lengths[4])
    machine, at = narrow(at, lengths[5])
    num_dependencies, at = narrow(at, lengths[6])
    successor_offsets, at = narrow(at, lengths[7])
    successors, at = narrow(at, lengths[8])
    slot_offsets, at = narrow(at, lengths[9])
    return MachineColumns(
        duration,
        longest,
        demand,
        capacity,
        least,
        machine,
        num_dependencies,
        successor_offsets,
        successors,
        slot_offsets,
    )


@inlined_with_arrays
def output_arrays(graph, rows, results, at):
    """((makespans, these in float32, starts, starts of one row), the address behind the last)."""
    num_ops = len(graph.duration)
    exact, _ = floats(results[0], rows * (results[0] != 0))
    single = array(results[1], (rows * (results[1] != 0),), np.float32)
    starts, _ = floats(results[2], rows * num_ops * (results[2] != 0))
    start, at = floats(at, num_ops)
    return (exact, single, starts, start), at


@inlined
def write(row, makespan, outputs):
    """Writes what is wanted of a row's schedule."""
    exact, single, starts, start = outputs
    if len(exact) > 0:
        exact[row] = makespan
    if len(single) > 0:
        single[row] = makespan
    if len(starts) > 0:
        for op in range(len(start)):
            starts[row * len(start) + op] = start[op]
