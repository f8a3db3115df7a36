"""Decisions on ways, compiled again."""

import jax
import pytest

from regal_jax.compiler.accelerators.measure import measure
from regal_jax.compiler.ways import route
from regal_jax.compiler.ways.judge import Attempt, Judge, Needs, Way, judge_of
from regal_jax.compiler.xla.decisions import Memory
from regal_jax.compiler.xla.jit import jit
from regal_jax.compiler.xla.reschedule import Report
from regal_jax.compiler.xla.settings import Search
from regal_jax.errors import CompilerError, DeviceMemoryError
from tests.compiler.accelerators.targets import compiler_for
from tests.compiler.barriers.programs import random_function, random_order, traced
from tests.compiler.ways.test_fit import SHAPES, step
from tests.compiler.ways.test_judge import others

JUDGE = judge_of(traced(random_function(3, 40)), None)
ORDER = tuple(random_order(JUDGE.kernels.graph, 1))
REPORT = Report("f", "auto", {"auto": Memory(1, 1, 0)}, {})


class OnDevice(Judge):
    """On an accelerator, where an order of its own takes a program from 100 to 90 bytes."""

    def built(self, way: Way) -> Attempt:
        if way.behind:
            others({}, None)
        return Attempt(way, Needs(Memory(100, 0, 0), 0, 0, 1.0))

    def reordered(self, attempt: Attempt, how: Search) -> Attempt:
        needs = attempt.needs._replace(memory=Memory(90, 0, 0))
        return attempt._replace(needs=needs)


def again(judge, way, budget=None):
    decision = route._decision(REPORT, way)
    return route._again(judge, decision, budget, Search(evaluations=500))


@pytest.mark.parametrize("way", [Way("auto", ORDER), Way("auto", ORDER, cuts=(5,)), Way("plain")])
def test_a_decision_is_kept(way):
    made = again(JUDGE, way, budget=1)  # what was judged on CPUs, however much it needs
    assert made.way == way._replace(name="auto")
    assert isinstance(made.program, jax.stages.Compiled)


@pytest.mark.parametrize(
    "way",
    [
        Way("auto", ORDER, cuts=(0,)),
        Way("auto", ORDER, cuts=(len(ORDER),)),
        Way("auto", ORDER[1:]),
        Way("auto", ORDER, loops=7),
    ],
)
def test_what_is_no_way_of_the_program_is_no_decision(way):
    assert again(JUDGE, way) is None


@pytest.mark.parametrize(
    ("behind", "budget", "needs"),
    [
        ((), 100, 100),
        ((), 99, None),
        ((), None, 100),
        ((("main", ("a",)),), 100, 100),
        ((("main", ("a",)),), 99, 90),
        ((("main", ("a",)),), 89, None),
        ((("main", ("a",)),), None, 90),
    ],
)
def test_where_the_compiler_makes_something_else_on_the_device(behind, budget, needs):
    judge = OnDevice(*JUDGE._replace(target="a GPU"))
    made = again(judge, Way("auto", ORDER, behind=behind), budget)
    assert (made and made.needs.total) == needs


def test_what_the_compiler_refuses_is_no_decision(monkeypatch):
    def refuse(judge, way):
        raise CompilerError("too large")

    monkeypatch.setattr(Judge, "built", refuse)
    assert again(JUDGE, Way("auto", ORDER)) is None


def test_a_plan_is_found_without_a_budget_and_remembered(tmp_path):
    target = compiler_for("h100")
    plain = measure(step, *SHAPES, accelerator=target)
    options = {"time_price": 0.0, "evaluations": 5000, "top_k": 1}
    fast = jit(step, **options, cache=tmp_path, strict=True)
    ours = measure(fast, *SHAPES, accelerator=target)
    first, chosen = fast.reports[0], fast.reports[0].chosen
    assert "~" in chosen
    assert ours.beyond_arguments < 0.9 * plain.beyond_arguments
    assert first.memory[chosen].total == ours.beyond_arguments
    assert first.flops_ratio > 1
    assert measure(fast, *SHAPES, accelerator=target) == ours
    assert fast.reports[1].cached
    assert fast.reports[1].memory == first.memory


def test_a_step_that_is_refused_for_its_size_is_made_to_fit():
    target = compiler_for("v5e")
    weights = [jax.ShapeDtypeStruct((1024, 1024), "float32")] * 8
    arguments = weights, jax.ShapeDtypeStruct((3 * 2**18, 1024), "float32")
    with pytest.raises(DeviceMemoryError, match="Ran out of memory"):
        measure(step, *arguments, accelerator=target)
    fast = jit(step, evaluations=20_000, top_k=1, cache=None, strict=True)
    assert measure(fast, *arguments, accelerator=target).fits
    assert "refuses XLA's own choice for its size" in str(fast.reports[0])
