import math
from dataclasses import fields
from typing import NamedTuple

import pytest

from regal_jax.compiler.accelerators.measure import Measurement
from regal_jax.compiler.barriers.judge import Attempt, Segments
from regal_jax.compiler.barriers.search import PLAIN, search
from regal_jax.compiler.xla.behind import REORDERED
from regal_jax.compiler.xla.settings import Search
from regal_jax.errors import CompilerError
from tests.compiler.barriers.programs import kernels_of, random_function, traced

HOW = Search(evaluations=500)


class Target(NamedTuple):
    name: str = "a compiler"
    is_there: bool = False


class Judging:
    """A compiler whose programs need what a function of the segments says, (bytes, seconds), and
    what share of ten collectives has other work beside it, if it says so."""

    def __init__(self, needs):
        self.kernels = kernels_of(traced(random_function(3, 40)))
        self.needs, self.target, self.seen, self.runs = needs, Target(), [], False

    def _replace(self, runs: bool) -> "Judging":
        self.runs = runs
        return self

    def reordered(self, attempt: Attempt, how: Search) -> Attempt:
        segments = attempt.segments
        behind = (("main", ("a", "b")),)
        return self(segments._replace(name=segments.name + REORDERED, behind=behind))

    def __call__(self, segments: Segments) -> Attempt:
        self.seen.append(segments)
        size, seconds, *beside = self.needs(segments)
        values = dict.fromkeys((field.name for field in fields(Measurement)), 0)
        values |= {"temporaries": size, "seconds": seconds}
        if beside:
            values |= {"collectives": 10, "overlapped": beside[0]}
        return Attempt(segments, None, Measurement(**values))


def test_xla_s_own_choice_competes():
    judge = Judging(lambda segments: (1 if segments.name == PLAIN else 2, 1.0))
    best, *rest = search(judge, HOW, compilations=3)
    assert best.segments.name == PLAIN
    assert len(rest) <= 3 + 2
    assert len(judge.seen) == len(set(judge.seen))


def test_the_best_of_what_was_compiled_is_first():
    judge = Judging(lambda segments: (100 - len(segments.cuts), 1.0))
    attempts = search(judge, HOW, compilations=6)
    sizes = [one.measurement.temporaries for one in attempts]
    assert sizes == sorted(sizes)
    assert all(sorted(one.order) == list(range(len(one.order))) for one in judge.seen)
    assert all(0 < cut < len(one.order) for one in judge.seen for cut in one.cuts)


def test_fewer_cuts_are_tried_where_fewer_are_better():
    judge = Judging(lambda segments: (len(segments.cuts) or 100, 1.0))
    best = search(judge, HOW, compilations=8)[0]
    assert len(best.segments.cuts) == 1


@pytest.mark.parametrize(("overlap", "name"), [(True, PLAIN), (False, "auto")])
def test_time_counts_where_it_is_asked_for(overlap, name):
    judge = Judging(lambda segments: (100 - len(segments.cuts), 1.0 + 0.03 * bool(segments.cuts)))
    best = search(judge, HOW, compilations=4, overlap=overlap)[0]
    assert best.segments.name.split("/")[0] in (name, "program" if name == "auto" else name)


@pytest.mark.parametrize(("beside", "overlap"), [(8, True), (9, True), (8, False)])
def test_collectives_stay_beside_work_where_time_counts(beside, overlap):
    judge = Judging(lambda s: (100 - len(s.cuts), 1.0, beside if s.cuts else 9))
    best = search(judge, HOW, compilations=4, overlap=overlap)[0]
    assert bool(best.segments.cuts) is (beside == 9 or not overlap)


def in_time(segments):
    """A cut takes a byte of 1,000 and a hundredth of the time."""
    return 1000 - len(segments.cuts), 1.0 + 0.01 * len(segments.cuts)


@pytest.mark.parametrize("price", [0.0, 0.01, 0.3, 2.0])
def test_time_has_a_price_in_bytes(price):
    judge = Judging(in_time)
    attempts = search(judge, HOW, compilations=6, time_price=price)
    worth = [
        math.log(one.measurement.temporaries) + price * math.log(one.measurement.seconds)
        for one in attempts
    ]
    assert worth == sorted(worth)
    assert bool(attempts[0].segments.cuts) == (price < 0.1)


def test_what_needs_more_bytes_is_no_choice_however_fast():
    judge = Judging(lambda segments: (100 + len(segments.cuts), 0.1 if segments.cuts else 1.0))
    attempts = search(judge, HOW, compilations=3)
    assert attempts[0].segments.name == PLAIN


def test_the_best_and_xla_s_own_get_another_order_behind_the_scheduler():
    judge = Judging(lambda one: (100 - len(one.cuts) - 50 * bool(one.behind), 1.0))
    best, *_, worst = search(judge, HOW, compilations=3)
    assert best.segments.behind
    assert best.segments.cuts == max((one.cuts for one in judge.seen), key=len)
    assert [one.name for one in judge.seen if one.behind] == [
        best.segments.name,
        PLAIN + REORDERED,
    ]
    assert worst.segments.name == PLAIN


@pytest.mark.parametrize("refused", [True, False])
def test_where_no_order_is_given_behind_the_scheduler(refused):
    judge = Judging(lambda segments: (100 - len(segments.cuts), 1.0))

    def reordered(attempt, how):
        if refused:
            raise CompilerError("no hook")

    judge.reordered = reordered
    assert not any(one.segments.behind for one in search(judge, HOW, compilations=2))


@pytest.mark.parametrize(("is_there", "overlap"), [(True, True), (True, False), (False, True)])
def test_programs_are_timed_where_time_counts_and_the_device_is_there(is_there, overlap):
    judge = Judging(lambda segments: (100 - len(segments.cuts), 1.0))
    judge.target, judge.traced = Target(is_there=is_there), traced(random_function(3, 40))
    search(judge, HOW, compilations=1, overlap=overlap)
    assert judge.runs is (is_there and overlap)


def test_what_was_compiled_before_is_not_compiled_again():
    judge = Judging(in_time)
    first = search(judge, HOW, compilations=4, overlap=True)
    before = len(judge.seen)
    again = search(judge, HOW, compilations=4, overlap=True, known=first)
    assert [one.segments for one in again] == [one.segments for one in first]
    assert len(judge.seen) == before
    assert search(judge, HOW, compilations=4, known=first)[0] in search(
        Judging(in_time), HOW, compilations=4
    )


def test_programs_that_the_compiler_refuses_are_passed_over():
    def needs(segments):
        if segments.name.startswith("auto"):
            raise CompilerError("too large")
        return 100 - len(segments.cuts), 1.0

    best = search(Judging(needs), HOW, compilations=4)[0]
    assert best.segments.name.startswith("program")


def test_none_is_compiled_but_the_plain_one():
    judge = Judging(lambda segments: (1, 1.0))
    assert [one.segments.name for one in search(judge, HOW, compilations=0)] == [PLAIN]
