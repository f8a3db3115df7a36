"""What budgets would take: more work for fewer bytes, what ``rj.fit`` finds, too."""

import jax
import jax.numpy as jnp
import pytest

import regal_jax as rj
from regal_jax.compiler.explain import numbers, text
from regal_jax.compiler.explain.budgets import SHARES
from regal_jax.compiler.explain.explain import explain


def loss(weights, x):
    for w in weights:
        x = jnp.sin(x @ w)
    return (x**2).sum()


STEP = jax.jit(jax.grad(loss))
SHAPES = (
    [jax.ShapeDtypeStruct((64, 64), jnp.float32)] * 12,
    jax.ShapeDtypeStruct((1024, 64), jnp.float32),
)


@pytest.fixture(scope="module")
def explanation():
    return explain(STEP, *SHAPES)


def test_less_memory_is_more_work(explanation):
    budgets, allocated = explanation.budgets, explanation.allocated
    given = allocated.parameters + allocated.constants
    for one, share in zip(budgets, SHARES, strict=False):
        assert one.budget == given + int(share * (allocated.total - given))
    work = [one.more_work for one in budgets if one.more_work is not None]
    assert len(work) >= 2
    assert work == sorted(work)
    assert 0 < work[0] < work[-1] < 1


def test_the_compiler_agrees(explanation):
    one = explanation.budgets[1]
    fitted = rj.fit(STEP, *SHAPES, memory_budget=one.budget, evaluations=2000)
    more = fitted.best.needs.flops / fitted.plain.needs.flops - 1
    assert fitted.best.needs.total <= one.budget
    assert more == pytest.approx(one.more_work, abs=0.1)


def test_loops_may_keep_less():
    def scanned(weights, x):
        return (
            jax.lax.scan(lambda x, w: (jnp.sin(jnp.sin(x @ w)), None), x, weights)[0] ** 2
        ).sum()

    stacked = jax.ShapeDtypeStruct((12, 64, 64), jnp.float32)
    found = explain(jax.grad(scanned), stacked, SHAPES[1]).budgets
    assert len(found) > 1  # as it is, all is in one kernel
    assert found[1].more_work < 0.5


def test_it_is_said(explanation):
    one = explanation.budgets[0]
    said = text.notes(explanation)[-1]
    assert "rj.jit(f, memory_budget=...)" in said
    assert f"takes {100 * one.more_work:.1f} % more work" in said
    assert numbers.explanation_numbers(explanation)["budgets"][0]["more_work"] == one.more_work


def test_too_little_is_said():
    found = explain(lambda x: x @ x, jnp.zeros((64, 64)))
    assert [one.more_work for one in found.budgets] == [None]
    assert text.notes(found)[-1].endswith("is too little.")


def print_and_add(x):
    jax.debug.callback(lambda y: None, x)
    return x + 1


@pytest.mark.parametrize("source", [print_and_add, lambda x: x])
def test_nothing_may_run_again(source):
    assert not explain(source, jnp.ones(8)).budgets


def test_compiled_programs_have_none():
    compiled = STEP.lower(*SHAPES).compile()
    found = explain(compiled)
    assert not found.budgets
    assert "memory_budget" not in text.explanation_text(found)
