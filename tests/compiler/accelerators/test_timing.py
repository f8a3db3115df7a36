"""Times of compiled programs, on this machine's own device."""

import jax
import jax.numpy as jnp
import pytest

from regal_jax.compiler.accelerators.timing import has_fixed_trips, run_seconds


def step(state, batch, key, unused, scale, *, sign):
    noise = jax.random.normal(key, batch.shape)
    return {"w": state["w"] + sign * scale * (batch @ batch + noise), "none": None}


@pytest.mark.parametrize("donated", [(), (0,)])
def test_a_program_of_any_arguments_is_timed(donated):
    arguments = (
        {"w": jnp.ones((64, 64)), "none": None},
        *(jnp.ones((64, 64)), jax.random.key(0), jnp.ones(3), 2.0),
    )
    compiled = jax.jit(step, donate_argnums=donated).lower(*arguments, sign=1).compile()
    assert 0 < run_seconds(compiled) < 10
    assert not arguments[0]["w"].is_deleted()


class Full:
    """A program that there is no room for."""

    args_info, input_shardings = ((), {}), ((), {})

    def __init__(self, message):
        self.message = message

    def __call__(self):
        raise jax.errors.JaxRuntimeError(self.message)


def test_a_full_device_gives_no_time():
    assert run_seconds(Full("RESOURCE_EXHAUSTED: Out of memory")) is None
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        run_seconds(Full("INTERNAL: cuBLAS"))


def test_loops_whose_trips_depend_on_arguments():
    def until(x):
        return jax.lax.while_loop(lambda x: x < 9, lambda x: x + 1, x)

    loops = {
        jax.jit(until): False,
        jax.jit(lambda x: jax.jit(until)(x) + 1): False,
        jax.jit(lambda x: jax.lax.cond(x > 1, until, lambda x: x, x)): False,
        jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, x: x + 1, x)): True,
        jax.jit(jax.grad(lambda x: x**2)): True,
    }
    assert {one: has_fixed_trips(one.trace(1.0)) for one in loops} == loops
