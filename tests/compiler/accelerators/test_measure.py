import re

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec

from regal_jax.compiler.accelerators.measure import measure
from regal_jax.compiler.xla.jit import jit
from regal_jax.errors import OptionError
from tests.compiler.accelerators.targets import compiler_for

SHAPE = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
ARRAY = 4 * 2**20


def layer(a, b):
    return jnp.tanh(a @ b)


@pytest.mark.parametrize("name", ["v5e", "h100"])
def test_bytes_of_a_layer(name):
    found = measure(layer, SHAPE, SHAPE, accelerator=compiler_for(name))
    assert (found.arguments, found.outputs, found.donated) == (2 * ARRAY, ARRAY, 0)
    assert found.flops >= 2 * 1024**3
    assert found.seconds > 0
    assert found.fits
    assert "compiled for" in str(found)


@pytest.mark.parametrize("name", ["v5e", "h100"])
def test_layers_of_a_scan_count_as_often_as_they_run(name):
    stack = jax.ShapeDtypeStruct((6, 512, 512), jnp.float32)
    target = compiler_for(name)

    def scanned(x, weights):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]

    x = jax.ShapeDtypeStruct((512, 512), jnp.float32)
    found = measure(scanned, x, stack, accelerator=target)
    assert 6 * 2 * 512**3 <= found.flops < 7 * 2 * 512**3


def test_donated_arguments_and_numbers_count():
    target = compiler_for("v5e")
    step = jax.jit(lambda a, rate: a - rate * jnp.tanh(a), donate_argnums=0)
    found = measure(step, SHAPE, 0.1, accelerator=target)
    assert found.donated == ARRAY
    assert found.beyond_arguments == found.temporaries + found.outputs - ARRAY


def test_arguments_are_sharded():
    target = compiler_for("v5e:2x2")
    rows, whole = PartitionSpec("devices"), PartitionSpec()
    found = measure(layer, SHAPE, SHAPE, accelerator=target, in_shardings=(rows, whole))
    assert found.arguments == ARRAY // 4 + ARRAY
    loss = jax.grad(lambda w, x: layer(x, w).sum())
    found = measure(loss, SHAPE, SHAPE, accelerator=target, in_shardings=(whole, rows))
    assert found.collectives >= 1


@pytest.mark.parametrize("shardings", ["devices", (PartitionSpec(),) * 3])
def test_shardings_that_do_not_fit(shardings):
    target = compiler_for("v5e:2x2")
    with pytest.raises(OptionError, match="in_shardings"):
        measure(layer, SHAPE, SHAPE, accelerator=target, in_shardings=shardings)


@pytest.mark.parametrize("name", ["v5e", "h100"])
def test_ours_never_needs_more(name, tmp_path):
    target = compiler_for(name)

    def loss(weights, x):
        return sum(jnp.tanh(jnp.tanh(x @ w) @ w.T).sum() for w in weights)

    weights = [jax.ShapeDtypeStruct((128, 2048), jnp.float32)] * 4
    arguments = (weights, jax.ShapeDtypeStruct((4096, 128), jnp.float32))
    plain = measure(jax.grad(loss), *arguments, accelerator=target)
    fast = jit(jax.grad(loss), top_k=2, evaluations=2000, cache=tmp_path, strict=True)
    ours = measure(fast, *arguments, accelerator=target)
    assert ours.beyond_arguments <= plain.beyond_arguments
    assert fast.reports[0].accelerator == target.name
    assert "compiled for" in str(fast.reports[0])
    assert measure(fast, *arguments, accelerator=target) == ours
    assert fast.reports[1].cached
    assert re.search("estimated time .* and FLOPs", str(fast.reports[0]))
    assert "estimated time" not in str(fast.reports[1])
    if name == "h100":
        assert ours.beyond_arguments < 0.75 * plain.beyond_arguments


def test_sharded_programs_are_cut_too():
    target = compiler_for("h100:8")

    def block(weights, x):
        return x + jnp.tanh(jnp.tanh(x @ weights["up"]) @ weights["down"])

    def loss(layers, x):
        return sum(block(one, block(other, x)).sum() for one, other in layers)

    layer = {
        "up": jax.ShapeDtypeStruct((256, 1024), jnp.float32),
        "down": jax.ShapeDtypeStruct((1024, 256), jnp.float32),
    }
    arguments = [(layer, layer)] * 3, jax.ShapeDtypeStruct((8192, 256), jnp.float32)
    sharded = {"accelerator": target, "in_shardings": PartitionSpec("devices")}
    plain = measure(jax.grad(loss), *arguments, **sharded)
    fast = jit(jax.grad(loss), top_k=2, evaluations=2000, cache=None, strict=True)
    ours = measure(fast, *arguments, **sharded)
    assert ours.arguments == plain.arguments
    assert ours.collectives > 0
    assert ours.beyond_arguments < 0.75 * plain.beyond_arguments


@pytest.mark.parametrize("argument", ["text", object()])
def test_arguments_that_are_no_arrays(argument):
    target = compiler_for("v5e")
    with pytest.raises(OptionError, match=r"no array: bind it by functools\.partial"):
        measure(jax.jit(lambda a, b: a, static_argnums=1), SHAPE, [argument], accelerator=target)
