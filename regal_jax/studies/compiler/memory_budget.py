"""Train steps within memory budgets: ``rj.jit`` and ``rj.fit`` against ``jax.checkpoint``."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.measure import placed
from regal_jax.compiler.ways.attempts import EVALUATIONS, Attempts
from regal_jax.compiler.ways.budget import COMPILATIONS, BudgetSearch, pareto
from regal_jax.compiler.ways.judge import KEEP_BARRIERS, Attempt, Judge, Needs, Way, judge_of
from regal_jax.compiler.ways.least import least_bytes
from regal_jax.compiler.xla import settings as xla_settings
from regal_jax.compiler.xla.behind import REORDERED
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.reschedule import MEMORY_OPTIMIZED
from regal_jax.datasets import jax_train_steps
from regal_jax.datasets.jax_train_steps import Program
from regal_jax.errors import CompilerError, LimitError
from regal_jax.reporting import progress
from regal_jax.reporting.results import Row
from regal_jax.reporting.statistics import geometric_mean
from regal_jax.reporting.tables import human_bytes
from regal_jax.studies import keys
from regal_jax.studies.compiler import checkpointed, side_by_side
from regal_jax.studies.compiler.accelerator_memory import mean
from regal_jax.studies.flags import option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.settings import Output

JIT, FIT = "rj.jit", "regal_jax"
LABELS = {JIT: "rj.jit", FIT: "rj.fit"}
"""With orders behind the scheduler, and without; what they are in rows, and in tables."""

BUDGETS = (0.8, 0.6, 0.5, 0.4)
"""Of the plain program's bytes beyond the arguments."""

HALF = 0.5
"""The budget that ``sentence`` is of."""

RUN_BUDGET = 0.6
"""The budget that programs run in."""

RUN = "run"

PRICE = 0.005
"""More work than a share of this has a price to compare."""

EXTRA_COLUMNS = (KEY, "accelerator", "jax", "compilations", "evaluations", "point")
LEAST = "least_bytes"
"""Of a program's results that lie in no donated argument: no way to run it takes fewer."""

FUSES = "fuses_sums"
"""1 where a budget is kept by fused sums alone, which take time that no FLOPs show, or 0."""

SLICES = "slices"
"""How many a program is in within a budget, which take time that FLOPs don't show; 0 for none."""

_LAST_METRIC = "search_seconds"


@dataclass(frozen=True, kw_only=True)
class Settings(Output):
    """Which programs, what they are compiled for, and how long is searched."""

    programs: tuple[str, ...] = option((), "family/mode; all that are trained, unless given.")
    accelerator: str = option("", "Compile for it, with no device: h100, v5e, ... (else on CPUs).")
    compilations: int = option(6, "Of each budget.")
    evaluations: int = option(20_000, "Of each search for an order, or a plan.")
    seed: int = option(0, "Of the searches.")
    pairs: int = option(0, "Runs on this CPU, within RUN_BUDGET and plainly; 0 runs none.")


def measure(settings: Settings, target: Accelerator | None, path: Path) -> list[Row]:
    """Rows of every program, appended to ``path``; those that are there are not made again.

    Raises OptionError for a name that no program has, at once.
    """
    known = [name for name in jax_train_steps.program_names() if name.endswith("/training")]
    names = settings.programs or known
    for name in names:
        jax_train_steps.check_name(name)
    kept, rows = KeptRows(path, _LAST_METRIC, EXTRA_COLUMNS), []
    for name in progress.each("programs", names):
        judge = _judge(jax_train_steps.program(name), target)
        key = keys.key(
            name=name,
            program=judge.traced.lower().as_text(),
            accelerator=settings.accelerator,
            settings=[settings.compilations, settings.evaluations, settings.seed],
            jax=jax.__version__,
        )
        others = functools.cache(functools.partial(_others, name, judge))
        for method, own in ((FIT, key), (JIT, keys.key(made=key, method=JIT))):
            make = functools.partial(_rows, name, others, settings, method)
            rows += kept.rows(own, make)
        if settings.pairs and target is None:
            make = functools.partial(_runs, name, judge, settings)
            rows += kept.rows(
                keys.key(made=key, pairs=settings.pairs, machine=keys.machine()), make
            )
    return rows


def _runs(name: str, judge: Judge, settings: Settings) -> list[Row]:
    """A program within RUN_BUDGET beside the plain one: time and resident memory; nothing where it
    doesn't fit."""
    plain = judge(Way(PLAIN)).needs
    budget = plain.arguments + int(RUN_BUDGET * _beyond(plain))
    options = xla_settings.Options(xla_settings.Search(seed=settings.seed), memory_budget=budget)
    try:
        found = side_by_side.compare(name, options, settings.pairs)
    except LimitError:
        return []
    resident = [
        side_by_side.in_process(side_by_side.resident_bytes, name, one)["resident_bytes"]
        for one in (options, None)
    ]
    found |= {"resident_ratio": resident[0] / resident[1], _LAST_METRIC: 0.0}
    common = {"graph": name, "seed": settings.seed, "jax": jax.__version__, "accelerator": "cpu"}
    common |= {"compilations": COMPILATIONS, "evaluations": EVALUATIONS, "point": ""}
    return [
        common | {"method": RUN, "metric": metric, "value": value}
        for metric, value in found.items()
    ]


class _Other(NamedTuple):
    """The plain program, or one with a policy, and what it needs in the better of XLA's orders."""

    judge: Judge
    needs: Needs


def _others(name: str, judge: Judge) -> dict[str, _Other]:
    """The plain program, and those with policies."""
    judges = {PLAIN: judge}
    for method in checkpointed.METHODS:
        if (one := checkpointed.program(name, method)) is not None:
            judges[method] = _judge(one, judge.target, slices=False)
    return {method: _Other(one, _best_of_xla(one)) for method, one in judges.items()}


def _rows(
    name: str, others: Callable[[], Mapping[str, _Other]], settings: Settings, method: str
) -> list[Row]:
    """The plain program, each policy's, the best of each budget, and all that none is better than.

    Budgets are shares of the plain program's bytes, and the bytes of each policy's. With JIT the
    plain program and the policies' are those in an order of ours. What none is better than leaves
    out slices on CPUs, since FLOPs don't show their time.
    """
    begin = time.perf_counter()
    how = xla_settings.Search(evaluations=settings.evaluations, seed=settings.seed)
    judge, plain = others()[PLAIN]
    search = BudgetSearch(Attempts(judge, how), reorders=method == JIT)
    budgets = {share: plain.arguments + int(share * _beyond(plain)) for share in BUDGETS}
    fitted = {
        f"{method} {share}": search.within(budget, compilations=settings.compilations)
        for share, budget in budgets.items()
    }
    if method == FIT:
        search.look_at(1.0)
    for one in others().values():
        search.within(one.needs.total, compilations=2)
    beside = {other: one.needs for other, one in others().items()}
    if method == JIT:
        beside = {o + REORDERED: _best_of_ours(one, how) for o, one in others().items()}
    alike = [one for one in search.attempts.all if judge.target or not one.way.slices]
    points = [one.needs for one in pareto(alike)]
    spent = time.perf_counter() - begin
    common = {"graph": name, "seed": settings.seed, "jax": jax.__version__}
    common |= {"accelerator": settings.accelerator or "cpu"}
    common |= {"compilations": settings.compilations, "evaluations": settings.evaluations}
    named = [(other, "", needs) for other, needs in beside.items()]
    named += [(share, "", one.needs) for share, one in fitted.items()]
    named += [(method, str(number), needs) for number, needs in enumerate(points)]
    rows = [
        common | {"method": each, "metric": metric, "value": value, "point": point}
        for each, point, needs in named
        for metric, value in _values(needs).items()
    ]
    single = [(PLAIN, LEAST, float(least_bytes(judge)))]
    single += [(share, FUSES, float(one.way.fuses_sums)) for share, one in fitted.items()]
    single += [(share, SLICES, float(one.way.slices)) for share, one in fitted.items()]
    single += [(method, _LAST_METRIC, spent)]
    return rows + [
        common | {"method": of, "metric": metric, "value": value, "point": ""}
        for of, metric, value in single
    ]


def _values(needs: Needs) -> dict[str, float]:
    return {
        "total_bytes": float(_beyond(needs)),
        "argument_bytes": float(needs.arguments),
        "flops": needs.flops,
        "seconds": needs.seconds,
    }


def _beyond(needs: Needs) -> int:
    """Bytes beyond the arguments."""
    return needs.total - needs.arguments


def _judge(one: Program, target: Accelerator | None, *, slices: bool = True) -> Judge:
    args = one.shapes if target is None else placed(target, one.shapes, {})[0]
    return judge_of(one.jitted().trace(*args), target, slices=slices)


def _best_of_xla(judge: Judge) -> Needs:
    """What a program needs in the better of XLA's orders."""
    schedulers: Sequence[Mapping[str, Any]] = ({},) if judge.target else ({}, MEMORY_OPTIMIZED)
    return _least(
        one._replace(options={**one.options, **scheduler})(Way(PLAIN)).needs
        for one in _with_barriers(judge)
        for scheduler in schedulers
    )


def _best_of_ours(other: _Other, how: xla_settings.Search) -> Needs:
    """What a program needs in the best of XLA's orders and ours behind the scheduler."""
    found = [other.needs]
    for one in _with_barriers(other.judge):
        with contextlib.suppress(CompilerError):
            if made := one.reordered(Attempt(Way(PLAIN), other.needs), how):
                found.append(made.needs)
    return _least(found)


def _with_barriers(judge: Judge) -> list[Judge]:
    """As it is, and on CPUs with barriers kept, too, as here: policies get the best of both."""
    kinds: Sequence[Mapping[str, Any]] = ({},) if judge.target else ({}, KEEP_BARRIERS)
    return [judge._replace(options=kind) for kind in kinds]


def _least(found: Iterable[Needs]) -> Needs:
    return min(found, key=lambda needs: needs.total)


class Curves:
    """Rows by program: what each method needs, and the points of ours.

    Args:
      rows: of one accelerator.
      ours: JIT or FIT; only programs that have its rows.

    Attributes:
      names: of the programs.
      work: what there is less of, the better: estimated "time" on accelerators, else "FLOPs".
    """

    def __init__(self, rows: Sequence[Row], ours: str):
        is_timed = any(row["metric"] == "seconds" and float(row["value"]) > 0 for row in rows)
        self.work, self._metric = ("time", "seconds") if is_timed else ("FLOPs", "flops")
        self._ours = ours
        mine = (row for row in rows if str(row["method"]).split()[0] == ours)
        self.names = list(dict.fromkeys(str(row["graph"]) for row in mine))
        self._of: dict[tuple, float] = {
            (row["graph"], row["method"], row["point"], row["metric"]): float(row["value"])
            for row in rows
        }

    def needs(self, name: str, method: str, point: str = "") -> tuple[float, float] | None:
        """(bytes beyond the arguments, work) over the plain program's, if there is such a row."""
        if (name, method, point, self._metric) not in self._of:
            return None
        metrics = "total_bytes", self._metric
        of = [self._of[name, method, point, metric] for metric in metrics]
        plain = [self._of[name, PLAIN, "", metric] for metric in metrics]
        return of[0] / plain[0], of[1] / plain[1] if plain[1] else 1.0

    def points(self, name: str) -> list[tuple[float, float]]:
        """Ours, none with more of both than another."""
        numbers = range(len(self._of))
        found = (self.needs(name, self._ours, str(number)) for number in numbers)
        return list(iter(functools.partial(next, found), None))

    def plain_bytes(self, name: str) -> float:
        """Of the plain program, beyond the arguments."""
        return self._of[name, PLAIN, "", "total_bytes"]

    def least(self, name: str) -> float:
        """The share of these that every way needs (``least_bytes``)."""
        return self._of[name, PLAIN, "", LEAST] / self.plain_bytes(name)

    def fuses(self, name: str, method: str) -> bool:
        """Whether a budget is kept by fused sums; older rows, which don't say, know none."""
        return self._of.get((name, method, "", FUSES), 0.0) > 0

    def slices(self, name: str, method: str) -> int:
        """How many a program is in; none in older rows."""
        return int(self._of.get((name, method, "", SLICES), 0.0))


def budgets(rows: Sequence[Row], ours: str) -> list[dict[str, str]]:
    """A line a budget: how many programs are within it, how many of these by fused sums and in
    slices, how many can't be, whatever the way, and the work of the first over the plain ones'."""
    curves, lines = Curves(rows, ours), []
    for share in BUDGETS:
        method = f"{ours} {share}"
        found = {name: curves.needs(name, method) for name in curves.names}
        within = {name: one[1] for name, one in found.items() if one and one[0] <= share}
        line = {"budget": f"{share:.0%}", "within": f"{len(within)} of {len(found)}"}
        line["by fused sums"] = str(sum(curves.fuses(one, method) for one in within))
        line["in slices"] = str(sum(curves.slices(one, method) > 0 for one in within))
        line["none can be"] = str(sum(curves.least(one) > share for one in found))
        lines.append(line | {curves.work: mean(within) if within else ""})
    return lines


def sentence(rows: Sequence[Row]) -> str:
    """What ``budgets`` says of half the bytes on CPUs, for people."""
    own = [row for row in rows if row["accelerator"] == "cpu"]
    line = next(line for line in budgets(own, JIT) if line["budget"] == f"{HALF:.0%}")
    flops = line["FLOPs"].split(" (")[0]
    return (
        f"Compiled for CPUs, {line['within']} train steps fit half of XLA's bytes, for {flops} of"
        " the FLOPs.\n"
    )


def against(rows: Sequence[Row], ours: str) -> list[dict[str, str]]:
    """A line a policy: our bytes at no more than its work, our work at no more than its bytes.

    The last is the share of its additional work, where there is some.
    """
    curves, lines = Curves(rows, ours), []
    others = (PLAIN, *checkpointed.METHODS)
    for method in others if ours == FIT else (*others, *(f"{one}{REORDERED}" for one in others)):
        both = {name: curves.needs(name, method) for name in curves.names}
        of = {name: one for name, one in both.items() if one}
        points = {name: curves.points(name) for name in of}
        bytes_ = {
            name: min((b for b, w in points[name] if w <= work * (1 + 1e-3)), default=np.inf) / size
            for name, (size, work) in of.items()
        }
        added = {
            name: max(min((w for b, w in points[name] if b <= size), default=np.inf) - 1, 1e-4)
            / (more - 1)
            for name, (size, more) in of.items()
            if more > 1 + PRICE
        }
        known = {name: one for name, one in bytes_.items() if np.isfinite(one)}
        paid = {name: one for name, one in added.items() if np.isfinite(one)}
        lines.append(
            {
                "against": _label(method),
                "programs": str(len(of)),
                "its bytes": _mean([one[0] for one in of.values()]),
                f"its {curves.work}": _mean([one[1] for one in of.values()]),
                "our bytes over its": mean(known) if known else "",
                f"at more {curves.work} only": str(len(bytes_) - len(known)),
                f"our added {curves.work} over its": mean(paid) if paid else "",
                "at more bytes only": str(len(added) - len(paid)),
            }
        )
    return lines


def table(rows: Sequence[Row], ours: str) -> list[dict[str, str]]:
    """A line a program: bytes and work over the plain ones, of each budget and policy."""
    curves, lines = Curves(rows, ours), []
    for name in curves.names:
        line = {"program": name.partition("/")[0], "XLA": human_bytes(curves.plain_bytes(name))}
        methods = [*(f"{ours} {share}" for share in BUDGETS), *checkpointed.METHODS]
        for method in methods:
            needs, how = curves.needs(name, method), " fused" * curves.fuses(name, method)
            if number := curves.slices(name, method):
                how += f" in {number}"
            cell = f"{needs[0]:.2f} {needs[1]:.3f}{how}" if needs else ""
            line[method.replace(f"{ours} ", "")] = cell
        lines.append(line)
    return lines


def runs(rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line a program that ran: within RUN_BUDGET over plainly."""
    metrics = {"run_ratio": "time", "resident_ratio": "resident memory", "difference": "difference"}
    of = {
        (row["graph"], row["metric"]): float(row["value"]) for row in rows if row["method"] == RUN
    }
    return [
        {"program": name.partition("/")[0]}
        | {label: f"{of[name, metric]:.3g}" for metric, label in metrics.items()}
        for name in dict.fromkeys(name for name, _ in of)
    ]


def _label(method: str) -> str:
    return method.replace(REORDERED, ", our order")


def _mean(values: Sequence[float]) -> str:
    return f"{geometric_mean(values):.3f}" if values else ""
