from dataclasses import fields
from typing import NamedTuple

import pytest

from regal_jax.compiler.accelerators.measure import Measurement
from regal_jax.compiler.barriers.judge import Attempt, Segments
from regal_jax.compiler.barriers.search import PLAIN, search
from regal_jax.errors import CompilerError
from tests.compiler.barriers.programs import kernels_of, random_function, traced


class Target(NamedTuple):
    name: str = "a compiler"
    is_there: bool = False


class Judging:
    """A compiler whose programs need what a function of the segments says, (bytes, seconds)."""

    def __init__(self, needs):
        self.kernels = kernels_of(traced(random_function(3, 40)))
        self.needs, self.target, self.seen, self.runs = needs, Target(), [], False

    def _replace(self, runs: bool) -> "Judging":
        self.runs = runs
        return self

    def __call__(self, segments: Segments) -> Attempt:
        self.seen.append(segments)
        size, seconds = self.needs(segments)
        values = dict.fromkeys((field.name for field in fields(Measurement)), 0)
        return Attempt(
            segments, None, Measurement(**values | {"temporaries": size, "seconds": seconds})
        )


def test_xla_s_own_choice_competes():
    judge = Judging(lambda segments: (1 if segments.name == PLAIN else 2, 1.0))
    best, *rest = search(judge, compilations=3, evaluations=500)
    assert best.segments.name == PLAIN
    assert len(rest) <= 3
    assert len(judge.seen) == len(set(judge.seen))


def test_the_best_of_what_was_compiled_is_first():
    judge = Judging(lambda segments: (100 - len(segments.cuts), 1.0))
    attempts = search(judge, compilations=6, evaluations=500)
    sizes = [one.measurement.temporaries for one in attempts]
    assert sizes == sorted(sizes)
    assert all(sorted(one.order) == list(range(len(one.order))) for one in judge.seen)
    assert all(0 < cut < len(one.order) for one in judge.seen for cut in one.cuts)


def test_fewer_cuts_are_tried_where_fewer_are_better():
    judge = Judging(lambda segments: (len(segments.cuts) or 100, 1.0))
    best = search(judge, compilations=8, evaluations=500)[0]
    assert len(best.segments.cuts) == 1


@pytest.mark.parametrize(("overlap", "name"), [(True, PLAIN), (False, "auto")])
def test_time_counts_where_it_is_asked_for(overlap, name):
    judge = Judging(lambda segments: (100 - len(segments.cuts), 1.0 + 0.03 * bool(segments.cuts)))
    best = search(judge, compilations=4, overlap=overlap, evaluations=500)[0]
    assert best.segments.name.split("/")[0] in (name, "program" if name == "auto" else name)


def test_among_ways_of_nearly_the_same_bytes_the_fastest_is_best():
    judge = Judging(lambda segments: (10_000 - len(segments.cuts), 1.0 + len(segments.cuts)))
    attempts = search(judge, compilations=4, evaluations=500)
    assert attempts[0].segments.name == PLAIN
    sizes = [one.measurement.temporaries for one in attempts[1:]]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(("is_there", "overlap"), [(True, True), (True, False), (False, True)])
def test_programs_are_timed_where_time_counts_and_the_device_is_there(is_there, overlap):
    judge = Judging(lambda segments: (100 - len(segments.cuts), 1.0))
    judge.target, judge.traced = Target(is_there=is_there), traced(random_function(3, 40))
    search(judge, compilations=1, overlap=overlap, evaluations=500)
    assert judge.runs is (is_there and overlap)


def test_programs_that_the_compiler_refuses_are_passed_over():
    def needs(segments):
        if segments.name.startswith("auto"):
            raise CompilerError("too large")
        return 100 - len(segments.cuts), 1.0

    best = search(Judging(needs), compilations=4, evaluations=500)[0]
    assert best.segments.name.startswith("program")


def test_none_is_compiled_but_the_plain_one():
    judge = Judging(lambda segments: (1, 1.0))
    assert [one.segments.name for one in search(judge, compilations=0)] == [PLAIN]
