"""Random precedence between the activities of a project, without redundant arcs."""

import math
from collections.abc import Iterator

import numpy as np

MAX_ARCS = 3
"""First activities, last activities, and arcs into or out of each (PSPLIB's parameters)."""


ATTEMPTS = 20
"""Networks drawn at most until one has all arcs; with 30 activities, 2.1 takes a few."""


class _Network:
    """Arcs between activities in topological order, none of them redundant.

    Sets of activities are bits of an int: of each, its direct successors, and all activities
    before and after it, itself included.
    """

    def __init__(self, num_ops: int):
        self.successors = [0] * num_ops
        self.before = [1 << op for op in range(num_ops)]
        self.after = [1 << op for op in range(num_ops)]
        self.num_in = [0] * num_ops
        self.num_out = [0] * num_ops

    def has_room(self, first: int, second: int) -> bool:
        return self.num_out[first] < MAX_ARCS and self.num_in[second] < MAX_ARCS

    def outdated(self, first: int, second: int) -> list[tuple[int, int]]:
        """The arcs that the arc from ``first`` to ``second`` would make redundant."""
        below = self.after[second]
        return [
            (op, target)
            for op in _members(self.before[first])
            for target in _members(self.successors[op] & below)
        ]

    def is_new(self, first: int, second: int) -> bool:
        """Whether an arc would neither be redundant nor make another one so."""
        return not self.after[first] >> second & 1 and not self.outdated(first, second)

    def add(self, first: int, second: int) -> None:
        """Adds an arc between activities that no path joins, and drops those it outdates."""
        for op, target in self.outdated(first, second):
            self._count(op, target, -1)
        self._count(first, second, 1)
        above, below = self.before[first], self.after[second]
        for op in _members(above):
            self.after[op] |= below
        for op in _members(below):
            self.before[op] |= above

    def _count(self, first: int, second: int, change: int) -> None:
        self.successors[first] ^= 1 << second
        self.num_out[first] += change
        self.num_in[second] += change

    def arcs(self) -> list[tuple[int, int]]:
        return [(op, after) for op, row in enumerate(self.successors) for after in _members(row)]


def project_network(
    rng: np.random.Generator, num_ops: int, complexity: float
) -> list[tuple[int, int]]:
    """Arcs from lower to higher activities, in the three steps of ProGen.

    Kolisch, Sprecher, Drexl 1995, "Characterization and generation of a general class of
    resource-constrained project scheduling problems", with PSPLIB's limits: at most three arcs into
    or out of an activity; three first and three last activities (below nine activities fewer).

    Ours: arcs are uniform among those allowed; where an activity would be left without predecessor
    or successor, the limit of three gives way, and an arc that the new one makes redundant goes;
    where no network of several has as many arcs as ``complexity`` says, the one with most is taken.

    Args:
      complexity: arcs over activities, both with those of the dummies before and after all others.
    """
    ends = min(MAX_ARCS, max(num_ops // 3, 1))
    num_arcs = math.ceil(complexity * (num_ops + 2)) - 2 * ends
    most: list[tuple[int, int]] = []
    for _ in range(ATTEMPTS):
        network = _Network(num_ops)
        _connect(rng, network, ends)
        _fill(rng, network, ends, num_arcs)
        most = max(most, network.arcs(), key=len)
        if len(most) >= num_arcs:
            break
    return most


def _connect(rng: np.random.Generator, network: _Network, ends: int) -> None:
    """ProGen's first steps: a predecessor for each, then a successor for each that has none."""
    num_ops = len(network.successors)
    first_last = num_ops - ends
    for op in range(ends, num_ops):
        allowed = range(min(op, first_last))
        free = [before for before in allowed if network.num_out[before] < MAX_ARCS]
        network.add(int(rng.choice(free or allowed)), op)
    for op in reversed(range(first_last)):
        if not network.num_out[op]:
            allowed = range(max(op + 1, ends), num_ops)
            new = [after for after in allowed if network.is_new(op, after)]
            free = [after for after in new if network.num_in[after] < MAX_ARCS]
            network.add(op, int(rng.choice(free or new or allowed)))


def _fill(rng: np.random.Generator, network: _Network, ends: int, num_arcs: int) -> None:
    """The last step: random arcs up to ``num_arcs``; a hundred draws for each that is missing."""
    num_ops = len(network.successors)
    missing = num_arcs - sum(network.num_out)
    if missing <= 0 or num_ops <= ends:
        return
    pairs = np.sort(rng.integers(num_ops, size=(100 * missing, 2)), axis=1)
    inside = (pairs[:, 0] < num_ops - ends) & (pairs[:, 1] >= ends) & (pairs[:, 0] < pairs[:, 1])
    for first, second in pairs[inside].tolist():
        if missing and network.has_room(first, second) and network.is_new(first, second):
            network.add(first, second)
            missing -= 1


def _members(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
