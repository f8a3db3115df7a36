"""The best order and cuts of a program, as the compiler of its accelerator judges them.

Tried are the program's own order and that of least memory by the model, with few cuts or many; a
compilation each, which tells the true bytes. XLA's own choice competes, so the result never needs
more.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from regal_jax import api
from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.measure import Measurement, compile_for, measured
from regal_jax.compiler.accelerators.timing import has_fixed_trips, run_seconds
from regal_jax.compiler.barriers.carried import through_cuts
from regal_jax.compiler.barriers.cuts import live_bytes, valleys
from regal_jax.compiler.barriers.emission import donated_arguments, in_segments, program_of
from regal_jax.compiler.barriers.kernels import Kernels, kernels
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.errors import CompilerError
from regal_jax.reporting import progress

FIRST = 16
STEP = 4
"""Cuts of the first attempts, and by how many times their number changes then."""

MOST_TIME = 1.02
"""Of the plain program's time, where time counts."""

CLOSE = 1.01
"""Of the fewest bytes: among ways that need no more, the fastest is best."""


class Segments(NamedTuple):
    """A way to run a program.

    Attributes:
      name: method and number of cuts; PLAIN for XLA's own choice.
      order: the kernels as they run; nothing for XLA's own choice.
      cuts: how many kernels run before each barrier, ascending.
    """

    name: str
    order: tuple[int, ...] = ()
    cuts: tuple[int, ...] = ()


class Attempt(NamedTuple):
    """A way that was compiled, the program, and what it needs."""

    segments: Segments
    compiled: Any
    measurement: Measurement


class Judge(NamedTuple):
    """Compiles a traced function in segments, for an accelerator.

    Attributes:
      traced: ``jax.jit(fn).trace(...)``.
      kernels: of the function.
      target: what it is compiled for.
      options: XLA's compiler options.
      runs: whether programs are timed, rather than by estimate.
    """

    traced: Any
    kernels: Kernels
    target: Accelerator
    options: Mapping[str, Any] | None
    runs: bool = False

    def __call__(self, segments: Segments) -> Attempt:
        """Raises CompilerError where the compiler refuses the program."""
        traced = self.traced
        if segments.order:
            carried = through_cuts(self.kernels, segments.order, segments.cuts)
            traced = in_segments(traced, self.kernels, segments.order, carried)
        compiled = compile_for(traced.lower(), self.target, self.options)
        needs = measured(compiled, self.target)
        if self.runs and (seconds := run_seconds(compiled)) is not None:
            needs = dataclasses.replace(needs, seconds=seconds)
        return Attempt(segments, compiled, needs)


def judge_of(traced: Any, target: Accelerator, options: Mapping[str, Any] | None) -> Judge:
    """Raises CompilerError for a function whose ops may not be moved."""
    return Judge(traced, kernels(program_of(traced), donated_arguments(traced)), target, options)


def search(
    judge: Judge,
    *,
    compilations: int,
    overlap: bool = False,
    evaluations: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
) -> list[Attempt]:
    """Compiles a program in several ways; the best first.

    Args:
      judge: compiles.
      compilations: at most, besides the plain one.
      overlap: whether ways that take more than MOST_TIME of the plain time are worse than it; then
        all are timed where the device is there (``timing``), else by estimate.
      evaluations, time_limit, seed: of the search for the order of least memory.
    """
    if overlap and judge.target.is_there:
        judge = judge._replace(runs=has_fixed_trips(judge.traced))
    plain = judge(Segments(PLAIN))
    most_seconds = MOST_TIME * plain.measurement.seconds if overlap else float("inf")

    def cost(attempt: Attempt) -> tuple[bool, float, float]:
        needs = attempt.measurement
        if needs.seconds > most_seconds:
            return True, needs.seconds, needs.beyond_arguments
        return False, needs.beyond_arguments, needs.seconds

    late = time.perf_counter() + (float("inf") if time_limit is None else time_limit)
    attempts: list[Attempt] = []
    with progress.status(f"looking for an order on {judge.target.name}"):
        lines = _lines(judge.kernels, evaluations, time_limit, seed)
        for segments in _ways(lines, lambda: min(attempts, key=cost, default=None)):
            if len(attempts) == compilations or time.perf_counter() > late:
                break
            with contextlib.suppress(CompilerError):
                attempts.append(judge(segments))
    return _fastest_first(sorted([plain, *attempts], key=cost))


def _fastest_first(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The fastest of those that are CLOSE to the first, then the others."""
    most = CLOSE * attempts[0].measurement.beyond_arguments
    close = [one for one in attempts if one.measurement.beyond_arguments <= most]
    fastest = min(close, key=lambda one: one.measurement.seconds)
    return [fastest, *(one for one in attempts if one is not fastest)]


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


def _lines(
    kernels: Kernels, evaluations: int | None, time_limit: float | None, seed: int
) -> dict[str, Line]:
    """The order of least memory and the program's own, if they have any valleys."""
    graph = kernels.graph
    if graph.num_ops < 3:
        return {}
    best = api.optimize(
        graph, num_devices=1, seed=seed, evaluations=evaluations, time_limit=time_limit
    )
    orders = {"auto": best.ops_in_order().tolist(), "program": list(range(graph.num_ops))}
    lines = {name: line_of(kernels, order) for name, order in orders.items()}
    return {name: line for name, line in lines.items() if line.places}


def _ways(lines: Mapping[str, Line], best: Callable[[], Attempt | None]) -> Iterator[Segments]:
    """Each order with FIRST cuts; then more or fewer than the best so far has, in either order."""
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
            near = (number * STEP, max(1, number // STEP))
            waiting = [
                (one, count)
                for count in near
                for one in (name, *others)
                if lines[one].cut(one, count)[1:] not in tried
            ][:1]
