"""A traced function as another one, in which kernels run in a given sequence, some again.

What a run reads from far before, and what a repeated run reads at all, goes through an optimisation
barrier beside what was made last. So no compiler merges the repeated work with the first, or begins
with it earlier, or keeps for it what cheap ops make again. Kernels that are close to each other
have no barrier between them, and fuse as they would. The number that a constant array is made of
goes through one, too, where a scatter writes upon the array, or a kernel is one: compilers make
equal arrays once, keep that and copy it. The arithmetic is the same, op by op.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.compiler.barriers.making import Inside, Making
from regal_jax.graphs.importers.jax.flat_program import FlatOp, FlatProgram, value_of

ANY = 2**31
"""Runs that no program has: nothing is far."""


def program_in_runs(kernels: Kernels, runs: Sequence[int], near: int) -> Callable[..., Any]:
    """A function of the flat arguments, with its kernels in this sequence.

    Args:
      kernels: of the function.
      runs: kernels as they run; each reads what was made last.
      near: runs after which what is read goes through a barrier.
    """
    program = kernels.program
    at_last = Making(program).of(program.bases(), frozenset(kernels.ops))

    def run(*arguments: Any) -> Any:
        memory = _Memory(program, arguments, near)
        for kernel in runs:
            memory.run(kernels.ops[kernel], kernels.insides[kernel])
        return program.outputs(memory.after(at_last.ops, {}))

    return run


class _Memory:
    """The arrays in memory while a function is traced."""

    def __init__(self, program: FlatProgram, arguments: Sequence[Any], near: int):
        self._program, self._ops, self._near = program, program.ops, near
        self._known = dict(enumerate(arguments)) | dict(program.constants)
        self._given = frozenset(self._known)
        self._version = dict.fromkeys(self._known, 0)  # how often each was replaced
        self._read: dict[int, int] = {}  # the last run that read or made each
        self._done: set[tuple] = set()  # runs, by what they read
        self._latest: int | None = None  # a value that the latest run made

    def run(self, op: int, inside: Inside) -> None:
        """Runs a kernel: cheap ops, and then its own."""
        if fenced := self._far(op, inside.sources):
            self._fence(fenced)
        self._done.add(self._key(op, inside.sources))
        writes = self._ops[op].writes
        known = self.after((*inside.ops, op), self._blank(op, inside))
        self._put(writes, [known[value] for value in writes])
        self._read.update(dict.fromkeys((*inside.sources, *writes), len(self._done)))
        self._latest = writes[0]

    def after(self, ops: Sequence[int], made: Mapping[int, Any]) -> dict[int, Any]:
        """All arrays, when these ops have run, too, but for those that are made already."""
        known = {**self._known, **made}
        self._program.run([op for op in ops if not made.keys() & self._ops[op].writes], known)
        return known

    def _blank(self, op: int, inside: Inside) -> dict[int, Any]:
        """The constant array that a kernel writes upon, or is: made after something that it reads,
        or else after the latest run."""
        step, makers = self._ops[op].steps[-1], [self._ops[one] for one in (*inside.ops, op)]
        writes_upon = step.equation.primitive.name.startswith("scatter")
        upon = step.inputs[:1] if writes_upon else step.outputs
        found = [maker for maker in makers if maker.writes == upon and _is_constant(maker)]
        made = [value for value in inside.sources if value not in self._given]
        beside = made[0] if made else self._latest
        if not found or beside is None:
            return {}
        (blank,) = found[0].writes
        aval, number = self._program.avals[blank], value_of(found[0].steps[-1].inputs[0], {})
        pair = jnp.asarray(number, aval.dtype), self._known[beside]
        scalar, array = jax.lax.optimization_barrier(pair)
        self._put((beside,), (array,))
        return {blank: jnp.broadcast_to(scalar, aval.shape)}

    def _far(self, op: int, sources: Sequence[int]) -> Sequence[int]:
        """What an op must not read without a barrier."""
        made = [value for value in sources if value not in self._given]
        if self._key(op, sources) in self._done:
            return made or sources
        return [value for value in made if len(self._done) - self._read[value] > self._near]

    def _fence(self, values: Sequence[int]) -> None:
        """Puts values behind a barrier that waits for the latest run."""
        latest = () if self._latest is None else (self._latest,)
        together = list(dict.fromkeys((*values, *latest)))
        barred = jax.lax.optimization_barrier([self._known[value] for value in together])
        self._put(together, barred)
        self._read.update(dict.fromkeys(together, len(self._done)))

    def _put(self, values: Sequence[int], arrays: Sequence[Any]) -> None:
        for value, array in zip(values, arrays, strict=True):
            self._known[value] = array
            self._version[value] = self._version.get(value, 0) + 1

    def _key(self, op: int, sources: Sequence[int]) -> tuple:
        return op, *((value, self._version[value]) for value in sources)


def _is_constant(op: FlatOp) -> bool:
    """Whether an op makes an array of one number."""
    equation, inputs, _ = op.steps[-1]
    return equation.primitive.name == "broadcast_in_dim" and isinstance(inputs[0], Literal)
