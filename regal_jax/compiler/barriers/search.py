"""The best order and cuts of a program, as the compiler of its accelerator judges them.

Tried are the program's own order and that of least memory by the model, with few cuts or many; a
compilation each, which tells the true bytes. The best of them, and XLA's own choice, also get
another order of what the compiler made of them, behind its scheduler, which costs no time. What
needs more bytes than XLA's own choice is never best.
"""

import contextlib
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from regal_jax import api
from regal_jax.compiler.accelerators.measure import Measurement
from regal_jax.compiler.accelerators.timing import has_fixed_trips
from regal_jax.compiler.barriers.cuts import live_bytes, valleys
from regal_jax.compiler.barriers.judge import Attempt, Judge, Segments
from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.compiler.xla.behind import REORDERED
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.settings import Search
from regal_jax.errors import CompilerError
from regal_jax.reporting import progress

FIRST = 16
STEP = 4
"""Cuts of the first attempts, and by how many times their number changes then."""

LEAST_SECONDS = 1e-9
"""What no program takes less than: estimates may be 0."""

MOST_TIME, LEAST_BESIDE = 1.02, 0.98
"""Of the plain program's time, and of its collectives that have work beside them, where time
counts."""


def search(
    judge: Judge,
    how: Search,
    *,
    compilations: int,
    time_price: float = 1.0,
    overlap: bool = False,
    known: Iterable[Attempt] = (),
) -> list[Attempt]:
    """Compiles a program in several ways; the best first.

    Args:
      judge: compiles.
      how: orders are searched for.
      compilations: at most, besides the plain one and two in an order behind the scheduler.
      time_price: percents of bytes that a percent of time is worth.
      overlap: whether ways that take more than MOST_TIME of the plain time, or run fewer than
        LEAST_BESIDE of its collectives beside other work, are worse than it; then all are timed
        where the device is there (``timing``), else by estimate.
      known: what this judge has compiled before; it isn't compiled again.
    """
    if overlap and judge.target.is_there:
        judge = judge._replace(runs=has_fixed_trips(judge.traced))
    made_before = {one.segments.name: one for one in known}

    def compiled(segments: Segments) -> Attempt:
        return made_before.get(segments.name) or judge(segments)

    def reordered(base: Attempt, how: Search) -> Attempt | None:
        return made_before.get(base.segments.name + REORDERED) or judge.reordered(base, how)

    plain = compiled(Segments(PLAIN))
    most_seconds = MOST_TIME * plain.measurement.seconds if overlap else float("inf")
    least_beside = LEAST_BESIDE * _beside(plain.measurement) if overlap else 0.0

    def cost(attempt: Attempt) -> tuple[bool, bool, float]:
        needs, of = attempt.measurement, plain.measurement
        if needs.seconds > most_seconds or _beside(needs) < least_beside:
            return True, False, needs.seconds
        return False, needs.beyond_arguments > of.beyond_arguments, _worth(needs, of, time_price)

    late = time.perf_counter() + (float("inf") if how.time_limit is None else how.time_limit)
    attempts = [plain]

    def attempt(make: Callable[[], Attempt | None]) -> None:
        if time.perf_counter() <= late:
            with contextlib.suppress(CompilerError):
                if (made := make()) is not None:
                    attempts.append(made)

    with progress.status(f"looking for an order on {judge.target.name}"):
        ways = _ways(judge.kernels, how, lambda: min(attempts[1:], key=cost, default=None))
        for segments in itertools.islice(ways, compilations):
            attempt(functools.partial(compiled, segments))
        bases = {one.segments: one for one in (min(attempts, key=cost), plain)}
        for one in bases.values() if compilations else ():
            left = None if how.time_limit is None else max(late - time.perf_counter(), 1e-3)
            attempt(functools.partial(reordered, one, how._replace(time_limit=left)))
    return sorted(attempts, key=cost)


def _beside(needs: Measurement) -> float:
    """The share of collectives that have other work beside them; 1 without any."""
    return needs.overlapped / needs.collectives if needs.collectives else 1.0


def _worth(needs: Measurement, of: Measurement, price: float) -> float:
    """Bytes and time of a program over another's, as one number, the less the better."""
    size = max(needs.beyond_arguments, 1) / max(of.beyond_arguments, 1)
    seconds = max(needs.seconds, LEAST_SECONDS) / max(of.seconds, LEAST_SECONDS)
    return math.log(size) + price * math.log(seconds)


class Line(NamedTuple):
    """An order of all kernels, and where to cut it, the best places first."""

    order: tuple[int, ...]
    places: list[int]

    def cut(self, name: str, number: int) -> Segments:
        cuts = tuple(sorted(self.places[:number]))
        return Segments(f"{name}/{len(cuts)}", self.order, cuts)


def line_of(kernels: Kernels, order: Sequence[int]) -> Line:
    """An order with the valleys of what is live."""
    return Line(tuple(order), valleys(live_bytes(kernels.graph, order)))


def _lines(kernels: Kernels, how: Search) -> dict[str, Line]:
    """The order of least memory and the program's own, if they have any valleys."""
    graph = kernels.graph
    if graph.num_ops < 3:
        return {}
    best = api.optimize(
        graph,
        num_devices=1,
        seed=how.seed,
        evaluations=how.evaluations,
        time_limit=how.time_limit,
    )
    orders = {"auto": best.ops_in_order().tolist(), "program": list(range(graph.num_ops))}
    lines = {name: line_of(kernels, order) for name, order in orders.items()}
    return {name: line for name, line in lines.items() if line.places}


def _ways(kernels: Kernels, how: Search, best: Callable[[], Attempt | None]) -> Iterator[Segments]:
    """Each order with FIRST cuts; then fewer or more than the best so far has, in either order."""
    lines = _lines(kernels, how)
    tried = set()
    waiting = [(name, FIRST) for name in lines]
    while waiting:
        name, number = waiting.pop(0)
        segments = lines[name].cut(name, number)
        if segments[1:] not in tried:
            tried.add(segments[1:])
            yield segments
        now = best()
        if not waiting and now is not None:
            name, number = now.segments.name.split("/")[0], len(now.segments.cuts)
            others = [one for one in lines if one != name]
            near = (max(1, number // STEP), number * STEP)
            waiting = [
                (one, count)
                for count in near
                for one in (name, *others)
                if lines[one].cut(one, count)[1:] not in tried
            ][:1]
