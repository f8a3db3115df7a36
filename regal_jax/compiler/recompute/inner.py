"""The body of the loop that holds most as a program of its own, whose kernels run in plans, too: a
loop is one kernel of the program that it is in."""

from collections.abc import Callable
from typing import Any, NamedTuple

from regal_jax.compiler.barriers.cuts import live_bytes
from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.graphs.importers.jax.flat_program import FlatProgram
from regal_jax.graphs.importers.jax.loop_bodies import Loop, paths_of, with_body

WORTH = 0.15
"""Of what a program holds at most, as a loop is one kernel: what its body must hold."""


class Inner(NamedTuple):
    """A loop's body.

    Attributes:
      program: all of it.
      loops: the loop, and before it those that it is in the body of.
      kernels: of the body, whose carries are donated.
    """

    program: FlatProgram
    loops: tuple[Loop, ...]
    kernels: Kernels

    def whole(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """The program as a function of the flat arguments, with another body."""
        return with_body(self.program, self.loops, body)


def inner_of(
    kernels: Kernels, kernels_of: Callable[[FlatProgram, frozenset[int]], Kernels]
) -> Inner | None:
    """The body of a program's loops, at any depth, that holds most besides what it is given and
    gives; None if none is worth it.

    Args:
      kernels: of the program.
      kernels_of: those of another program, of which some arguments are donated.
    """
    found = [
        Inner(kernels.program, loops, kernels_of(loops[-1].body, _carries(loops[-1])))
        for loops in paths_of(kernels.program)
    ]
    best = max(found, key=lambda one: held(one.kernels), default=None)
    return best if best and held(best.kernels) > WORTH * held(kernels) else None


def held(kernels: Kernels) -> int:
    """Bytes between kernels, at most, in program order."""
    return int(live_bytes(kernels.graph, range(kernels.graph.num_ops)).max())


def _carries(loop: Loop) -> frozenset[int]:
    return frozenset(range(loop.scan.consts, loop.scan.consts + loop.scan.carry))
