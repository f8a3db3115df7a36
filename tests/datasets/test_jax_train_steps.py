"""The programs that are compiled and measured."""

import re

import jax
import numpy as np
import pytest

from regal_jax.datasets import jax_train_steps
from regal_jax.errors import OptionError


def test_there_are_many_of_every_kind():
    names = jax_train_steps.program_names()
    assert len(names) == len(set(names)) >= 100
    for mode in jax_train_steps.MODES:
        least = 20 if mode == "training_checkpointed" else 40
        assert sum(name.endswith(f"/{mode}") for name in names) >= least


@pytest.mark.parametrize("name", ["mmoe/training_adam", "dlrm/training", "strassen/training"])
def test_arguments_fit_and_are_those_of_their_seed(name):
    program = jax_train_steps.program(name)
    first, again, other = (program.arguments(seed) for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert any(
        not np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True)
    )
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), program.shapes)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), first) == shapes
    outputs = jax.eval_shape(program.function, *first)
    found = program.jitted()(*first)
    assert jax.tree.structure(found) == jax.tree.structure(outputs)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(found))


def test_checkpointed_steps_compute_activations_again():
    once, again = (
        str(jax.make_jaxpr(program.function)(*program.shapes))
        for program in map(jax_train_steps.program, ("vit/training", "vit/training_checkpointed"))
    )
    assert "remat" not in once
    assert "remat" in again


def test_only_train_steps_with_an_optimizer_donate():
    assert jax_train_steps.program("mmoe/inference").donated == ()
    assert jax_train_steps.program("mmoe/training_adam").donated


def test_a_larger_batch_is_of_inputs_alone():
    once, eight = (jax_train_steps.program(f"vit/training{times}") for times in ("", "*8"))
    assert jax.tree.map(lambda x: x.shape, eight.shapes[0]) == jax.tree.map(
        lambda x: x.shape, once.shapes[0]
    )
    for small, large in zip(
        jax.tree.leaves(once.shapes[2]), jax.tree.leaves(eight.shapes[2]), strict=True
    ):
        assert large.shape == (8 * small.shape[0], *small.shape[1:])
    assert (jax_train_steps.batch_of(once.name), jax_train_steps.batch_of(eight.name)) == (1, 8)
    with_policy = jax_train_steps.with_policy("vit/training*8", None)
    assert with_policy.shapes == eight.shapes


@pytest.mark.parametrize(
    "name",
    [
        "mmoe",
        "mmoe/other",
        "nothing/inference",
        "mmoe/inference*",
        "mmoe/inference*x",
        "mmoe/inference*0",
    ],
)
def test_unknown_programs_are_named(name):
    with pytest.raises(
        OptionError, match=rf"no '{re.escape(name)}'; they are randwire_ws/inference"
    ):
        jax_train_steps.program(name)
