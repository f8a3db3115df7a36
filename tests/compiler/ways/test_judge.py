"""Orders behind the scheduler of an accelerator, by its own compiler."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec

from regal_jax.compiler.accelerators.measure import measure, measured, placed
from regal_jax.compiler.ways import judge as judging
from regal_jax.compiler.ways.fit import fit
from regal_jax.compiler.ways.judge import Versions, Way, judge_of
from regal_jax.compiler.xla.behind import REORDERED
from regal_jax.compiler.xla.jit import jit
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.settings import Search
from regal_jax.errors import CompilerError
from tests.compiler.accelerators.targets import compiler_for

HOW = Search(evaluations=2000)
WEIGHTS = [jax.ShapeDtypeStruct((256, 2048), jnp.float32)] * 6
ROWS = jax.ShapeDtypeStruct((512, 256), jnp.float32)
TOTAL = jax.ShapeDtypeStruct((512, 512), jnp.float32)


def late(total, weights, x):
    """Products of which XLA makes all before it reads the first."""
    big = [x @ w for w in weights]
    return total + sum(one @ one.T for one in big)


def judge_on(target, **options):
    arguments, _ = placed(target, (TOTAL, WEIGHTS, ROWS), {})
    return judge_of(jax.jit(late, **options).trace(*arguments), target, None)


def others(order, module):
    raise CompilerError("other instructions")


def has_hook(target):
    """The test is left out where this JAX has none for GPUs."""
    if jax.__version_info__ < (0, 11):
        pytest.skip(f"JAX {jax.__version__} has no hook for {target.name}")
    return target


@pytest.mark.parametrize("donated", [(), (0,)])
def test_another_order_needs_less_and_takes_as_long(donated):
    judge = judge_on(has_hook(compiler_for("h100")), donate_argnums=donated)
    plain = judge(Way(PLAIN))
    ours = judge.reordered(plain, HOW)
    assert ours.way.name == PLAIN + REORDERED
    memory, before = ours.needs.memory, plain.needs.memory
    assert memory.temporaries < 0.9 * before.temporaries
    assert memory.donated == before.donated == 4 * 512 * 512 * len(donated)
    costs, own = (measured(one.program, judge.target) for one in (ours, plain))
    for what in ("seconds", "kernels", "flops", "bytes_accessed"):
        assert getattr(costs, what) == pytest.approx(getattr(own, what))
    assert judge(ours.way).needs == ours.needs


def test_collectives_have_the_same_work_beside_them_in_another_order():
    target = has_hook(compiler_for("h100:4"))

    def gathering(total, weights, x, parts):
        whole = jax.lax.with_sharding_constraint(parts, target.replicated())
        return late(total, weights, x), whole @ whole

    shardings = (PartitionSpec(), PartitionSpec(), PartitionSpec(), PartitionSpec("devices"))
    arguments, _ = placed(target, (TOTAL, WEIGHTS, ROWS, TOTAL), {}, shardings)
    judge = judge_of(jax.jit(gathering).trace(*arguments), target, None)
    plain = judge(Way(PLAIN))
    costs = measured(plain.program, target)
    assert costs.overlapped == costs.collectives == 1
    needs = judge.reordered(plain, HOW).needs
    assert needs.beside == plain.needs.beside == 1.0
    assert needs.memory.temporaries < plain.needs.memory.temporaries


def test_an_order_of_other_instructions_is_refused():
    judge = judge_on(has_hook(compiler_for("h100")))
    with pytest.raises(CompilerError, match="other instructions of jit_late"):
        judge(Way(PLAIN, behind=(("main.1", ("a", "b")),)))


def test_tpus_have_none():
    judge = judge_on(compiler_for("v5e"))
    with pytest.raises(CompilerError, match="behind the scheduler of v5e"):
        judge.reordered(judge(Way(PLAIN)), HOW)


@pytest.mark.parametrize("donated", [(), (0,)])
def test_on_cpus_an_order_keeps_a_budget_without_work(tmp_path, donated):
    judge = judge_of(jax.jit(late, donate_argnums=donated).trace(TOTAL, WEIGHTS, ROWS), None)
    plain = judge(Way(PLAIN)).needs
    ours = judge.reordered(judge(Way(PLAIN)), HOW)
    assert ours.needs.total < 0.7 * plain.total
    assert judge(ours.way).needs == ours.needs

    arrays = partial(jax.tree.map, lambda one: jnp.full(one.shape, 0.5), (TOTAL, WEIGHTS, ROWS))
    for is_known in (False, True):
        fast = jit(
            late,
            memory_budget=int(0.7 * plain.total),
            cache=tmp_path,
            evaluations=2000,
            strict=True,
            donate_argnums=donated,
        )
        assert (fast(*arrays()) == jax.jit(late)(*arrays())).all()
        (report,) = fast.reports
        assert (report.chosen, report.cached) == (PLAIN + REORDERED, is_known)
        assert report.memory[report.chosen] == ours.needs.memory


def test_an_order_behind_the_scheduler_is_remembered(tmp_path):
    target = has_hook(compiler_for("h100"))
    fast = jit(late, top_k=1, evaluations=2000, cache=tmp_path, strict=True, overlap=True)
    ours = measure(fast, TOTAL, WEIGHTS, ROWS, accelerator=target)
    assert fast.reports[0].chosen.endswith(REORDERED)
    assert measure(fast, TOTAL, WEIGHTS, ROWS, accelerator=target) == ours
    assert fast.reports[1].cached
    assert fast.reports[1].memory == fast.reports[0].memory


def test_where_the_compiler_makes_other_instructions_they_get_an_order_of_their_own(
    tmp_path, monkeypatch
):
    target = has_hook(compiler_for("h100"))
    fast = jit(late, top_k=1, evaluations=2000, cache=tmp_path, strict=True, overlap=True)
    ours = measure(fast, TOTAL, WEIGHTS, ROWS, accelerator=target)

    monkeypatch.setattr("regal_jax.compiler.xla.behind._if_there", others)
    again = measure(fast, TOTAL, WEIGHTS, ROWS, accelerator=target)
    assert fast.reports[1].cached
    assert again == ours
    chosen = fast.reports[1].chosen
    assert fast.reports[1].memory[chosen].temporaries == ours.temporaries


def test_an_order_behind_the_scheduler_keeps_a_budget_without_work(tmp_path, monkeypatch):
    target = has_hook(compiler_for("h100"))
    plain = measure(jax.jit(late), TOTAL, WEIGHTS, ROWS, accelerator=target)
    fast = jit(late, memory_budget=int(0.9 * plain.peak), cache=tmp_path, strict=True)
    ours = measure(fast, TOTAL, WEIGHTS, ROWS, accelerator=target)
    assert fast.reports[0].chosen == PLAIN + REORDERED
    assert ours.peak <= 0.9 * plain.peak
    assert (ours.kernels, ours.flops) == (plain.kernels, plain.flops)
    assert measure(fast, TOTAL, WEIGHTS, ROWS, accelerator=target) == ours
    assert fast.reports[-1].cached
    monkeypatch.setattr("regal_jax.compiler.xla.behind._if_there", others)
    assert measure(fast, TOTAL, WEIGHTS, ROWS, accelerator=target) == ours
    assert fast.reports[-1].cached


def test_slices_are_made_when_they_are_asked_for():
    asked = []
    made = Versions(["as it is", "lean"], lambda: asked.append(1) or ["sliced"])
    assert (made[0], made[1], asked) == ("as it is", "lean", [])
    assert (len(made), made[2], list(made)[-1], asked) == (3, "sliced", "sliced", [1])
    with pytest.raises(IndexError):
        made[3]


def test_what_fits_is_not_sliced(monkeypatch):
    monkeypatch.setattr(judging, "in_slices", lambda *_, **__: pytest.fail("asked for"))
    fitted = fit(late, TOTAL, WEIGHTS, ROWS, memory_budget="1TiB")
    assert fitted.best.way == Way(PLAIN)
