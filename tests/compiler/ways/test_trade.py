"""The search for the best in bytes and time, by a compiler that says what it is told."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

from regal_jax.compiler.accelerators.specifications import SPECIFICATIONS
from regal_jax.compiler.ways.attempts import Attempts
from regal_jax.compiler.ways.judge import Attempt, Needs, Version, Way
from regal_jax.compiler.ways.trade import Trade, best_trade, timed
from regal_jax.compiler.xla.behind import REORDERED
from regal_jax.compiler.xla.decisions import Memory
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.settings import Search
from regal_jax.errors import CompilerError, DeviceMemoryError
from tests.compiler.barriers.programs import kernels_of, random_function, traced

TRACED = traced(random_function(3, 40))
BEHIND = (("main", ("a", "b")),)


class Target(NamedTuple):
    name: str = "a compiler"
    is_there: bool = False
    specification: object = SPECIFICATIONS["h100"]


class Judging(NamedTuple):
    """A compiler whose programs need what a function of the way says, (bytes, seconds), and what
    share of collectives has other work beside it, if it says so."""

    needs: object
    seen: list[Way]
    target: Target = Target()
    traced: object = TRACED
    runs: bool = False
    refuses: bool = False

    @property
    def kernels(self):
        return kernels_of(self.traced)

    @property
    def versions(self):
        return (Version(self.traced, self.kernels),)

    def reordered(self, attempt: Attempt, how: Search) -> Attempt:
        if self.refuses:
            raise CompilerError("no hook")
        way = attempt.way
        return self(way._replace(name=way.name + REORDERED, behind=BEHIND))

    def __call__(self, way: Way) -> Attempt:
        self.seen.append(way)
        size, seconds, *beside = self.needs(way)
        return Attempt(way, Needs(Memory(size, 0, 0), 0, 0, 1.0, seconds, *beside))


def judging(needs, **options):
    return Judging(needs, [], **options)


def search(judge, compilations=8, **trade):
    attempts = Attempts(judge, Search(evaluations=500))
    return best_trade(attempts, Trade(**{"capacity": 10**9} | trade), compilations=compilations)


def cuts_alone(needs):
    """Plans need more than XLA's own choice."""
    return lambda way: needs(way) if way.cuts or not way.runs else (2000, 1.0)


def test_xla_s_own_choice_competes():
    judge = judging(lambda way: (1 if way.name == PLAIN else 2, 1.0))
    best, *rest = search(judge, 3)
    assert best.way.name == PLAIN
    assert len(rest) <= 3 + 2
    assert len(judge.seen) == len(set(judge.seen))


def test_the_best_of_what_was_compiled_is_first():
    judge = judging(cuts_alone(lambda way: (100 - len(way.cuts), 1.0)))
    attempts = search(judge, 6)
    sizes = [one.needs.total for one in attempts]
    assert sizes == sorted(sizes)
    cut = [way for way in judge.seen if way.cuts]
    assert all(sorted(way.runs) == list(range(len(way.runs))) for way in cut)
    assert all(0 < place < len(way.runs) for way in cut for place in way.cuts)


def test_fewer_cuts_are_tried_where_fewer_are_better():
    judge = judging(cuts_alone(lambda way: (len(way.cuts) or 100, 1.0)))
    assert len(search(judge)[0].way.cuts) == 1


def layers(weights, x):
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return (x**2).mean()


def again(way):
    """Kernels that run again."""
    return len(way.runs) - len(set(way.runs))


def test_plans_with_ever_less_that_runs_again_follow_while_they_are_better():
    shapes = [jnp.zeros((8, 8))] * 12, jnp.zeros((64, 8))
    step = jax.jit(jax.grad(layers)).trace(*shapes)
    judge = judging(lambda way: (again(way) or 1000, 1.0), traced=step)
    best = search(judge, 12, price=0.0)[0].way
    plans = [way for way in judge.seen if again(way) and not way.behind]
    assert len(plans) >= 3
    assert again(best) == min(map(again, plans)) < again(plans[0])
    assert not best.cuts


def test_what_is_next_to_the_second_best_follows():
    """All ways in segments are better than the first plan; the plans next to that are the best."""
    plans = []

    def needs(way):
        plans.extend([way] * bool(again(way) and way not in plans))
        return (600 if way in plans[:1] else 100 if again(way) else 500), 1.0

    step = jax.jit(jax.grad(layers)).trace([jnp.zeros((8, 8))] * 12, jnp.zeros((64, 8)))
    judge = judging(needs, traced=step)
    assert again(search(judge, 40)[0].way)
    assert len(plans) > 1
    assert not again(search(judging(needs, traced=step), 3)[0].way)


@pytest.mark.parametrize(("overlap", "name"), [(True, PLAIN), (False, "auto")])
def test_time_counts_where_it_is_asked_for(overlap, name):
    judge = judging(cuts_alone(lambda way: (100 - len(way.cuts), 1.0 + 0.03 * bool(way.cuts))))
    best = search(judge, 4, price=1.0, overlap=overlap)[0]
    assert best.way.name.split("/")[0] in (name, "program" if name == "auto" else name)


@pytest.mark.parametrize(("beside", "overlap"), [(0.8, True), (0.9, True), (0.8, False)])
def test_collectives_stay_beside_work_where_time_counts(beside, overlap):
    judge = judging(cuts_alone(lambda way: (100 - len(way.cuts), 1.0, beside if way.cuts else 0.9)))
    best = search(judge, 4, overlap=overlap)[0]
    assert bool(best.way.cuts) is (beside == 0.9 or not overlap)


def in_time(way):
    """A cut takes a byte of 1,000 and a hundredth of the time."""
    return 1000 - len(way.cuts), 1.0 + 0.01 * len(way.cuts)


@pytest.mark.parametrize("price", [0.0, 0.01, 0.3, 2.0])
def test_time_has_a_price_in_bytes(price):
    attempts = search(judging(cuts_alone(in_time)), 6, price=price)
    worth = [
        math.log(one.needs.total) + price * math.log(one.needs.seconds)
        for one in attempts
        if one.needs.total <= 1000
    ]
    assert worth == sorted(worth)
    assert bool(attempts[0].way.cuts) == (price < 0.1)


def test_what_needs_more_bytes_is_no_choice_however_fast():
    judge = judging(lambda way: (100 + len(way.runs), 0.1 if way.runs else 1.0))
    assert search(judge, 3)[0].way.name == PLAIN


def test_the_best_and_xla_s_own_get_another_order_behind_the_scheduler():
    judge = judging(cuts_alone(lambda way: (100 - len(way.cuts) - 50 * bool(way.behind), 1.0)))
    best, *others = search(judge)
    assert best.way.behind
    assert len(best.way.cuts) == max(len(way.cuts) for way in judge.seen)
    assert [way.name for way in judge.seen if way.behind] == [best.way.name, PLAIN + REORDERED]
    assert PLAIN in [one.way.name for one in others]


@pytest.mark.parametrize("refuses", [True, False])
def test_where_no_order_is_given_behind_the_scheduler(refuses):
    judge = judging(lambda way: (100 - len(way.cuts), 1.0), refuses=refuses)
    assert any(one.way.behind for one in search(judge, 2)) is not refuses


@pytest.mark.parametrize(("is_there", "overlap"), [(True, True), (True, False), (False, True)])
def test_programs_are_timed_where_time_counts_and_the_device_is_there(is_there, overlap):
    judge = judging(in_time, target=Target(is_there=is_there))
    assert timed(judge, overlap).runs is (is_there and overlap)


def test_what_was_compiled_before_is_not_compiled_again():
    judge = judging(cuts_alone(in_time))
    attempts = Attempts(judge, Search(evaluations=500))
    first = best_trade(attempts, Trade(10**9, overlap=True), compilations=4)
    before = len(judge.seen)
    assert best_trade(attempts, Trade(10**9, overlap=True), compilations=4) == first
    assert len(judge.seen) == before
    best = best_trade(attempts, Trade(10**9), compilations=4)[0]
    assert best == search(judging(cuts_alone(in_time)), 4)[0]


def test_programs_that_the_compiler_refuses_are_passed_over():
    def needs(way):
        if way.name.startswith("auto"):
            raise CompilerError("too large")
        return 100 - len(way.cuts), 1.0

    best = search(judging(needs), 4)[0]
    assert best.way.name.startswith("program")


def test_none_is_compiled_but_the_plain_one():
    assert [one.way.name for one in search(judging(in_time), 0)] == [PLAIN]


def test_nothing_more_is_compiled_when_the_time_is_over():
    judge = judging(in_time)
    attempts = Attempts(judge, Search(evaluations=500))
    assert best_trade(attempts, Trade(10**9), time_limit=1e-9) == [attempts.plain]
    assert len(judge.seen) == 1


def test_what_fits_the_device_is_better_than_what_does_not_however_slow():
    judge = judging(cuts_alone(lambda way: (100 - len(way.cuts), 1.0 + 5 * bool(way.cuts))))
    needs = [one.needs for one in search(judge, capacity=98)]
    assert needs[0].total <= 98
    assert needs[0].seconds == 6.0
    assert search(judging(judge.needs), capacity=100)[0].way.name == PLAIN


@pytest.mark.parametrize("overlap", [False, True])
def test_a_way_is_found_where_xla_s_own_choice_is_refused_for_its_size(overlap):
    def needs(way):
        if not way.runs:
            raise DeviceMemoryError("too large")
        return 1000 - len(way.cuts), 1.0

    judge = judging(needs)
    capacity = judge.target.specification.memory_bytes
    best, *_, worst = search(judge, capacity=capacity, overlap=overlap)
    assert best.way.runs
    assert worst.way.name == PLAIN
    assert worst.program is None
    assert worst.needs.total > capacity


def test_where_what_is_tried_first_is_refused_smaller_ways_follow():
    def needs(way):
        if len(way.cuts) < 3:
            raise DeviceMemoryError("too large")
        return 1000 - len(way.cuts), 1.0

    judge = judging(needs)
    best, *_ = search(judge, 12, capacity=judge.target.specification.memory_bytes, overlap=True)
    assert len(best.way.cuts) >= 3


def test_other_errors_of_xla_s_own_choice_pass():
    def needs(way):
        raise CompilerError("no such op")

    with pytest.raises(CompilerError, match="no such op"):
        search(judging(needs))
