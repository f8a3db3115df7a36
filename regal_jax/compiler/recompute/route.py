"""A program within its memory budget, which is remembered."""

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import jax

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.recompute.fit import check_fits
from regal_jax.compiler.recompute.judge import Judge, Way, flops_ratio, judge_of, needs_of
from regal_jax.compiler.recompute.search import COMPILATIONS, EVALUATIONS, Search
from regal_jax.compiler.xla import behind, decisions, settings
from regal_jax.compiler.xla.behind import REORDERED
from regal_jax.compiler.xla.decisions import Decision
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.reschedule import Report
from regal_jax.compiler.xla.settings import Options
from regal_jax.errors import CompilerError

_RUNS, _FORM, _CUTS = "runs", "form", "cuts"
"""What a decision keeps of a way."""


def compile_within(
    traced: Any,
    lowered: jax.stages.Lowered,
    target: Accelerator | None,
    options: Options,
    compiler_options: Mapping[str, Any] | None = None,
) -> tuple[jax.stages.Compiled, Report]:
    """Compiles a traced function within its memory budget, with the least work found.

    Raises:
      LimitError: nothing that was tried is within the budget.
      CompilerError: the compiler refuses the function as it is, or JAX doesn't show what it traced.
    """
    assert options.memory_budget is not None
    started, budget = time.perf_counter(), options.memory_budget
    own = sorted((compiler_options or {}).items())
    where = target.name if target else "cpu"
    key = decisions.key_of(lowered, where, own, options._replace(cache=None))
    judge = judge_of(traced, target, compiler_options)
    known = decisions.load(options.cache, key) if options.cache else None
    how = settings.Search(evaluations=EVALUATIONS, seed=options.search.seed)
    if known and (compiled := _again(judge, known, budget, how)) is not None:
        report = Report(known.module, known.name, known.memory, {}, cached=True, budget=budget)
        spent = time.perf_counter() - started
        return compiled, report._replace(compile_seconds=spent, accelerator=_name(target))
    search = Search(judge, seed=options.search.seed, reorders=target is not None)
    best = search.within(
        budget,
        compilations=COMPILATIONS if options.top_k is None else options.top_k,
        time_limit=options.search.time_limit,
    )
    check_fits(judge, best, budget)
    compiled, plain = best.program or judge.compile(best.way), search.plain.needs
    memory = {PLAIN: plain.memory, best.way.name: best.needs.memory}
    report = Report(
        *(f"jit_{traced.fun_name}", best.way.name, memory, {}),
        compile_seconds=time.perf_counter() - started,
        accelerator=_name(target),
        time_ratio=best.needs.seconds / plain.seconds if plain.seconds else 1.0,
        budget=budget,
        flops_ratio=flops_ratio(best.needs, plain),
    )
    if options.cache:
        decisions.save(options.cache, key, _decision(report, best.way))
    return compiled, report


def _name(target: Accelerator | None) -> str:
    return target.name if target else ""


def _decision(report: Report, way: Way) -> Decision:
    form = [way.near, int(way.compact), way.loops]
    order = {
        name: [str(number) for number in numbers]
        for name, numbers in ((_RUNS, way.runs), (_FORM, form), (_CUTS, way.cuts))
    }
    order |= behind.words(way.behind)
    return Decision(report.module, report.chosen, order, report.memory, 0)


def _again(
    judge: Judge, known: Decision, budget: int, how: settings.Search
) -> jax.stages.Compiled | None:
    """What was decided before, compiled; None if it isn't of this program after all.

    Where the device is there, and was not before, the compiler may make other kernels of it: these
    get an order of their own behind the scheduler then, if they need one. None, too, if they need
    more than the budget; CPUs' compiler makes the same.
    """
    way = _way(judge, known)
    if way is None:
        return None
    with contextlib.suppress(CompilerError):
        compiled = judge.compile(way)
        is_same = judge.target is None or needs_of(compiled, judge.target).total <= budget
        return compiled if is_same else None
    with contextlib.suppress(CompilerError):
        found = judge(way._replace(name=known.name.removesuffix(REORDERED), behind=()))
        if found.needs.total > budget:
            found = judge.reordered(found, how) or found
        return found.program if found.needs.total <= budget else None
    return None


def _way(judge: Judge, known: Decision) -> Way | None:
    """The way that a decision says, None if there is no such one of this program."""
    try:
        runs, cuts = (tuple(map(int, known.order[name])) for name in (_RUNS, _CUTS))
        near, compact, loops = map(int, known.order[_FORM])
        kernels = range(judge.versions[loops].kernels.graph.num_ops)
    except (IndexError, KeyError, ValueError):
        return None
    if runs and sorted(set(runs)) != list(kernels):
        return None
    if cuts and not (len(runs) == len(kernels) and all(0 < cut < len(runs) for cut in cuts)):
        return None
    order = behind.from_words(known.order)
    return Way(known.name, runs, near, bool(compact), loops, cuts, order)
