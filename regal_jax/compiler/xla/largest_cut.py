"""What every order of a module has in memory beside some instruction of the entry: a minimum cut.

An op is an instruction of the entry, with all steps of the bodies that it runs. A tensor is memory
that is the same in every order: made by whoever writes it first, read by whoever reads or writes it
later; other values are tensors of size 0, which say what comes before what. Outputs persist. Those
that take a donated parameter's memory are left out; the parameter counts, to its last reader.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.compiler.xla.live_memory import LiveMemory
from regal_jax.environments.placement import bounds, min_cut
from regal_jax.graphs.computation_graph import ComputationGraph


class Cut(NamedTuple):
    """A step, and values in memory there; in every order they are no fewer bytes."""

    step: int
    values: list[int]


def largest_cut(
    memory: LiveMemory, entry: str, counted: Sequence[bool], working: Sequence[Sequence[int]]
) -> Cut:
    """The largest of the minimum cuts below instructions, with what the instruction makes.

    Args:
      memory: of a module, in the order of its text.
      entry: the name of its entry.
      counted: bool[V], whether a value's memory counts.
      working: for every step, the values that are in memory together there in every order.
    """
    op_of = np.cumsum([name == entry for name, _ in memory.steps]) - 1
    first = _first_values(memory)
    given = {n for n in first if memory.memories[memory.values[n].memory].kind in GIVEN}
    producer = [
        -1 if number in given else int(op_of[value.step])
        for number, value in enumerate(memory.values)
    ]
    size = _sizes(memory, first, counted)
    new = [
        [n for n in dict.fromkeys(first[n] for n in numbers) if size[n] and producer[n] == op]
        for op, numbers in zip(op_of, working, strict=True)
    ]
    own = np.array([sum(size[n] for n in numbers) for numbers in new])
    fullest = np.lexsort((-own, op_of))[np.flatnonzero(np.diff(op_of, prepend=-1))]
    graph = ComputationGraph.create(
        producer=producer,
        size=size,
        consumers=_readers(memory, op_of, first, producer),
        num_ops=len(fullest),
        persistent=_kept(memory, first),
    )
    spare = graph.outputs.sums(graph.size)  # more than an op needs that works in place
    graph = graph.replace(workspace=own[fullest] - spare + spare.max())
    op = bounds.quick_cut(graph).op
    step = int(fullest[op])
    return Cut(step, [*_left(graph, op), *new[step]])


GIVEN = ("parameter", "constant")


def _first_values(memory: LiveMemory) -> list[int]:
    """Of every value, the first in its memory."""
    first: dict[int, int] = {}
    return [first.setdefault(value.home, number) for number, value in enumerate(memory.values)]


def _outputs(memory: LiveMemory, first: Sequence[int], is_taking: bool) -> list[int]:
    """The outputs that take a donated parameter's memory, or those that don't."""
    outputs = [one for one in memory.memories if one.kind == "output"]
    return [first[one.values[-1]] for one in outputs if (one.donor is not None) == is_taking]


def _sizes(memory: LiveMemory, first: Sequence[int], counted: Sequence[bool]) -> list[int]:
    size = [
        value.array.num_bytes if counted[number] and first[number] == number else 0
        for number, value in enumerate(memory.values)
    ]
    for number in _outputs(memory, first, is_taking=True):
        size[number] = 0
    return size


def _kept(memory: LiveMemory, first: Sequence[int]) -> np.ndarray:
    kept = np.zeros(len(first), bool)
    kept[_outputs(memory, first, is_taking=False)] = True
    return kept


def _readers(
    memory: LiveMemory, op_of: np.ndarray, first: Sequence[int], producer: Sequence[int]
) -> list[list[int]]:
    """Of every value the ops that need it; of the first in a memory, also what writes there."""
    readers: list[set[int]] = [set() for _ in first]
    for number, value in enumerate(memory.values):
        there = {int(op_of[step]) for step in value.reads}
        readers[number] |= there
        readers[first[number]] |= there | {producer[number]}
    return [sorted(ops - {made, -1}) for ops, made in zip(readers, producer, strict=True)]


def _left(graph: ComputationGraph, op: int) -> list[int]:
    """The tensors in memory where an op begins, after the ops of its least cut."""
    _, below, _ = min_cut.Network(graph).least_cut(op)
    is_read = np.zeros(graph.num_tensors, bool)
    np.logical_or.at(is_read, graph.consumers.row_of_value(), ~below[graph.consumers.values])
    is_made = (graph.producer < 0) | below[graph.producer]
    return np.flatnonzero(is_made & (is_read | graph.persistent) & (graph.size > 0)).tolist()
