"""A program run in the best way found, which is remembered."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.ways import budget, trade
from regal_jax.compiler.ways.attempts import Attempts, each_of
from regal_jax.compiler.ways.budget import BudgetSearch
from regal_jax.compiler.ways.fit import check_fits
from regal_jax.compiler.ways.judge import Attempt, Judge, Way, flops_ratio, judge_of
from regal_jax.compiler.ways.trade import Trade, best_trade, timed
from regal_jax.compiler.xla import behind, decisions
from regal_jax.compiler.xla.decisions import Decision, Memory
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.reschedule import Report
from regal_jax.compiler.xla.settings import Options, Search
from regal_jax.errors import CompilerError

_RUNS, _FORM, _CUTS = "runs", "form", "cuts"
"""What a decision keeps of a way."""


def compile_way(
    traced: Any,
    lowered: jax.stages.Lowered,
    target: Accelerator | None,
    options: Options,
    compiler_options: Mapping[str, Any] | None = None,
) -> tuple[jax.stages.Compiled, Report]:
    """Compiles a traced function in the best way found: within its memory budget, if it has one.

    Raises:
      LimitError: nothing that was tried is within the budget.
      CompilerError: the compiler refuses the function as it is, or JAX doesn't show what it traced.
    """
    started = time.perf_counter()
    where = (target.name, len(target.devices)) if target else ("cpu", 1)
    own = sorted((compiler_options or {}).items())
    key = decisions.key_of(lowered, *where, own, options._replace(cache=None))
    slices = options.slices and options.memory_budget is not None
    judge = judge_of(traced, target, compiler_options, slices=slices)
    how = each_of(options.search)
    known = decisions.load(options.cache, key) if options.cache else None
    made = known and _again(judge, known, options.memory_budget, how)
    if known and made:
        report = Report(known.module, known.name, _memory(judge, known, made), {}, cached=True)
    else:
        made, *others = _search(judge, options, how)
        report = _report(f"jit_{traced.fun_name}", made, others)
        if options.cache:
            decisions.save(options.cache, key, _decision(report, made.way))
    compiled = made.program or judge.compile(made.way)
    return compiled, report._replace(
        compile_seconds=time.perf_counter() - started,
        accelerator=target.name if target else "",
        budget=options.memory_budget or 0,
    )


def _search(judge: Judge, options: Options, how: Search) -> list[Attempt]:
    """What was compiled, the best first. Raises LimitError where none is within the budget."""
    if options.memory_budget is None:
        assert judge.target is not None
        capacity = judge.target.specification.memory_bytes
        return best_trade(
            Attempts(timed(judge, options.overlap), how),
            Trade(capacity, options.time_price, options.overlap),
            compilations=trade.COMPILATIONS if options.top_k is None else options.top_k,
            time_limit=how.time_limit,
        )
    attempts = Attempts(judge, how)
    best = BudgetSearch(attempts, reorders=True).within(
        options.memory_budget,
        compilations=budget.COMPILATIONS if options.top_k is None else options.top_k,
        time_limit=how.time_limit,
    )
    check_fits(judge, best, options.memory_budget)
    return [best, *(one for one in attempts.all if one is not best)]


def _report(module: str, best: Attempt, others: Sequence[Attempt]) -> Report:
    (plain,) = (one.needs for one in (best, *others) if one.way == Way(PLAIN))
    memory = {one.way.name: one.needs.memory for one in (*others, best)}
    return Report(
        *(module, best.way.name, memory, {}),
        time_ratio=best.needs.seconds / plain.seconds if plain.seconds else 1.0,
        flops_ratio=flops_ratio(best.needs, plain),
    )


def _memory(judge: Judge, known: Decision, made: Attempt) -> Mapping[str, Memory]:
    """Of every way that was compiled; on an accelerator that is there the chosen one may need
    something else than without it."""
    return known.memory if judge.target is None else {**known.memory, known.name: made.needs.memory}


def _decision(report: Report, way: Way) -> Decision:
    form = [way.near, int(way.compact), way.loops, int(way.fuses_sums), int(way.inner)]
    order = {
        name: [str(number) for number in numbers]
        for name, numbers in ((_RUNS, way.runs), (_FORM, form), (_CUTS, way.cuts))
    }
    order |= behind.words(way.behind)
    return Decision(report.module, report.chosen, order, report.memory, 0)


def _again(judge: Judge, known: Decision, limit: int | None, how: Search) -> Attempt | None:
    """What was decided before, compiled; None if it isn't of this program after all, or needs more
    than the budget.

    Where the device is there, and was not before, the compiler may make other kernels of it: these
    get an order of their own behind the scheduler then, if they need one.
    """
    way = _way(judge, known)
    if way is None:
        return None

    def within(one: Attempt) -> Attempt | None:  # CPUs' compiler makes the same as before
        fits = limit is None or judge.target is None or one.needs.total <= limit
        return one if fits else None

    with contextlib.suppress(CompilerError):
        return within(judge.built(way))
    with contextlib.suppress(CompilerError):
        base = judge.built(way.as_scheduled)
        if limit is not None and within(base):
            return base
        with contextlib.suppress(CompilerError):
            base = judge.reordered(base, how) or base
        return within(base)
    return None


def _way(judge: Judge, known: Decision) -> Way | None:
    """The way that a decision says, None if there is no such one of this program."""
    try:
        runs, cuts = (tuple(map(int, known.order[name])) for name in (_RUNS, _CUTS))
        near, compact, loops, fuses_sums, inner = map(int, known.order[_FORM])
        version = judge.versions[loops]
    except (IndexError, KeyError, ValueError):
        return None
    kernels = range(version.kernels_of(bool(inner)).graph.num_ops)
    if runs and sorted(set(runs)) != list(kernels):
        return None
    if cuts and not (len(runs) == len(kernels) and all(0 < cut < len(runs) for cut in cuts)):
        return None
    order = behind.from_words(known.order)
    form = (near, bool(compact), loops, cuts, order, bool(fuses_sums))
    return Way(known.name, runs, *form, slices=version.turns, inner=bool(inner))
