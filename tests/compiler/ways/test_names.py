"""Names to save: the best set of all, by compiling all; what can't be done is one error."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

import regal_jax as rj
from regal_jax.compiler.ways.names import named_in
from regal_jax.errors import LimitError, OptionError
from tests.compiler.accelerators.targets import compiler_for

LAYERS = 4
SHAPES = (
    [jax.ShapeDtypeStruct((32, 128), jnp.float32)] * LAYERS,
    jax.ShapeDtypeStruct((1024, 32), jnp.float32),
)


def loss(weights, x):
    for w in weights:
        wide = checkpoint_name(x @ w, "wide")
        x = checkpoint_name(jnp.tanh(wide) @ w.T, "narrow")
        x = checkpoint_name(jnp.tanh(x), "bounded")
    return (x**2).mean()


def make(policy):
    return jax.grad(jax.checkpoint(loss, policy=policy))


def within(share, **options):
    """The names, and the budget that is a share of what is needed with everything saved."""
    plain = rj.names_to_save(make, *SHAPES, memory_budget="1TiB").plain
    return rj.names_to_save(make, *SHAPES, memory_budget=int(share * plain.total), **options)


@pytest.fixture(scope="module")
def needs():
    """Needs with each set of names saved."""
    options = within(0.6).compiler_options
    found = {}
    for count in range(4):
        for names in itertools.combinations(("wide", "narrow", "bounded"), count):
            policy = jax.checkpoint_policies.save_only_these_names(*names)
            jitted = jax.jit(make(policy), compiler_options=dict(options))
            compiled = jitted.lower(*SHAPES).compile()
            memory = compiled.memory_analysis()
            found[frozenset(names)] = (
                memory.argument_size_in_bytes
                + memory.temp_size_in_bytes
                + memory.output_size_in_bytes,
                compiled.cost_analysis()["flops"],
            )
    return found


@pytest.mark.parametrize("share", [0.8, 0.6, 0.45])
def test_the_fewest_flops_of_all_sets(needs, share):
    saved = within(share)
    size, flops = needs[frozenset(saved.names)]
    assert size <= saved.budget
    assert flops == min(flops for size, flops in needs.values() if size <= saved.budget)
    assert saved.best.flops == flops


def test_what_fits_saves_everything():
    saved = within(1.0)
    assert saved.names is None
    assert "with everything saved" in str(saved)
    assert saved.policy is jax.checkpoint_policies.everything_saveable


def test_gradients_are_the_same():
    random = np.random.default_rng(0)
    arrays = jax.tree.map(lambda s: jnp.asarray(random.normal(size=s.shape), s.dtype), SHAPES)
    saved = within(0.6)
    ours = jax.jit(make(saved.policy), compiler_options=dict(saved.compiler_options))(*arrays)
    for a, b in zip(ours, jax.grad(loss)(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    needs = r"save_only_these_names\(.*\): needs .* for \d+\.\d % (more|fewer) FLOPs$"
    assert re.match(needs, str(saved))


def test_few_compilations_are_enough_for_something():
    assert within(0.8, compilations=2).names == ()


def test_too_little():
    with pytest.raises(LimitError, match=r"too little: the least found needs .*, saving narrow, "):
        within(0.1)


def test_names_come_in_their_order():
    assert named_in(make, SHAPES, {}) == ["wide", "narrow", "bounded"]


def test_nothing_has_a_name():
    def nameless(policy):
        return jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum(), policy=policy))

    with pytest.raises(OptionError, match="checkpoint_name"):
        rj.names_to_save(nameless, jnp.zeros((1024,)), memory_budget=1024)


@pytest.mark.parametrize("accelerator", ["v5e", "h100"])
def test_accelerators(accelerator):
    compiler_for(accelerator)
    shapes = (SHAPES[0], jax.ShapeDtypeStruct((32768, 32), jnp.float32))
    options = {"accelerator": accelerator}
    plain = rj.names_to_save(make, *shapes, memory_budget="1TiB", **options).plain
    budget = int(0.9 * plain.total)
    saved = rj.names_to_save(make, *shapes, memory_budget=budget, **options)
    assert saved.best.total <= budget
    assert not saved.compiler_options
