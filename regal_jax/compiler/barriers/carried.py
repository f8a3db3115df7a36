"""What goes through a cut: the fewest bytes from which the rest of the program can be made.

What comes after a cut reads values from before it. Those that cheap ops make may be made again
there, inside the kernels that read them, as XLA does by itself where no barrier is in between. The
least set to carry is a minimum cut: each value is an arc of its bytes, from kernels and from what
an earlier cut carried, through cheap ops, to what is needed. Among the least sets it is the one
that makes the least again. Arguments and results are in memory anyway, and cost nothing.
"""

from collections.abc import Sequence

import numpy as np

from regal_jax.compiler.barriers.kernels import Kernels, bytes_of, is_cheap
from regal_jax.environments.placement.min_cut import Arcs, FlowNetwork
from regal_jax.native import max_flow


def through_cuts(
    kernels: Kernels, order: Sequence[int], cuts: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """What goes through each cut of an order, by its place."""
    carrying, since = Carrying(kernels, order), 0
    before: tuple[int, ...] = ()
    found: dict[int, tuple[int, ...]] = {}
    for cut in cuts:
        before = found[cut] = carrying.through(cut, before, since)
        since = cut
    return found


class Carrying:
    """The cuts of one order of a program's kernels.

    Args:
      kernels: of the program.
      order: the kernels, as they run.
    """

    def __init__(self, kernels: Kernels, order: Sequence[int]):
        self.program = program = kernels.program
        self._number = len(program.avals)
        self._given = [*range(program.num_arguments), *program.constants]
        self._position = {kernels.ops[kernel]: place for place, kernel in enumerate(order)}
        self._made = self._times()  # kernels that have run when a value can be made
        self._kept = self._kept_values()
        self._network = FlowNetwork(self._arcs())
        self._needs = self._reads()

    def through(self, cut: int, before: Sequence[int] = (), since: int = 0) -> tuple[int, ...]:
        """The values carried through a cut.

        Args:
          cut: how many kernels run before it.
          before: what the cut before it carries, which runs after ``since`` kernels.
        """
        side = np.zeros(2 * self._number + 2, np.int8)
        fresh = self._kept & (self._made > since) & (self._made <= cut)
        fresh[self._given] = True
        fresh[list(before)] = True
        side[: self._number][fresh] = max_flow.SOURCE
        value, time = self._needs
        needed = value[(time >= cut) & (self._made[value] <= cut)]
        side[self._number + needed] = max_flow.SINK
        left = self._network.unused()
        self._network.send(left, side)
        reaching = self._network.reaching(left, side)
        inside, outside = ~reaching[: self._number], reaching[self._number : -2]
        return tuple(np.flatnonzero(inside & outside).tolist())

    def _times(self) -> np.ndarray:
        position = self._position
        made = np.zeros(self._number, np.int64)
        for number, op in enumerate(self.program.ops):
            inputs = made[list(op.reads)].max(initial=0)
            made[list(op.writes)] = position[number] + 1 if number in position else inputs
        return made

    def _kept_values(self) -> np.ndarray:
        kept = np.zeros(self._number, bool)
        for op in self.program.ops:
            if not is_cheap(op):
                kept[list(op.writes)] = True
        return kept

    def _arcs(self) -> Arcs:
        """Value v is the nodes v and V + v; the first leads to the second."""
        program, number = self.program, self._number
        free = {*self._given, *program.bases()}
        sizes = [0 if v in free else bytes_of(program, v) for v in range(number)]
        own = (np.arange(number), np.arange(number) + number, np.array(sizes, np.int64))
        cheap = [op for op in program.ops if is_cheap(op)]
        pairs = [(read, made) for op in cheap for made in op.writes for read in op.reads]
        reads, made = np.array(pairs, np.int64).reshape(-1, 2).T
        again = (reads + number, made, sum(sizes) + 1)
        return Arcs.of([own, again], 2 * number + 2)

    def _reads(self) -> tuple[np.ndarray, np.ndarray]:
        """(value, kernels that have run before it is read last) of every read."""
        program, pairs = self.program, list[tuple[int, int]]()
        for number, op in enumerate(program.ops):
            time = self._position.get(number)
            if time is None:
                time = int(self._made[list(op.writes)].max()) - 1
            pairs += [(value, time) for value in op.reads]
        pairs += [(value, len(self._position)) for value in program.bases()]
        values, times = np.array(pairs, np.int64).reshape(-1, 2).T
        return values, times
