"""Which ops make values out of what is in memory."""

from collections.abc import Sequence
from typing import NamedTuple

from regal_jax.graphs.importers.jax.flat_program import FlatProgram


class Inside(NamedTuple):
    """What makes some values: ops in program order, from values in memory."""

    ops: tuple[int, ...]
    sources: tuple[int, ...]


class Making:
    """Which op makes each value of a program."""

    def __init__(self, program: FlatProgram):
        self._ops = program.ops
        self._maker = {value: op for op, one in enumerate(program.ops) for value in one.writes}

    def of(self, values: Sequence[int], kept: frozenset[int]) -> Inside:
        """What makes values out of what some ops keep in memory, and of what is given."""
        ops: set[int] = set()
        sources: dict[int, None] = {}
        waiting = list(reversed(values))
        while waiting:
            value = waiting.pop()
            op = self._maker.get(value)
            if op is None or op in kept:
                sources[value] = None
            elif op not in ops:
                ops.add(op)
                waiting += reversed(self._ops[op].reads)
        return Inside(tuple(sorted(ops)), tuple(sources))
