"""The search for a way within a budget, by a compiler that says what it is told."""

import itertools
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from regal_jax.compiler.accelerators.specifications import SPECIFICATIONS
from regal_jax.compiler.recompute.emission import ANY
from regal_jax.compiler.recompute.inner import Inner
from regal_jax.compiler.slices.emission import InSlices
from regal_jax.compiler.ways.attempts import Attempts, with_fused_sums
from regal_jax.compiler.ways.budget import (
    CUTS,
    FORMS,
    FUSED,
    HIGHER,
    REACH,
    BudgetSearch,
    Limits,
    pareto,
    rank,
)
from regal_jax.compiler.ways.judge import Attempt, Needs, Version, Way, judge_of
from regal_jax.compiler.xla.behind import REORDERED
from regal_jax.compiler.xla.decisions import Memory
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.settings import Search
from regal_jax.errors import DeviceMemoryError
from tests.compiler.barriers.programs import kernels_of, random_function, random_order, traced
from tests.compiler.barriers.test_emission import op_by_op, same

TRACED = traced(random_function(3, 40))


class Target(NamedTuple):
    name: str = "a GPU"
    specification: object = SPECIFICATIONS["h100"]


GPU = Target()
BEHIND = (("main", ("a", "b")),)


class Judging:
    """A compiler whose programs need what a function of the way says, (bytes, FLOPs)."""

    def __init__(self, needs, target=GPU, seconds=lambda way: 0.0):
        self.traced, self.kernels = TRACED, kernels_of(TRACED)
        self.versions = (Version(TRACED, self.kernels),)
        self.needs, self.target, self.seen, self.seconds = needs, target, [], seconds

    def __call__(self, way: Way) -> Attempt:
        self.seen.append(way)
        size, flops = self.needs(way)
        return Attempt(way, Needs(Memory(size, 0, 0), 0, 0, flops, self.seconds(way)))

    def reordered(self, attempt: Attempt, how) -> Attempt | None:
        """In a tenth fewer bytes."""
        if "/" in attempt.way.name:
            return None
        made = self(attempt.way._replace(name=attempt.way.name + REORDERED, behind=BEHIND))
        memory = made.needs.memory._replace(temporaries=int(0.9 * made.needs.total))
        return Attempt(made.way, made.needs._replace(memory=memory))


def searching(judge, **options):
    return BudgetSearch(Attempts(judge, Search(evaluations=500)), **options)


def within(judge, budget, compilations=3):
    return searching(judge).within(budget, compilations=compilations)


def test_orders_in_segments_come_first_and_end_the_search_where_they_fit():
    judge = Judging(lambda way: (100 - len(way.cuts), 1.0))
    best = within(judge, 99)
    assert best.way.cuts
    assert sorted(best.way.runs) == list(range(judge.kernels.graph.num_ops))
    assert [way.name for way in judge.seen] == [PLAIN, best.way.name]


@pytest.mark.parametrize(("least", "number"), [(60, 4), (90, 2)], ids=["near", "far"])
def test_the_better_order_is_cut_more_unless_it_is_far_beyond_the_budget(least, number):
    """Both orders can be cut anywhere, and the program's own needs a little less."""
    judge = Judging(lambda way: (100 if not way.cuts else least + ("auto" in way.name), 1.0))
    places = list(range(1, max(CUTS) + 1))
    search = searching(judge)
    search.attempts.lines(0).places = lambda order: places
    search.within(50, compilations=0)
    names = [way.name.split("/")[0] for way in judge.seen if way.cuts]
    assert names == ["program", "auto", "program", "program"][:number]


def test_plans_follow_where_no_segments_fit():
    judge = Judging(lambda way: (100 if way.name == PLAIN or way.cuts else 10, 1.5))
    best = within(judge, 50)
    assert best.needs.total == 10
    assert not best.way.cuts
    in_segments = [way for way in judge.seen if way.cuts]
    assert 0 < len(in_segments) <= 2 * len(CUTS)
    assert len(set(in_segments)) == len(in_segments)


@pytest.mark.parametrize(("budget", "reorders"), [(95, True), (95, False), (89, True), (70, True)])
def test_another_order_behind_the_scheduler_comes_before_work(budget, reorders):
    judge = Judging(lambda way: (100, 1.0) if not way.runs or way.cuts else (100, 1.5))
    search = searching(judge, reorders=reorders)
    best = search.within(budget, compilations=2)
    assert (best.needs.total <= budget) is (reorders and budget >= 90)
    if best.needs.total <= budget:
        assert (best.way.name, best.way.behind) == (PLAIN + REORDERED, BEHIND)
        assert [way.name for way in judge.seen] == [PLAIN, PLAIN + REORDERED]
    is_far = budget < 100 / REACH["accelerator"]
    assert any(way.behind for way in judge.seen) is (reorders and not is_far)


def test_more_segments_are_tried_for_a_smaller_budget():
    judge = Judging(lambda way: (100 - 10 * len(way.cuts), 1.0))
    search = searching(judge)
    first = search.within(99, compilations=0)
    second = search.within(first.needs.total - 1, compilations=0)
    assert second.needs.total < first.needs.total
    assert second.way.cuts
    assert len(set(judge.seen)) == len(judge.seen)


@pytest.mark.parametrize("target", [None, GPU])
def test_segments_are_for_accelerators_and_once(target):
    judge = Judging(lambda way: (100, 1.0), target)
    search = searching(judge)
    for _ in range(2):
        search.within(50, compilations=1)
    count = len([way for way in judge.seen if way.cuts])
    assert count == 0 if target is None else 0 < count <= 2 * len(CUTS)


def in_slices(needs, *turns, target=None):
    """A judge of a program that can be in so many slices."""
    judge = Judging(needs, target)
    versions = [
        Version(TRACED, judge.kernels, f"{n}_slices", InSlices(TRACED, n, False, 0.0))
        for n in turns
    ]
    judge.versions = (*judge.versions, *versions)
    return judge


def test_as_few_slices_as_fit_in_another_order():
    """Of XLA's orders or, where the compiled program may be given one, of ours."""
    size = {0: 200, 2: 100, 4: 50}
    for reorders, budget, expected in (
        (False, 85, (2, True, "2_slices")),
        (False, 70, (4, False, "4_slices")),
        (True, 95, (2, False, "2_slices+")),
        (True, 60, (4, False, "4_slices")),
    ):
        judge = in_slices(lambda way: (size[way.slices] - 20 * way.compact, 1.0), 2, 4)
        search = searching(judge, reorders=reorders)
        way = search.within(budget, compilations=0).way
        name = way.name.replace(REORDERED, "+")
        assert (way.slices, way.compact, name) == expected


def test_of_as_many_slices_the_faster_counts():
    seconds = {0: 1.0, 1: 3.0, 2: 2.0, 3: 5.0, 4: 1.5}  # the program, and 2, 2, 4, 4 slices
    size = {0: 200, 2: 100, 4: 50}

    def needs(way):
        return size[way.slices], seconds[way.loops]

    search = searching(in_slices(needs, 2, 2, 4, 4, target=GPU))
    assert search.within(150, compilations=0).way.loops == 2
    assert search.within(70, compilations=0).way.loops == 4


@pytest.mark.parametrize(
    ("fused", "slices"),
    [((90, 1.0), 0), ((90, 1.3), 8), ((190, 1.0), 8)],
    ids=["little work", "much work", "nothing else"],
)
def test_stages_are_tried_where_all_else_takes_much(fused, slices):
    """Here what is within the budget otherwise are fused sums."""

    def needs(way):
        return (80, 1.1) if way.slices else fused if way.fuses_sums else (200, 1.0)

    judge = in_slices(needs, 8)
    *first, last = judge.versions
    judge.versions = (*first, last._replace(slices=last.slices._replace(staged=True)))
    assert searching(judge).within(100, compilations=0).way.slices == slices


@pytest.mark.parametrize(
    ("seconds", "loops", "inner"),
    [((1.0, 1.2, 1.24), 2, False), ((1.0, 1.2, 3.0), 1, True), ((1.0, 1.9, 1.3), 2, False)],
    ids=["little time", "much", "more without it"],
)
def test_plans_of_the_body_over_fewer_slices_where_more_take_much_time(seconds, loops, inner):
    size = {0: 200, 2: 120, 4: 90}

    def needs(way):
        return size[way.slices] - 30 * way.inner, seconds[way.loops] + 0.1 * way.inner

    judge = in_slices(needs, 2, 4, target=GPU)
    body = Inner(judge.kernels.program, (), judge.kernels)
    judge.versions = [one._replace(inner=lambda: body) for one in judge.versions]
    best = searching(judge).within(100, compilations=2).way
    assert (best.loops, best.inner) == (loops, inner)


def test_the_first_limit_of_a_body_is_in_proportion():
    limits, plain = Limits(lines_to(0), needs=1300), Needs(Memory(1000, 0, 0), 100, 0, 1.0)
    assert limits.next(700, plain) == 100 + 900 * 600 // 1200


def test_a_budget_is_kept_where_xla_s_own_choice_is_refused_for_its_size():
    def needs(way):
        if not way.runs:
            raise DeviceMemoryError("too large")
        return 100 - len(way.cuts), 1.0

    search = searching(Judging(needs))
    capacity = search.attempts.judge.target.specification.memory_bytes
    assert search.attempts.plain.needs.total > capacity
    best = search.within(2 * capacity, compilations=2)
    assert best.way.runs
    assert best.needs.total <= 100
    assert search.attempts.plain not in pareto(search.attempts.all)


def test_time_counts_before_flops_where_there_is_an_estimate():
    slow, fast = Needs(Memory(9, 0, 0), 0, 0, 1.0, 3.0), Needs(Memory(9, 0, 0), 0, 0, 2.0, 2.5)
    assert rank(fast, 10) < rank(slow, 10)
    assert rank(slow._replace(seconds=0.0), 10) < rank(fast._replace(seconds=0.0), 10)
    assert rank(slow, 10) < rank(fast._replace(memory=Memory(11, 0, 0)), 10)
    assert rank(fast, 8) < rank(slow, 8)
    assert rank(slow._replace(memory=Memory(8, 0, 0)), 7) < rank(fast, 7)


def test_the_best_plan_is_compiled_in_every_form_where_time_counts():
    def seconds(way):
        return 1.0 + 0.5 * bool(way.runs) - 0.2 * (way.near == FORMS["accelerator"][1][0])

    judge = Judging(lambda way: (100 if not way.runs or way.cuts else 10, 1.5), seconds=seconds)
    best = within(judge, 50)
    assert (best.way.near, best.needs.seconds) == (FORMS["accelerator"][1][0], 1.3)
    forms = [(way.near, way.compact) for way in judge.seen if way.runs == best.way.runs]
    assert set(forms) == set(FORMS["accelerator"])


@pytest.mark.parametrize(("total", "is_near"), [(60, True), (90, False)], ids=["near", "far"])
def test_other_forms_are_for_plans_that_come_near_where_none_fits_in_the_first(total, is_near):
    first, second, _ = (near for near, _ in FORMS["accelerator"])

    def needs(way):
        return (100 if not way.runs or way.cuts else total if way.near == first else 40), 1.5

    judge = Judging(needs)
    best = within(judge, 50, compilations=12)
    forms = [way.near for way in judge.seen if way.runs and not way.cuts]
    assert (best.needs.total == 40) is is_near
    assert not is_near or forms[: forms.index(second)] == [first] * forms.index(second)
    assert is_near or set(forms) == {first}


def test_a_smaller_budget_has_the_plans_of_a_larger_in_other_forms():
    judge = Judging(lambda way: (100 if not way.runs else 60 if way.near == ANY else 40, 1.5), None)
    search = searching(judge)
    first = search.within(61, compilations=1)
    assert (first.needs.total, first.way.near) == (60, ANY)
    number = len(judge.seen)
    second = search.within(59, compilations=1)
    assert judge.seen[number] == second.way == first.way._replace(near=1)
    assert second.needs.total == 40


def planned(search):
    """The limits that plans are searched for from now on."""
    limits, lines = [], search.attempts.lines(0)
    plan = lines.within

    def noted(limit):
        limits.append(limit)
        return plan(limit)

    lines.within = noted
    return limits


def test_plans_with_results_from_the_start_follow_where_nothing_fits():
    """Only where results take much of the budget, and as many as before."""

    def searched(budget, time_limit=None):
        search, asked = searching(Judging(lambda way: (100, 1.0))), []
        lines = search.attempts.lines
        search.attempts.lines = lambda *which: asked.append(which) or lines(*which)
        search.within(budget, compilations=2, time_limit=time_limit)
        return any(early for _, *rest in asked for early in rest)

    graph = kernels_of(TRACED).graph
    results = int(graph.size[graph.persistent & (graph.producer >= 0)].sum())
    assert not searched(100)
    assert searched(90)
    assert not searched(90, time_limit=0)
    assert results > 0.1 * 90


def test_no_order_is_searched_where_the_program_fits_as_it_is():
    search = searching(Judging(lambda way: (100, 1.0)))
    search.attempts.lines = None
    assert search.within(100) == search.attempts.plain


def test_no_plan_of_a_larger_budget_is_tried_when_time_is_up():
    judge = Judging(lambda way: (100 if not way.runs else 60 if way.near == ANY else 40, 1.5), None)
    search = searching(judge)
    search.within(61, compilations=1)
    limits = planned(search)
    search.within(59, compilations=1, time_limit=0)
    assert not limits


def test_fused_sums_are_never_enough():
    """Plans are searched for a budget that fused sums keep, as for any."""
    judge = Judging(lambda way: (0, 1.0), target=None)
    search = searching(judge)
    peak = search.attempts.lines(0).plain.peak
    judge.needs = lambda way: (int((0.5 if way.fuses_sums else 0.95) * peak), 1.0)
    search = searching(judge)
    assert search.within(int(0.9 * peak)).way.fuses_sums
    limits = planned(search)
    assert search.within(int(0.8 * peak)).way.fuses_sums
    assert limits


def test_sums_are_fused_as_a_last_resort():
    def needs(way):
        return (40 if way.fuses_sums else 60 if way.runs else 100), 1.0 + 0.5 * bool(way.runs)

    judge = Judging(needs, target=None)
    search = searching(judge)
    by_plan = search.within(60, compilations=2)
    assert (by_plan.needs.total, by_plan.way.fuses_sums) == (60, False)
    assert not any(way.fuses_sums for way in judge.seen)
    fused = search.within(50, compilations=2)
    assert (fused.way, fused.needs.flops) == (with_fused_sums(Way(PLAIN)), 1.0)
    assert [way.fuses_sums for way in judge.seen] == [False] * (len(judge.seen) - 1) + [True]
    assert search.within(60) == by_plan
    assert fused not in pareto(search.attempts.all)


def test_the_fewest_bytes_may_be_with_fused_sums():
    judge = Judging(lambda way: (40 if way.fuses_sums and way.runs else 60, 1.0), target=None)
    search = searching(judge)
    assert search.within(30).way.fuses_sums
    fused = [way for way in judge.seen if way.fuses_sums]
    assert 1 < len(fused) <= FUSED


def test_accelerators_have_no_library_for_sums():
    judge = Judging(lambda way: (100, 1.0))
    assert within(judge, 50).needs.total == 100
    assert not any(way.fuses_sums for way in judge.seen)


def lines_to(floor):
    """Plans down to a limit."""
    return SimpleNamespace(floor=floor, plain=SimpleNamespace(peak=1000), given=100)


@pytest.mark.parametrize(
    ("least", "budget", "found"), [(500, 700, True), (500, 600, True), (500, 505, False)]
)
def test_between_what_has_no_plan_and_what_needs_too_much_limits_are_tried(least, budget, found):
    """A compiler whose programs need a tenth more than their limit; without a plan, far more."""
    lines = lines_to(0)
    limits, plain = Limits(lines), Needs(Memory(1000, 0, 0), 100, 0, 1.0)
    while (limit := limits.next(budget, plain)) is not None:
        assert limit not in limits.totals
        limits.totals[limit] = int(1.1 * limit) if limit >= least else 800
        lines.floor = max(lines.floor, limit if limit < least else 0)
    within = [total for total in limits.totals.values() if total <= budget]
    assert bool(within) is found
    assert len(limits.totals) < 10
    assert not found or max(within) > 0.95 * budget


def test_where_bytes_rise_evenly_few_limits_are_tried():
    limits, plain = Limits(lines_to(0)), Needs(Memory(1000, 0, 0), 100, 0, 1.0)
    while (limit := limits.next(700, plain)) is not None:
        limits.totals[limit] = int(1.4 * limit)
    within = [total for total in limits.totals.values() if total <= 700]
    assert max(within) > 0.98 * 700
    assert len(limits.totals) <= 5


@pytest.mark.parametrize(("work", "is_settled"), [(1.0, True), (0.9, False), (1.1, True)])
def test_limits_are_settled_where_the_next_one_saves_no_work(work, is_settled):
    limits = Limits(lines_to(0))

    def note(limit, total, work):
        limits.note(limit, [Needs(Memory(total, 0, 0), 0, 0, work)], 700, 2000)

    assert not limits.is_settled(700, 1.01)
    note(500, 600, 1.0)
    assert not limits.is_settled(700, 1.01)
    note(600, 800, work)
    note(900, 900, 0.5)
    assert limits.is_settled(700, 1.01) is is_settled


def test_while_all_is_within_the_budget_limits_rise_by_a_share():
    """A compiler whose programs need the same whatever the limit."""
    limits, plain, tried = Limits(lines_to(0)), Needs(Memory(1000, 0, 0), 100, 0, 1.0), []
    while (limit := limits.next(500, plain)) is not None:
        tried.append(limit)
        limits.totals[limit] = 495
    beyond = [limit - 100 for limit in tried]
    assert beyond[0] < 400
    assert all(b >= (1 + HIGHER) * a - 1 for a, b in itertools.pairwise(beyond[:-1]))
    assert tried[-1] == 1000


def test_what_is_far_beyond_a_budget_ends_the_search():
    limits = Limits(lines_to(200))
    limits.totals[200] = 900
    assert limits.next(300, Needs(Memory(1000, 0, 0), 100, 0, 1.0)) is None


def test_a_program_in_segments_does_the_same():
    judge = judge_of(TRACED, None)
    order = random_order(judge.kernels.graph, 1)
    way = Way("auto", tuple(order), cuts=(len(order) // 3, len(order) // 2))
    arguments = np.random.default_rng(0).normal(size=(2, 4, 4)).astype(np.float32)
    same(judge.program(way)(*arguments), op_by_op(TRACED, *arguments))
