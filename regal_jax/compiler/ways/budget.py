"""The way to run a program within a memory budget that adds the least work, as the compiler judges.

A model of kernels says which to run again for a limit; the compiler says what that needs in truth,
and the limit is moved until its word is within the budget.
"""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence

from regal_jax.compiler.recompute.emission import ANY
from regal_jax.compiler.recompute.plans import Lines
from regal_jax.compiler.ways.attempts import (
    AS_IT_IS,
    Attempts,
    by_plan,
    in_segments,
    whole,
    with_fused_sums,
)
from regal_jax.compiler.ways.judge import Attempt, Needs, Way
from regal_jax.compiler.ways.least import result_bytes
from regal_jax.reporting import progress
from regal_jax.reporting.tables import human_bytes

COMPILATIONS = 15
"""Ways that are compiled, besides XLA's own, unless told otherwise."""

SLACK = 0.03
"""Of the budget: what compilers need more than the model says, at a first guess."""

Form = tuple[int, bool]
"""``near`` and ``compact`` of ``Way``."""

FORMS: Mapping[str, Sequence[Form]] = {
    "cpu": ((ANY, True), (1, True), (1, False)),
    "reordered cpu": ((ANY, True), (1, True)),
    "accelerator": ((ANY, False), (32, False), (4, False)),
}
"""How the runs of a plan are compiled, until one is within the budget: the fewest barriers, FLOPs
and time first; on accelerators others only where no plan is within it in the first. With ANY, only
repeated work has some, and XLA orders the rest: where its order is good, or fuses much, that is
best. Behind the scheduler CPUs' programs get an order that doesn't depend on ``compact``."""

REACH = {"reordered cpu": 4.0, "accelerator": 1.25}
"""Of the budget: programs that need no more get another order behind the scheduler. On CPUs one
takes seconds, and XLA begins what runs again long before it is read."""

CLOSE = 0.01
"""Of the budget: limits that are so close aren't told apart."""

NEAR = 0.2
"""Of the way between a limit that fits and one that doesn't: the next is as far from both."""

CUTS = (4, 16, 64)
"""Segments that the base orders are tried in."""

FAR = 1.5
"""Of the budget: where all that was tried needs more, nothing is within it."""

LEAST_STEPS = 3
"""Times CLOSE: the least that a limit is lowered by, while nothing is within the budget."""

LOWER = 0.85
"""While nothing is within the budget, the next limit is lower by this than it takes in proportion:
fewer bytes in the model are not always fewer in the program."""

HIGHER = 0.2
"""While all that was tried is within the budget, the next limit is higher by this share of what it
is beyond the arguments, at least: orders behind the scheduler may need less than a plan says."""

NEAREST = 2
"""Plans that are compiled in other forms on accelerators, where none is within the budget in the
first; these compilations are beyond those that a budget may make."""

KEPT = 4
"""Plans of larger budgets that a smaller one begins with on CPUs, at most; these compilations are
beyond those that it may make."""

MUCH = 0.1
"""Of a budget beyond the arguments: where results take more, plans with results held from the start
are tried, too. What is made while they aren't yet can lie in their memory, so that others need less
of programs with large temporaries."""

FUSED = 8
"""Ways that are compiled with fused sums, at most, where nothing else is within the budget."""

MUCH_WORK = 1.25
"""Times the plain program's: with more, plans of loops' bodies are tried, and stages, which make
again what others made."""

BODIES = 2
"""Times as many as of the program: plans that are compiled of all loops' bodies together."""

INSIDE = 3.0
"""Of a budget beyond the arguments: what programs in slices may need whose bodies have plans."""

ENOUGH, ENOUGH_TIME = 1.001, 1.01
"""FLOPs, and estimated time, over the plain program's: with no more no other way is looked for."""


def rank(needs: Needs, budget: int) -> tuple[bool, float, float]:
    """The least is best: the least work within a budget, else the fewest bytes."""
    if needs.total <= budget:
        return False, needs.work, needs.total
    return True, needs.total, needs.work


def too_little(needs: Needs, budget: int) -> str:
    """How an error begins where the best that was found isn't within a budget."""
    return (
        f"memory_budget: {human_bytes(budget)} is too little: the least found needs"
        f" {human_bytes(needs.total)} ({needs.total - budget:,} B more)"
    )


class BudgetSearch:
    """Looks for ways within budgets.

    Args:
      attempts: that are made.
      reorders: whether programs get orders behind the scheduler, which are no part of a function.
    """

    def __init__(self, attempts: Attempts, *, reorders: bool = False):
        self.attempts = attempts
        self._is_for_cpus = attempts.judge.target is None
        cpu = "reordered cpu" if reorders else "cpu"
        kind = cpu if self._is_for_cpus else "accelerator"
        self._forms, self._reach = FORMS[kind], REACH[kind] if reorders else 0.0
        self._limits: dict[tuple[int, bool, bool], Limits] = {}

    def within(
        self, budget: int, *, compilations: int = COMPILATIONS, time_limit: float | None = None
    ) -> Attempt:
        """The attempt with the least work within a budget, or else with the fewest bytes.

        Args:
          budget: bytes of one device.
          compilations: of plans, at most, besides KEPT of larger budgets, NEAREST in other forms
            and FUSED ways; as many again where nothing is within the budget and results take much,
            and BODIES times as many of loops' bodies.
          time_limit: seconds, for these.
        """
        if self.attempts.plain.needs.is_refused:
            budget = min(budget, self.attempts.plain.needs.total - 1)
        late = time.perf_counter() + (float("inf") if time_limit is None else time_limit)
        with progress.status("looking for what to compute again"):
            if self._reordered(self.attempts.plain, budget).needs.total > budget:
                self._try_loops()
                self._try_cuts(budget)
                self._try_slices(budget)
            loops = self._loops(budget)
            self._try_plans(loops, budget, compilations, late)
            if self._best(budget).needs.total > budget and self._takes_much_by_results(budget):
                self._try_plans(loops, budget, compilations, late, early=True)
            if self._best(budget).needs.total > budget and self._in_slices():
                self._try_plans(self._in_slices()[-1], budget, compilations, late)
            self._try_bodies(loops, budget, compilations, late)
            is_timed = self.attempts.plain.needs.seconds > 0
            if is_timed and not self._is_enough(budget) and time.perf_counter() < late:
                self._try_forms(self._best(budget).way)
            if self._is_for_cpus and self._best(budget).needs.total > budget:
                self._try_fused_sums(budget, late)
            self._try_stages(budget, compilations, late)
        return self._best(budget)

    def look_at(self, share: float) -> None:
        """Compiles plans of a share of the bytes beyond the arguments that orders alone need."""
        self._try_loops()
        self._try_slices(0)
        versions = self.attempts.judge.versions
        found = [self._limits_of(loops) for loops in range(len(versions))]
        bodies = [loops for loops in self._not_sliced() if versions[loops].inner()]
        found += [self._limits_of(loops, inner=True) for loops in bodies]
        for limits in found:
            self._try(limits, limits.lines.limit(share), 0, self._forms)

    def _compiled(self) -> int:
        """Ways but for orders behind the scheduler."""
        return sum(not one.way.behind for one in self.attempts.all)

    def _best(self, budget: int) -> Attempt:
        """Fused sums count where nothing else is within the budget."""
        others = [one for one in self.attempts.all if not one.way.fuses_sums]
        best = min(others, key=lambda one: rank(one.needs, budget))
        if best.needs.total <= budget:
            return best
        return min(self.attempts.all, key=lambda one: rank(one.needs, budget))

    def _is_enough(self, budget: int) -> bool:
        best, plain = self._best(budget), self.attempts.plain.needs
        if best.needs.total > budget or plain.is_refused or best.way.fuses_sums:
            return False
        return best.needs.work <= self._enough * plain.work

    @property
    def _enough(self) -> float:
        """Times as much work: with no more no other way is looked for."""
        return ENOUGH_TIME if self.attempts.plain.needs.seconds else ENOUGH

    def _limits_of(self, loops: int, *, early: bool = False, inner: bool = False) -> "Limits":
        which = loops, early, inner
        if which not in self._limits:
            needs = self._as_it_is(loops).total if inner else 0
            of = whole(self.attempts.judge, loops)._replace(inner=inner)
            self._limits[which] = Limits(self.attempts.lines(*which), of, needs)
        return self._limits[which]

    def _as_it_is(self, loops: int) -> Needs:
        """Of a version in the compiler's order; what XLA's own choice needs where it is refused."""
        made = self.attempts.of(whole(self.attempts.judge, loops))
        return (made or self.attempts.plain).needs

    def _takes_much_by_results(self, budget: int) -> bool:
        """Whether it matters that compilers hold results from the start."""
        beyond = budget - self.attempts.plain.needs.arguments
        return result_bytes(self.attempts.judge) > MUCH * beyond

    def _in_slices(self, *, staged: bool = False) -> list[int]:
        """Versions with one region in slices, ever more of them; or those in stages."""
        versions = self.attempts.judge.versions
        return [
            loops
            for loops, version in enumerate(versions)
            if version.slices and version.slices.staged is staged
        ]

    def _not_sliced(self) -> range:
        return range(sum(not version.slices for version in self.attempts.judge.versions))

    def _try_loops(self) -> None:
        """Compiles the program with each kind of lean loops."""
        for loops in self._not_sliced()[1:]:
            self.attempts.of(whole(self.attempts.judge, loops))

    def _try_slices(self, budget: int) -> None:
        """Compiles the program in ever more slices, until it is within the budget, in orders of the
        compiler's and behind its scheduler."""
        versions = self.attempts.judge.versions
        for _turns, alike in itertools.groupby(self._in_slices(), lambda n: versions[n].turns):
            fit = [self._fits(loops, budget) for loops in alike]  # all: the better one counts
            if any(fit):
                return

    def _fits(self, loops: int, budget: int) -> bool:
        """Compiles a version until it is within the budget, and says whether it is."""
        way = whole(self.attempts.judge, loops)
        has_other_order = self._is_for_cpus and not self._reach
        ways = [way, way._replace(compact=True)] if has_other_order else [way]
        made = filter(None, map(self.attempts.of, ways))
        return any(self._reordered(one, budget).needs.total <= budget for one in made)

    def _try_bodies(self, loops: int, budget: int, compilations: int, late: float) -> None:
        """Compiles plans of loops' bodies, where nothing is within the budget, or at much work."""
        most = self._compiled() + BODIES * compilations
        for number in itertools.chain([loops], self._seen_above(budget)):
            left = min(compilations, most - self._compiled())
            if left <= 0 or self._is_good(budget) or time.perf_counter() > late:
                return
            if self.attempts.judge.versions[number].inner():
                self._try_plans(number, budget, left, late, inner=True)

    def _seen_above(self, budget: int) -> Iterator[int]:
        """Versions with one region in slices, the fewest first, that were seen to need too much as
        they are, but not INSIDE times as much."""
        given = self.attempts.plain.needs.arguments
        near = range(budget + 1, given + int(INSIDE * (budget - given)))
        seen = {one.way.loops for one in self.attempts.all if one.needs.total in near}
        yield from (number for number in self._in_slices() if number in seen)

    def _is_good(self, budget: int) -> bool:
        """Whether something is within the budget, and at not much work."""
        best, plain = self._best(budget).needs, self.attempts.plain.needs
        return best.total <= budget and best.work <= MUCH_WORK * plain.work

    def _try_stages(self, budget: int, compilations: int, late: float) -> None:
        """Compiles the program in stages, where nothing is within the budget, or at much work, and
        plans of it, too, if it takes these to be."""
        best = self._best(budget).needs
        if self._is_good(budget) or time.perf_counter() > late:
            return
        for loops in self._in_slices(staged=True):
            if not self._fits(loops, budget) and best.total > budget:
                self._try_plans(loops, budget, compilations, late)

    def _try_forms(self, way: Way) -> None:
        """Compiles a plan in every form: which takes the least time no rule says."""
        if way.runs and not way.cuts:
            for near, compact in self._forms:
                self.attempts.of(way.as_scheduled._replace(near=near, compact=compact))

    def _try_fused_sums(self, budget: int, late: float) -> None:
        """Compiles the ways with the fewest bytes with fused sums, until one is within the budget,
        the least work first. For CPUs, a last resort: these take time that no FLOPs show."""
        ways = [one for one in self.attempts.all if not (one.way.behind or one.way.fuses_sums)]
        least = sorted(ways, key=lambda one: one.needs.total)[:FUSED]
        for one in sorted(least, key=lambda one: one.needs.work):
            if time.perf_counter() > late:
                return
            made = self.attempts.of(with_fused_sums(one.way))
            if made and self._reordered(made, budget).needs.total <= budget:
                return

    def _try_cuts(self, budget: int) -> None:
        """Compiles the base orders in segments, and the better one in ever more of them, until one
        is within the budget, or they are far beyond it: nothing runs again, but what fuses. For
        accelerators."""
        if self._is_for_cpus:
            return
        lines = self.attempts.lines(0)
        orders = list(lines.orders)
        for number in CUTS:
            totals = {}
            for order in orders:
                way = in_segments(lines, order, number)
                if made := way and self.attempts.of(way):
                    totals[order] = self._reordered(made, budget).needs.total
                    if totals[order] <= budget:
                        return
            if not totals or min(totals.values()) > FAR * budget:
                return
            orders = [min(totals, key=totals.__getitem__)]

    def _reordered(self, attempt: Attempt, budget: int) -> Attempt:
        """The same in another order behind the scheduler, where that may come within the budget."""
        if budget < attempt.needs.total <= self._reach * budget:
            return self.attempts.reordered(attempt) or attempt
        return attempt

    def _loops(self, budget: int) -> int:
        """The loops to search a plan with: those before the first that fit with none."""
        lean = {
            one.way.loops: one.needs.total
            for one in self.attempts.all
            if not (one.way.runs or one.way.fuses_sums or one.way.slices)
        }
        fit = [loops for loops, total in lean.items() if total <= budget]
        return min(fit) - 1 if fit else self._not_sliced()[-1]

    def _try_plans(
        self,
        loops: int,
        budget: int,
        compilations: int,
        late: float,
        *,
        early: bool = False,
        inner: bool = False,
    ) -> None:
        """Compiles plans for limits that close in on the budget."""
        if self._is_enough(budget) or time.perf_counter() > late:
            return
        limits = self._limits_of(loops, early=early, inner=inner)
        most = self._compiled() + compilations
        if self._is_for_cpus:
            again = limits.kept(budget)
        else:
            self._close_in(limits, budget, most, late, self._forms[:1])
            again = limits.nearest(budget)
        self._try_again(limits, again, budget, late)
        self._close_in(limits, budget, most, late, self._forms)

    def _close_in(
        self, limits: "Limits", budget: int, most: int, late: float, forms: Sequence[Form]
    ) -> None:
        """Compiles plans in these forms, until so many ways are compiled."""
        while self._compiled() < most and not self._is_enough(budget):
            limit = limits.next(budget, self.attempts.plain.needs)
            is_over = limits.is_settled(budget, self._enough) or time.perf_counter() > late
            if limit is None or is_over:
                return
            self._try(limits, limit, budget, forms)

    def _try(self, limits: "Limits", limit: int, budget: int, forms: Sequence[Form]) -> None:
        """Compiles the plan of a limit, form by form until it is within the budget."""
        plan = limits.lines.within(limit)
        made: list[Needs] = []
        for near, compact in forms:
            if one := self.attempts.of(by_plan(plan, near, compact=compact, of=limits.of)):
                made.append(self._reordered(one, budget).needs)
                if made[-1].total <= budget:
                    break
        limits.note(limit, made, budget, 2 * self.attempts.plain.needs.total)

    def _try_again(self, limits: "Limits", again: Sequence[int], budget: int, late: float) -> None:
        """Compiles plans of limits that weren't within the budget in every form, until one is."""
        for limit in again:
            if time.perf_counter() > late:
                return
            self._try(limits, limit, budget, self._forms)
            if limits.totals[limit] <= budget:
                return


class Limits:
    """Limits of plans that were compiled, and the next for a budget.

    Args:
      lines: the plans. of: the version that they are of, as it is, or of its loop's body.
      needs: bytes of the program as it is, where plans are of a loop's body, whose limits say
        nothing of what is beside it; else 0.

    Attributes:
      lines, of, needs: as given.
      totals: of each limit, the least bytes that the compiler says.
      judged: the budget that each limit was last tried for.
      work: of each limit, in the form that fits, else in the first.
    """

    def __init__(self, lines: Lines, of: Way = AS_IT_IS, needs: int = 0):
        self.lines, self.of, self.needs = lines, of, needs
        self.totals: dict[int, int] = {}
        self.judged: dict[int, int] = {}
        self.work: dict[int, float] = {}

    def note(self, limit: int, made: Sequence[Needs], budget: int, refused: int) -> None:
        """What the forms of a limit's plan need, tried until one is within the budget; so many
        bytes if the compiler refused all."""
        self.totals[limit] = min((one.total for one in made), default=refused)
        self.judged[limit] = budget
        if made:
            self.work[limit] = made[-1 if made[-1].total <= budget else 0].work

    def kept(self, budget: int) -> list[int]:
        """Limits whose programs were within the larger budget that they were tried for, and aren't
        within this: of the lowest few, the highest first."""
        found = [
            limit for limit, total in self.totals.items() if budget < total <= self.judged[limit]
        ]
        return sorted(found)[:KEPT][::-1]

    def nearest(self, budget: int) -> list[int]:
        """Where no program is within the budget, limits of the few that need least, unless all are
        far beyond it."""
        least = sorted((total, limit) for limit, total in self.totals.items())[:NEAREST]
        is_near = bool(least) and budget < least[0][0] <= FAR * budget
        return [limit for _, limit in least] if is_near else []

    def next(self, budget: int, plain: Needs) -> int | None:
        """The next limit to try: those that just fit are closed in on. None where all is tried."""
        if not self.totals and self.needs:
            return self._in_proportion(self.lines.plain.peak, self.needs, budget, plain)
        if not self.totals:
            return budget - int(SLACK * budget)
        step, most = max(1, int(CLOSE * budget)), self.lines.plain.peak
        low, high = self._around(budget)
        if not low:
            is_far = min(self.totals.values()) > FAR * budget
            return None if is_far and not self.needs else self._lower(budget, plain, step)
        if high:
            limit = self._between(low, high, budget - step // 2)
        else:
            limit = min(self._higher(low, budget, plain), most)
        return None if limit <= self.lines.floor or limit - low < step else limit

    def is_settled(self, budget: int, enough: float) -> bool:
        """Whether the highest limit that fits takes no more than so many times the work of the next
        above it: no less is to be had between them."""
        low, high = self._around(budget)
        is_known = low in self.work and high in self.work
        return is_known and self.work[low] <= enough * self.work[high]

    def _around(self, budget: int) -> tuple[int, int]:
        """The highest limit that fits, and the next above it; 0 for none."""
        low = max((limit for limit, total in self.totals.items() if total <= budget), default=0)
        return low, min((limit for limit in self.totals if limit > low), default=0) if low else 0

    def _between(self, low: int, high: int, total: int) -> int:
        """The limit that takes so many bytes, if they rise evenly."""
        share = (total - self.totals[low]) / (self.totals[high] - self.totals[low])
        return low + int(min(max(share, NEAR), 1 - NEAR) * (high - low))

    def _lower(self, budget: int, plain: Needs, step: int) -> int | None:
        """While nothing is within the budget: lower than what has a plan, but not so low that there
        is none."""
        floor, given = self.lines.floor, self.lines.given
        bottom = max(floor, given)
        high = min((limit for limit in self.totals if limit > floor), default=0)
        scaled = self._scaled(high, budget, plain) if high else 0
        top = high or self.lines.plain.peak
        limit = min(given + int(LOWER * (scaled - given)), top - LEAST_STEPS * step)
        if limit <= bottom:
            limit = (bottom + top) // 2
        return None if top - limit < LEAST_STEPS * step else limit

    def _higher(self, low: int, budget: int, plain: Needs) -> int:
        """While all is within the budget."""
        by_share = low + int(HIGHER * (low - self.lines.given))
        return max(by_share, self._scaled(low, budget, plain))

    def _scaled(self, limit: int, budget: int, plain: Needs) -> int:
        """The limit that takes the budget, if bytes beyond the arguments are in proportion."""
        return self._in_proportion(limit, self.totals[limit], budget, plain)

    def _in_proportion(self, limit: int, total: int, budget: int, plain: Needs) -> int:
        of, given = max(total - plain.arguments, 1), self.lines.given
        return given + int((limit - given) * (budget - plain.arguments) / of)


def pareto(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Those that no other has as few bytes and as little work as, the most bytes first; none that
    was refused, or with fused sums, whose time FLOPs don't show."""
    kept: list[Attempt] = []
    made = [one for one in attempts if not (one.needs.is_refused or one.way.fuses_sums)]
    for one in sorted(made, key=lambda one: (one.needs.work, one.needs.total)):
        if not kept or one.needs.total < kept[-1].needs.total:
            kept.append(one)
    return kept
