"""The way to run a program that is best in bytes and time, as its accelerator's compiler judges.

There are rows of ways: a base order in ever more segments, and kernels of the program, or of it
with leaner loops, of which ever more run again. Each row is begun where it is best as far as is
known (for plans by the model of kernels); then what is next to the best way is compiled, and once
that was, what is next to the second best, and so on. The best way, and XLA's own choice, also get
another order of what the compiler made of them, behind its scheduler, which costs no time. What
needs more bytes than XLA's own choice is never best.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from regal_jax.compiler.accelerators.timing import has_fixed_trips
from regal_jax.compiler.recompute.plans import Lines
from regal_jax.compiler.ways.attempts import Attempts, by_plan, in_segments, whole
from regal_jax.compiler.ways.judge import Attempt, Judge, Needs, Way
from regal_jax.compiler.xla.decisions import Memory
from regal_jax.compiler.xla.settings import TIME_PRICE
from regal_jax.reporting import progress
from regal_jax.search.recompute.search import Plan

COMPILATIONS = 8
"""Ways that are compiled, besides XLA's own, unless told otherwise."""

SEGMENTS = (1, 4, 16, 64, 256)
BEGIN = 1
"""Of a base order, and which of these is tried first."""

SHARES = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Limits of plans, of what a good order needs beyond what is given."""

PATIENCE = 2
"""Plans that are no better than another by the model, after which no lower limit is planned for."""

LEAST_SECONDS = 1e-9
"""What no program takes less than: estimates may be 0."""

MOST_TIME, LEAST_BESIDE = 1.02, 0.98
"""Of the plain program's time, and of its collectives that have work beside them, where time
counts."""

Cost = tuple[int, float]
"""What is wrong with a way, and how much of it there is."""


class Trade(NamedTuple):
    """What is best.

    Attributes:
      capacity: bytes of a device; ways that need more are worse than others.
      price: percents of bytes that a percent of time is worth.
      overlap: whether ways that take more than MOST_TIME of the plain time, or run fewer than
        LEAST_BESIDE of its collectives beside other work, are worse than it.
    """

    capacity: int
    price: float = TIME_PRICE
    overlap: bool = False

    def cost(self, needs: Needs, plain: Needs) -> Cost:
        """The less the better; ``plain`` is XLA's own choice."""
        if needs.total > self.capacity:
            return 2, needs.total
        is_late = needs.seconds > MOST_TIME * plain.seconds
        if self.overlap and (is_late or needs.beside < LEAST_BESIDE * plain.beside):
            return 1, needs.seconds
        size, seconds = needs.memory.total, max(needs.seconds, LEAST_SECONDS)
        worth = math.log(max(size, 1)) + self.price * math.log(seconds)
        return 0, worth if size <= plain.memory.total else math.inf


def timed(judge: Judge, overlap: bool) -> Judge:
    """A judge whose programs run where time counts and the device is there."""
    is_there = judge.target is not None and judge.target.is_there
    return judge._replace(runs=overlap and is_there and has_fixed_trips(judge.traced))


def best_trade(
    attempts: Attempts,
    trade: Trade,
    *,
    compilations: int = COMPILATIONS,
    time_limit: float | None = None,
) -> list[Attempt]:
    """Ways that were compiled, the best first.

    Args:
      attempts: that are made.
      trade: what is best.
      compilations: at most, besides the plain one and two in an order behind the scheduler.
      time_limit: seconds.
    """
    late = time.perf_counter() + (float("inf") if time_limit is None else time_limit)
    plain = attempts.plain
    found = [plain]

    def cost(attempt: Attempt) -> Cost:
        return trade.cost(attempt.needs, plain.needs)

    def ranked() -> list[tuple[Way, bool]]:
        good = min(cost(plain), (1, 0.0))
        return [(one.way, cost(one) < good) for one in sorted(found[1:], key=cost)]

    def left() -> float:
        return max(late - time.perf_counter(), 0.0)

    with progress.status("looking for a way to run it"):
        rows = _rows(attempts, trade, left) if compilations else []
        ways = _ways(rows, ranked)
        for way in itertools.islice(ways, compilations):
            if left() and (made := attempts.of(way)):
                found.append(made)
        for base in dict.fromkeys((min(found, key=cost), plain)) if compilations else ():
            if left():
                made = attempts.reordered(base, None if time_limit is None else left())
                found += [made] if made else []
    return sorted(found, key=cost)


class _Row(NamedTuple):
    """Ways of one kind, of ever fewer bytes, and where to begin."""

    ways: tuple[Way, ...]
    begin: int


def _ways(rows: Sequence[_Row], ranked: Callable[[], Sequence[tuple[Way, bool]]]) -> Iterator[Way]:
    """The first of each row; then what is next to the best one that has such, or, if that isn't
    good enough, what is nearest to it of its row and wasn't tried; where all are refused, what is
    smaller.

    Args:
      ranked: those that were tried so far, the best first, and whether each is good enough.
    """
    tried: set[Way] = set()
    waiting = [row.ways[row.begin] for row in rows]
    while waiting:
        tried.add(way := waiting.pop(0))
        yield way
        if not waiting:
            made = ranked()
            near = [_steps(row, way, good) for way, good in made for row in rows if way in row.ways]
            smaller = [] if made else [row.ways[row.begin + 1 :] for row in rows]
            waiting = [one for one in itertools.chain(*near, *smaller) if one not in tried][:1]


def _steps(row: _Row, way: Way, is_good: bool) -> Sequence[Way]:
    """What to try of a row around a way of it, the nearest first, of two that with fewer bytes."""
    place, reach = row.ways.index(way), 1 if is_good else len(row.ways)
    places = [at for at in range(len(row.ways)) if 0 < abs(at - place) <= reach]
    return [row.ways[at] for at in sorted(places, key=lambda at: (abs(at - place), at < place))]


def _rows(attempts: Attempts, trade: Trade, left: Callable[[], float]) -> list[_Row]:
    if not attempts.judge.kernels.graph.num_ops:
        return []
    lines, loops = attempts.lines(0), range(1, len(attempts.judge.versions))
    rows = [
        _plans(attempts, trade, 0, left),
        *(_segments(lines, order) for order in lines.orders),
        *(_lean(attempts, _plans(attempts, trade, number, left), number) for number in loops),
    ]
    return [row for row in rows if row.ways]


def _segments(lines: Lines, order: str) -> _Row:
    cut = [in_segments(lines, order, number) for number in SEGMENTS]
    ways = tuple(dict.fromkeys(way for way in cut if way))
    return _Row(ways, min(BEGIN, len(ways) - 1))


def _lean(attempts: Attempts, plans: _Row, loops: int) -> _Row:
    """With leaner loops alone before the plans."""
    alone = whole(attempts.judge, loops)
    return _Row((alone, *plans.ways), min(plans.begin + 1, len(plans.ways)))


def _plans(attempts: Attempts, trade: Trade, loops: int, left: Callable[[], float]) -> _Row:
    """For ever lower limits, as long as these are kept and worth it by the model."""
    lines, plain = attempts.lines(loops), attempts.plain.needs
    ways, costs = list[Way](), list[Cost]()
    for limit in map(lines.limit, SHARES):
        made = lines.within(limit)
        if made.plan.peak > limit or not left():
            break
        ways.append(by_plan(made, of=whole(attempts.judge, loops)))
        costs.append(trade.cost(_expected(lines, made.plan, plain), plain))
        if min(costs) not in costs[-PATIENCE:]:
            break
    begin = costs.index(min(costs)) if costs else 0
    return _Row(tuple(ways), begin)


def _expected(lines: Lines, plan: Plan, plain: Needs) -> Needs:
    """What a plan needs if it is to XLA's own choice as it is to the plain order in the model; what
    the model says where XLA's own choice was refused."""
    of, size = lines.plain, plan.peak - lines.given
    if plain.is_refused:
        return plain._replace(memory=Memory(size, 0, 0), seconds=plan.work)
    memory = Memory(int(size / max(of.peak - lines.given, 1) * plain.memory.total), 0, 0)
    return plain._replace(memory=memory, seconds=plain.seconds * plan.work / of.work)
