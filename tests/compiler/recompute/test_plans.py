"""What kernels take, and plans of them within limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.compiler.accelerators.roofline import Kind, kernel_seconds
from regal_jax.compiler.accelerators.specifications import SPECIFICATIONS
from regal_jax.compiler.recompute.plans import Lines
from regal_jax.compiler.recompute.work import FLOPS_PER_BYTE, kernel_work
from regal_jax.compiler.xla.settings import Search
from tests.compiler.barriers.programs import kernels_of
from tests.compiler.ways.test_fit import SHAPES, step

H100 = SPECIFICATIONS["h100"]
HOW = Search(evaluations=500)


@pytest.fixture(scope="module")
def lines():
    return Lines(kernels_of(jax.jit(step).trace(*SHAPES)), HOW, H100)


@pytest.mark.parametrize(("dtype", "name"), [("float32", "f32"), ("bfloat16", "bf16")])
def test_work_of_a_product(dtype, name):
    one = jax.ShapeDtypeStruct((64, 64), dtype)
    kernels = kernels_of(jax.jit(jnp.matmul).trace(one, one))
    size = 3 * 64 * 64 * one.dtype.itemsize
    flops = 2 * 64**3
    assert kernel_work(kernels).tolist() == [flops + FLOPS_PER_BYTE * size]
    seconds = kernel_seconds(flops, size, {name}, Kind.PRODUCT, H100)
    assert kernel_work(kernels, H100).tolist() == [seconds]


def test_what_runs_inside_a_kernel_counts():
    one = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    alone, more = (
        kernel_work(kernels_of(jax.jit(f).trace(one)))
        for f in (jnp.sum, lambda a: jnp.sum(jnp.tanh(a)))
    )
    assert (more - alone).tolist() == [64 * 64]


@pytest.mark.parametrize(
    ("groups", "window", "kind"),
    [(1, 9, Kind.CONVOLUTION), (8, 9, Kind.GROUPED), (8, 3, Kind.CONVOLUTION)],
)
def test_work_of_a_convolution(groups, window, kind):
    image = jax.ShapeDtypeStruct((1, 8, 64, 64), jnp.float32)
    kernel = jax.ShapeDtypeStruct((512, 8 // groups, window, window), jnp.float32)

    def convolve(a, b):
        return jax.lax.conv_general_dilated(a, b, (1, 1), "SAME", feature_group_count=groups)

    kernels = kernels_of(jax.jit(convolve).trace(image, kernel))
    (work,), (seconds,) = kernel_work(kernels), kernel_work(kernels, H100)
    size = 4 * (8 * 64 * 64 + 512 * 8 // groups * window**2 + 512 * 64 * 64)
    assert seconds == kernel_seconds(work - FLOPS_PER_BYTE * size, size, {"f32"}, kind, H100)


@pytest.mark.parametrize("share", [1.0, 0.8, 0.6])
def test_plans_are_within_their_limits_and_take_more(lines, share):
    found = lines.within(lines.limit(share))
    assert found.order in lines.orders
    assert found.plan.peak <= lines.limit(share)
    assert found.plan.work >= lines.plain.work
    assert set(found.plan.runs) == set(lines.orders["program"])
    assert (len(found.plan.runs) > len(lines.orders["program"])) is (share < 1)


def test_where_there_is_no_plan_the_nearest_is_given(lines):
    limit = lines.given + 1
    assert lines.within(limit).plan.peak > limit
    assert lines.floor == limit


def test_places_of_cuts_are_inside(lines):
    places = lines.places("auto")
    assert places
    assert all(0 < place < len(lines.orders["auto"]) for place in places)
    assert len(np.unique(places)) == len(places)
