import itertools
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regal_jax as rj
from regal_jax.errors import LimitError, OptionError
from regal_jax.reporting.tables import human_bytes
from tests.compiler.accelerators.targets import compiler_for
from tests.compiler.slices import programs

WIDTH, ROWS, LAYERS = 32, 2048, 8
QUICK = {"compilations": 4, "evaluations": 500, "slices": False}


def loss(weights, x):
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return (x**2).mean()


step = jax.grad(loss)
SHAPES = (
    [jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32)] * LAYERS,
    jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32),
)


def arrays(seed=0):
    random = np.random.default_rng(seed)
    make = lambda one: jnp.asarray(random.normal(size=one.shape), one.dtype)  # noqa: E731
    return jax.tree.map(make, SHAPES)


def close(one, other):
    """Gradients by other fusions, which round differently."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7)


@pytest.fixture(scope="module")
def plain():
    return rj.fit(step, *SHAPES, memory_budget="1TiB")


@pytest.fixture(scope="module")
def fitted(plain):
    return rj.fit(step, *SHAPES, memory_budget=int(0.72 * plain.best.needs.total), **QUICK)


def test_what_fits_stays_as_it_is(plain):
    assert plain.function is step
    assert plain.best == plain.plain
    assert "as it is" in str(plain)


def test_less_memory_for_more_work(fitted):
    compiled = jax.jit(fitted.function, compiler_options=dict(fitted.compiler_options)).lower(
        *SHAPES
    )
    memory = compiled.compile().memory_analysis()
    needs = memory.argument_size_in_bytes + memory.temp_size_in_bytes + memory.output_size_in_bytes
    assert needs <= fitted.budget
    assert fitted.plain.needs.flops < fitted.best.needs.flops < 1.5 * fitted.plain.needs.flops
    assert len(fitted.best.way.runs) > len(set(fitted.best.way.runs))
    assert re.search(r"[1-9]\d* kernels run again, \d+\.\d % more FLOPs", str(fitted))


def test_gradients_are_the_same(fitted):
    close(jax.jit(fitted.function)(*arrays()), step(*arrays()))


def test_other_shapes_are_refused(fitted):
    weights, x = arrays()
    with pytest.raises(OptionError, match="loss was fitted to other shapes"):
        fitted.function(weights, x[:8])


def test_too_little_says_what_holds_the_memory():
    with pytest.raises(LimitError, match=r"64.0 KiB is too little: the least .* results"):
        rj.fit(step, *SHAPES, memory_budget="64KiB", **QUICK)


@pytest.mark.parametrize("run", [rj.fit, lambda f, x, **_: rj.jit(f, memory_budget=16)(x)])
def test_a_function_without_ops_has_no_largest_one(run):
    x = np.ones(4, np.float32)
    with pytest.raises(LimitError, match=r"16 B is too little: .* results 16 B; .*a smaller"):
        run(lambda x: x, x, memory_budget=16)
    assert rj.fit(lambda x: x, x, memory_budget=64).best.needs.flops == 0


def test_what_runs_again_is_made_without_warnings(plain):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = rj.fit(step, *SHAPES, memory_budget=int(0.72 * plain.best.needs.total), **QUICK)
    assert found.best.way.runs


@pytest.mark.parametrize("budget", ["much", "16 gigs", "1.5"])
def test_a_budget_that_is_no_bytes(budget):
    with pytest.raises(OptionError, match=r"not bytes|part of a byte"):
        rj.fit(step, *SHAPES, memory_budget=budget)


def test_a_frontier_pays_for_memory_with_work(tmp_path):
    found = rj.frontier(step, *SHAPES, shares=(1.0, 0.6, 0.3), evaluations=500)
    needs = [point.needs for point in found.points]
    pairs = itertools.pairwise(needs)
    assert all(a.total > b.total and a.work <= b.work for a, b in pairs)
    assert needs[-1].total < 0.75 * found.plain.needs.total
    assert human_bytes(needs[0].total) in str(found)
    found.save_plot(tmp_path / "frontier.svg")
    assert "FLOPs over" in (tmp_path / "frontier.svg").read_text()
    with pytest.raises(OptionError, match=r"shares must be in \(0, 1\]"):
        rj.frontier(step, *SHAPES, shares=(2.0,))


def test_a_frontier_of_what_the_compiler_refuses_is_over_its_first_point(tmp_path):
    found = rj.frontier(step, *SHAPES, shares=(0.6, 0.3), evaluations=500)
    refused = found.plain._replace(
        needs=found.plain.needs._replace(seconds=float("inf"), flops=0.0)
    )
    timed = [one._replace(needs=one.needs._replace(seconds=2.0)) for one in found.points]
    found = found._replace(plain=refused, points=tuple(timed))
    first = found.rows()[0]
    assert (first["of plain"], first["FLOPs"], first["time"]) == ("1.000",) * 3
    found.save_plot(tmp_path / "frontier.svg")
    assert "estimated time over the least work" in (tmp_path / "frontier.svg").read_text()


def test_jit_within_a_budget(fitted, tmp_path):
    options = {"cache": tmp_path, "evaluations": 500, "slices": False}
    jitted = rj.jit(step, memory_budget=fitted.budget, **options)
    again = rj.jit(step, memory_budget=fitted.budget, **options)
    close(jitted(*arrays()), step(*arrays()))
    for one, other in zip(jitted(*arrays()), again(*arrays()), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    (report,), (kept,) = jitted.reports, again.reports
    assert report.flops_ratio > 1
    assert not report.cached
    assert "more FLOPs" in str(report)
    assert kept.cached
    assert "more FLOPs" not in str(kept)
    assert kept.memory == report.memory


def test_jit_of_what_never_fits():
    with pytest.raises(LimitError, match=r"memory_budget: 1.00 KiB is too little"):
        rj.jit(step, memory_budget="1KiB", cache=None, top_k=1, strict=False)(*arrays())


def test_donated_arguments_stay_donated(fitted):
    jitted = jax.jit(lambda w, x: (step(w, x), x * 2), donate_argnums=1)
    found = rj.fit(jitted, *SHAPES, memory_budget=int(0.85 * fitted.plain.needs.total), **QUICK)
    assert found.best.needs.memory.donated == ROWS * WIDTH * 4


def test_for_an_accelerator():
    compiler_for("v5e")
    big = ([jax.ShapeDtypeStruct((512, 512), jnp.float32)] * 4,)
    x = jax.ShapeDtypeStruct((32768, 512), jnp.float32)
    plain = rj.measure(step, *big, x, accelerator="v5e").peak
    found = rj.fit(step, *big, x, memory_budget=int(0.8 * plain), accelerator="v5e", **QUICK)
    assert rj.measure(found.function, *big, x, accelerator="v5e").peak <= 0.8 * plain


def positive_sums(x, weights):
    """XLA's library reads the choices that it adds up from memory."""
    return jnp.where(x > 0, weights, 0).sum((0, 1, 2))


def test_sums_are_fused_where_nothing_else_fits(tmp_path):
    x, weights = np.random.default_rng(0).uniform(size=(2, 8, 32, 32, 64)).astype(np.float32) - 0.1
    budget = 2 * x.nbytes + x.nbytes // 2
    fitted = rj.fit(positive_sums, x, weights, memory_budget=budget, slices=False)
    assert fitted.plain.needs.total > budget >= fitted.best.needs.total
    assert fitted.best.way.fuses_sums
    assert "sums are fused, which takes time" in str(fitted)
    fast = jax.jit(fitted.function, compiler_options=fitted.compiler_options)
    close(fast(x, weights), jax.jit(positive_sums)(x, weights))
    for is_known in (False, True):
        ours = rj.jit(
            positive_sums, memory_budget=budget, slices=False, cache=tmp_path, strict=True
        )
        assert (ours(x, weights) == fast(x, weights)).all()
        assert ours.reports[0].cached is is_known
        assert ours.reports[0].memory[ours.reports[0].chosen].total < x.nbytes // 2


LOSS = jax.value_and_grad(programs.perceptron)
MANY = (programs.PERCEPTRON[0], programs.of(1024, programs.WIDTH), programs.of(1024, 4))


def shapes(args):
    return jax.tree.map(lambda one: jax.ShapeDtypeStruct(one.shape, one.dtype), args)


def budget_of(fn, args, share):
    plain = rj.fit(fn, *shapes(args), memory_budget="1TiB").plain.needs
    return plain.arguments + int(share * (plain.total - plain.arguments))


def test_a_batch_in_slices_fits_a_small_budget():
    budget = budget_of(LOSS, MANY, 0.3)
    fitted = rj.fit(LOSS, *shapes(MANY), memory_budget=budget, evaluations=500)
    assert fitted.best.needs.total <= budget
    assert fitted.best.way.slices > 1
    assert re.search(r"in \d+ slices, \d+\.\d % (more|fewer) FLOPs", str(fitted))
    assert fitted.best.needs.flops == pytest.approx(fitted.plain.needs.flops, rel=0.05)
    made = jax.jit(fitted.function, compiler_options=dict(fitted.compiler_options))
    close(made(*MANY), LOSS(*MANY))


def test_slices_can_be_refused():
    budget = budget_of(LOSS, MANY, 0.3)
    with pytest.raises(LimitError):
        rj.fit(LOSS, *shapes(MANY), memory_budget=budget, **QUICK)


def test_jit_runs_a_batch_in_slices_and_remembers(tmp_path):
    budget = budget_of(LOSS, MANY, 0.25)
    for cached in (False, True):
        run = rj.jit(LOSS, memory_budget=budget, evaluations=500, cache=tmp_path)
        close(run(*MANY), LOSS(*MANY))
        assert "slices" in run.reports[0].chosen
        assert run.reports[0].cached is cached
