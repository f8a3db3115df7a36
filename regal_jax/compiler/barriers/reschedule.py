"""A program for an accelerator in its best segments, which are remembered.

What is kept of a decision is the order of the kernels, where it is cut, and the order of what the
compiler made of that; the compiler's word on its memory comes with it.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.measure import Measurement
from regal_jax.compiler.barriers.judge import Attempt, Judge, Segments, judge_of
from regal_jax.compiler.barriers.search import PLAIN, search
from regal_jax.compiler.xla import behind, decisions
from regal_jax.compiler.xla.behind import REORDERED
from regal_jax.compiler.xla.decisions import Decision, Memory
from regal_jax.compiler.xla.reschedule import Report
from regal_jax.compiler.xla.settings import Options, Search
from regal_jax.errors import CompilerError

COMPILATIONS = 5
"""Ways that are compiled, besides XLA's own, unless told otherwise."""


def compile_in_segments(
    traced: Any,
    lowered: jax.stages.Lowered,
    target: Accelerator,
    options: Options,
    compiler_options: Mapping[str, Any] | None = None,
) -> tuple[jax.stages.Compiled, Report]:
    """Compiles a traced function for an accelerator, in the best segments found.

    Raises:
      CompilerError: its compiler refuses the function as it is, or JAX doesn't show what it traced.
    """
    started = time.perf_counter()
    own = sorted((compiler_options or {}).items())
    how = options._replace(cache=None)
    key = decisions.key_of(lowered, target.name, len(target.devices), own, how)
    judge = judge_of(traced, target, compiler_options)
    known = decisions.load(options.cache, key) if options.cache else None
    if known and (attempt := _again(judge, known, options.search)) is not None:
        spent = time.perf_counter() - started
        memory = {**known.memory, known.name: memory_of(attempt.measurement)}
        report = Report(known.module, known.name, memory, {}, compile_seconds=spent)
        return attempt.compiled, report._replace(cached=True, accelerator=target.name)
    attempts = search(
        judge,
        options.search,
        compilations=COMPILATIONS if options.top_k is None else options.top_k,
        time_price=options.time_price,
        overlap=options.overlap,
    )
    spent = time.perf_counter() - started
    report = _report(str(traced.fun_name), target, attempts, spent)
    if options.cache:
        decisions.save(options.cache, key, _decision(report, attempts[0].segments))
    return attempts[0].compiled, report


def memory_of(needs: Measurement) -> Memory:
    """What is compared of a measurement."""
    return Memory(needs.temporaries, needs.outputs, needs.donated)


def _report(name: str, target: Accelerator, attempts: Sequence[Attempt], spent: float) -> Report:
    """Of all attempts, the best first."""
    memory = {one.segments.name: memory_of(one.measurement) for one in attempts}
    (plain,) = (one for one in attempts if one.segments.name == PLAIN)
    seconds = attempts[0].measurement.seconds, plain.measurement.seconds
    return Report(
        *(f"jit_{name}", attempts[0].segments.name, memory, {}),
        compile_seconds=spent,
        accelerator=target.name,
        time_ratio=seconds[0] / seconds[1] if seconds[1] else 1.0,
    )


def _decision(report: Report, segments: Segments) -> Decision:
    order = {"order": _words(segments.order), "cuts": _words(segments.cuts)}
    order |= behind.words(segments.behind)
    return Decision(report.module, report.chosen, order, report.memory, 0)


def _words(numbers: Sequence[int]) -> list[str]:
    return [str(number) for number in numbers]


def _again(judge: Judge, known: Decision, how: Search) -> Attempt | None:
    """What was decided before, compiled; None if it isn't of this program after all.

    Where the device is there, and was not before, the compiler may make other kernels of it: these
    get an order of their own behind the scheduler then.
    """
    try:
        order, cuts = (tuple(map(int, known.order[name])) for name in ("order", "cuts"))
    except (KeyError, ValueError):
        return None
    number = judge.kernels.graph.num_ops
    if order and not (sorted(order) == list(range(number)) and all(0 < c < number for c in cuts)):
        return None
    base = Segments(known.name.removesuffix(REORDERED), order, cuts)
    with contextlib.suppress(CompilerError):
        return judge(base._replace(name=known.name, behind=behind.from_words(known.order)))
    found = None
    with contextlib.suppress(CompilerError):
        found = judge(base)
        return judge.reordered(found, how) or found
    return found
