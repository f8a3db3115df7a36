"""What each device holds of a train step, by a TPU's compiler."""

import math

import jax
import pytest

from regal_jax.compiler.accelerators.measure import compile_for, measured
from regal_jax.datasets.jax_train_steps import program
from regal_jax.studies.compiler.sharded import sharded
from tests.compiler.accelerators.targets import compiler_for

NAME = "realnvp/training_adam*2"


def bytes_of(tree):
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(tree))


@pytest.mark.parametrize(
    ("how", "parts", "divided"),
    [
        ("whole", (1, 1, 1), False),
        ("batch", (1, 4, 1), True),
        ("fsdp", (4, 4, 4), True),
        ("tensor", (4, 1, 4), True),
    ],
)
def test_each_device_holds_its_part(how, parts, divided):
    target = compiler_for("v5e:2x2")
    plain = program(NAME)
    one = sharded(plain, how, target)
    params, _, inputs, moments = plain.shapes
    held = sum(bytes_of(t) / n for t, n in zip((params, inputs, moments), parts, strict=True))
    needs = measured(compile_for(one.jitted().trace(*one.shapes).lower(), target), target)
    assert needs.arguments == pytest.approx(held, rel=0.3)
    assert needs.donated == pytest.approx(
        bytes_of(params) / parts[0] + bytes_of(moments) / parts[2], rel=0.3
    )
    assert (needs.collectives > 0) is divided
    assert one.name == (NAME if how == "whole" else f"{NAME}, {how}")
