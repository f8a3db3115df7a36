"""Orders of an XLA module's instructions: which computations have one, and orders of ops as such.

A computation that runs instruction by instruction is the entry, or what a while, a conditional or a
call runs; not the bodies of fusions, reductions, sorts.
"""

import heapq
import re
from collections.abc import Iterator, Mapping, Sequence

from regal_jax.errors import CompilerError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.xla.module import bodies
from regal_jax.graphs.importers.xla.text import Computation, Instruction, Module

ModuleOrder = Mapping[str, Sequence[str]]
"""Names of instructions in execution order, by the name of their computation."""

_DONATIONS = re.compile(r"input_output_alias=\{(?:[^{}]|\{[^{}]*\})*\},? ?")


def sequenced(module: Module) -> list[str]:
    """Names of the computations that have an order, callees before callers, the entry last."""
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        for one in module.computations[name].instructions.values():
            for called in bodies(one):
                if called not in found:
                    visit(called)
        found[name] = None

    visit(module.entry)
    return list(found)


def order_of(module: Module) -> dict[str, tuple[str, ...]]:
    """The order that a module's text stands in. CompilerError if it isn't XLA's schedule."""
    if not module.is_scheduled:
        raise CompilerError(f"module {module.name} has no schedule: compile it, or dump it after")
    return {name: tuple(module.computations[name].instructions) for name in sequenced(module)}


def reordered(module: Module, order: ModuleOrder) -> Module:
    """A module whose text stands in another order."""
    computations = dict(module.computations)
    for name, sequence in order.items():
        old = computations[name]
        instructions = {key: old.instructions[key] for key in sequence}
        computations[name] = Computation(old.name, instructions, old.root)
    return Module(module.name, module.header, computations, module.entry)


def without_donations(module: Module) -> Module:
    """A module whose results all have memory of their own."""
    header = _DONATIONS.sub("", module.header)
    return Module(module.name, header, module.computations, module.entry)


def instruction_order(
    computation: Computation, graph: ComputationGraph, ops: Sequence[int]
) -> tuple[str, ...]:
    """The order of all instructions in which those that are ops run as given.

    Args:
      computation: whose ops, by name, are instructions.
      graph: its graph (``computation_graph``).
      ops: a topological order of the graph.

    Instructions that are no ops (parameters, constants, other names of buffers) follow what they
    wait for at once.
    """
    rank = {graph.op_names[op]: place for place, op in enumerate(ops)}
    users: dict[str, list[str]] = {name: [] for name in computation.instructions}
    missing = {}
    for name, one in computation.instructions.items():
        waits = set(_predecessors(one))
        missing[name] = len(waits)
        for other in waits:
            users[other].append(name)
    place = {name: index for index, name in enumerate(computation.instructions)}
    ready = [(rank.get(name, -1), place[name], name) for name in users if not missing[name]]
    heapq.heapify(ready)
    sequence = []
    while ready:
        _, _, name = heapq.heappop(ready)
        sequence.append(name)
        for user in users[name]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (rank.get(user, -1), place[user], user))
    return tuple(sequence)


def _predecessors(one: Instruction) -> Iterator[str]:
    yield from one.operands
    yield from one.called("control-predecessors")
