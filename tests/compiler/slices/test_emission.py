"""Programs with a region in slices: the same numbers, in fewer bytes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from regal_jax.compiler.barriers.emission import program_of
from regal_jax.compiler.slices.emission import in_slices
from regal_jax.compiler.ways.judge import KEEP_BARRIERS
from tests.compiler.slices import programs
from tests.compiler.slices.programs import PROGRAMS
from tests.cpu_devices import run_on_devices


def sliced(fn, args, *, for_cpus=True, devices=1, **options):
    traced = jax.jit(fn, **options).trace(*args)
    return traced, in_slices(traced, program_of(traced), for_cpus=for_cpus, devices=devices)


def check_the_numbers(fn, args, name="", **options):
    """A program in slices makes the same."""
    _traced, found = sliced(fn, args, **options)
    assert found
    expected = jax.jit(fn)(*args)
    tolerance = 2e-2 if name == "narrow" else 2e-5
    fewest, most = min(one.turns for one in found), max(one.turns for one in found)
    for one in (one for one in found if one.turns in (fewest, most) or one.staged):
        made = jax.jit(jaxpr_as_fun(one.traced.jaxpr))(*jax.tree.leaves(args))
        for own, other in zip(made, jax.tree.leaves(expected), strict=True):
            assert (own.shape, own.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(own, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("for_cpus", [True, False], ids=["CPUs", "accelerators"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_numbers_are_the_same(name, for_cpus):
    check_the_numbers(*PROGRAMS[name], name, for_cpus=for_cpus)


@pytest.mark.parametrize(
    "name",
    [
        *("attention", "convolutional", "layers", "recurrent", "rows"),
        *("looked up", "added at", "mapped", "in chunks", "accumulated"),
        *("contrasted", "labelled", "passed on"),
    ],
)
def test_each_of_several_devices_may_have_a_part_of_a_slice(name):
    check_the_numbers(*PROGRAMS[name], name, for_cpus=False, devices=2)


def test_devices_send_nothing_to_slice_what_they_have_parts_of():
    assert run_on_devices(ON_DEVICES, 4) == ""


ON_DEVICES = """
import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from regal_jax.compiler.barriers.emission import program_of
from regal_jax.compiler.slices.emission import in_slices
from tests.compiler.slices.programs import PROGRAMS

def in_parts(name, kind, *specs):
    mesh = jax.make_mesh((4,), ("batch",), axis_types=(kind,))
    fn, args = PROGRAMS[name]
    pairs = zip(args, specs, strict=True)
    args = [jax.device_put(one, NamedSharding(mesh, spec)) for one, spec in pairs]
    traced = jax.jit(fn).trace(*args)
    return fn, args, in_slices(traced, program_of(traced), for_cpus=False, devices=4)


assert in_parts("rows", AxisType.Auto, P("batch"), P())[-1]
assert not in_parts("rows", AxisType.Explicit, P("batch"), P())[-1]
fn, args, found = in_parts("recurrent", AxisType.Auto, P(), P("batch"))
assert [one.turns for one in found] == [2, 2, 4, 4, 8, 8, 16, 16]
for one in (*found[:2], *found[-2:]):
    made = jax.jit(jaxpr_as_fun(one.traced.jaxpr)).lower(*jax.tree.leaves(args)).compile()
    text = made.as_text()
    entry = text[text.index("ENTRY") :]
    assert ("all-reduce(" in entry) is one.apart
    assert ("all-reduce(" in text.removesuffix(entry)) is not one.apart
    assert not any(sent in text for sent in ("all-gather", "all-to-all", "collective-permute"))
    made = made(*jax.tree.leaves(args))
    for own, other in zip(made, jax.tree.leaves(jax.jit(fn)(*args)), strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-5, atol=2e-5)
"""


@pytest.mark.parametrize(
    "name",
    [
        *("perceptron", "attention", "convolutional", "by example"),
        *("layers", "recurrent", "nested"),
        *("looked up", "mapped", "in chunks", "accumulated"),
    ],
)
def test_more_slices_need_fewer_bytes(name):
    traced, found = sliced(*PROGRAMS[name])
    assert len({one.turns for one in found}) == len(found) > 1

    def temporaries(one, options):
        return one.lower().compile(options).memory_analysis().temp_size_in_bytes

    needs = [temporaries(one.traced, KEEP_BARRIERS if one.unrolled else {}) for one in found]
    assert needs[-1] < 0.7 * temporaries(traced, {})


@pytest.mark.parametrize("name", ["contrasted", "labelled", "passed on"])
def test_several_regions_make_again_what_others_made_before(name):
    traced, found = sliced(*PROGRAMS[name])
    assert [one.staged for one in found] == sorted(one.staged for one in found)  # these are last

    def needs(traced):
        made = traced.lower().compile()
        memory = made.memory_analysis()
        return memory.temp_size_in_bytes, made.cost_analysis()["flops"]

    one, (plain, plain_flops) = found[-1], needs(traced)
    assert one.staged
    temporaries, flops = needs(one.traced)
    assert temporaries < 0.7 * plain
    assert 1.1 * plain_flops < flops + one.unseen < 1.5 * plain_flops
    kept = [needs(one.traced)[0] for one in found if not one.staged]
    assert temporaries < 0.8 * min(kept, default=plain)


def test_one_region_that_holds_most_is_enough():
    assert not any(one.staged for one in sliced(*PROGRAMS["perceptron"])[1])


def test_convolutions_are_unrolled_on_cpus_alone():
    for name, for_cpus, unrolled in (
        ("convolutional", True, True),
        ("convolutional", False, False),
        ("perceptron", True, False),
    ):
        for one in sliced(*PROGRAMS[name], for_cpus=for_cpus)[1]:
            assert one.unrolled is unrolled
            assert ("scan" in str(one.traced.jaxpr)) is not unrolled
            assert (one.unseen > 0) is not unrolled


def test_slices_divide_all_sizes():
    fn, (w, x, y) = PROGRAMS["perceptron"]
    found = sliced(fn, (w, x[:12], y[:12]))[1]
    assert [one.turns for one in found] == [2, 4, 6, 12]


@pytest.mark.parametrize("rows", [1, 2])
def test_another_axis_is_cut_where_the_batch_has_few_examples(rows):
    fn, (w, *pairs) = PROGRAMS["perceptron"]
    args = w, *(one.reshape(rows, -1, one.shape[-1]) for one in pairs)
    assert [one.turns for one in sliced(fn, args)[1]] == [2, 4, 8, 16]
    check_the_numbers(fn, args)


def test_donations_stay():
    def step(w, x, y):
        return jax.tree.map(lambda a, g: a - 0.1 * g, w, jax.grad(programs.perceptron)(w, x, y))

    for one in sliced(step, programs.PERCEPTRON, donate_argnums=0)[1]:
        memory = one.traced.lower().compile().memory_analysis()
        assert memory.alias_size_in_bytes >= sum(a.nbytes for a in programs.PERCEPTRON[0].values())


def test_nothing_to_slice():
    assert sliced(lambda x: jnp.sort(x, axis=None), (jnp.ones((4, 64)),))[1] == []
