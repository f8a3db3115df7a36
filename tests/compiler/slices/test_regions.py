"""Which part of a program is run in slices."""

import jax
import jax.numpy as jnp
import pytest

from regal_jax.compiler.barriers.emission import program_of
from regal_jax.compiler.slices.regions import regions_of
from tests.compiler.slices import programs
from tests.compiler.slices.programs import best_place, best_region


def names(program, ops):
    return sorted(program.ops[op].steps[-1].equation.primitive.name for op in ops)


def region_of(fn, *args):
    program = program_of(jax.jit(fn).trace(*args))
    return program, best_region(program)


def test_a_batch_is_sliced_from_the_loss_to_the_gradients():
    program, region = region_of(jax.value_and_grad(programs.perceptron), *programs.PERCEPTRON)
    assert region.divisor == programs.BATCH
    assert sorted(region.combined.values()) == ["add"] * 4  # the loss, two weights and a bias
    assert not region.stacked
    assert names(program, region.own).count("dot_general") == 5
    assert "dot_general" not in names(program, region.after)


def test_gradients_of_shared_weights_are_added_up_in_each_slice():
    """So that what all slices add to is one array, not one for each use."""
    program, region = region_of(jax.grad(programs.unrolled), *programs.RECURRENT)
    weights = programs.RECURRENT[0]
    sizes = [program.avals[value].size for value in region.combined]
    assert sorted(sizes) == sorted([weights["in"].size, weights["out"].size])
    assert "add_any" not in names(program, region.after)


def test_what_is_added_at_places_is_added_up_in_each_slice():
    program, region = region_of(jax.grad(programs.looked_up), *programs.LOOKED_UP)
    assert region.divisor == programs.BATCH
    sizes = [program.avals[value].size for value in region.combined]
    assert sorted(sizes) == sorted(leaf.size for leaf in programs.LOOKED_UP[0].values())


def test_turns_of_a_loop_are_shared_out():
    _, region = region_of(jax.grad(programs.mapped, has_aux=True), *programs.MAPPED)
    assert region.divisor == 8
    assert sorted(region.combined.values()) == ["add"] * 3  # two weights and a count
    assert not region.stacked


def test_turns_come_before_other_dimensions_of_a_loop():
    _, region = region_of(jax.grad(programs.in_chunks), *programs.IN_CHUNKS)
    loops = [one.own for one in region.ops.values() if one.own.body]
    assert [one.body.of_turns for one in loops] == [True, True]


def test_a_region_may_be_in_the_body_of_a_loop():
    program, region = region_of(programs.accumulated, *programs.ACCUMULATED)
    assert region is None
    place = best_place(program)
    (loop,) = place.loops
    assert program.ops[loop.number].steps[-1].equation.primitive.name == "scan"
    assert loop.scan.length == 3
    assert place.region.divisor == programs.BATCH


def test_a_region_of_the_program_comes_before_a_smaller_one_of_a_body():
    program, region = region_of(jax.grad(programs.layers, has_aux=True), *programs.LAYERS)
    place = best_place(program)
    assert (place.loops, place.region.own, place.region.inside) == ((), region.own, region.inside)


@pytest.mark.parametrize(("rows", "is_part"), [(8, True), (programs.BATCH, True), (1000, False)])
def test_sums_at_places_that_are_larger_than_what_is_added_stay_whole(rows, is_part):
    table = programs.of(rows, programs.HIDDEN)
    _, region = region_of(programs.added_at, table, *programs.ADDED_AT[1:])
    assert ("add" in region.combined.values(), not region.stacked) == (is_part, is_part)
    assert region.divisor == (programs.BATCH if is_part else programs.HIDDEN)


def test_features_are_sliced_where_a_batch_is_normalised():
    """By its mean and deviation, which are of all of it."""
    program, region = region_of(programs.normalised, *programs.NORMALISED)
    assert region.divisor == programs.HIDDEN
    assert names(program, region.own).count("dot_general") == 2
    assert list(region.combined.values()) == ["add"]  # what the second product adds up
    assert "sin" in names(program, region.after)


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (lambda x: jnp.sort(x, axis=None), (jnp.ones((4, 64)),)),
        (lambda x: x, (jnp.ones(8),)),
        (lambda x: jnp.tanh(x) * 2, (jnp.ones((8, 8)),)),
        (lambda x, y: x @ y, (jnp.ones((7, 3)), jnp.ones((3, 5)))),
    ],
    ids=["sorted", "nothing", "cheap ops alone", "no divisor"],
)
def test_no_region(fn, args):
    assert region_of(fn, *args)[1] is None


def test_a_key_that_a_loop_carries_out_keeps_it_whole():
    def fn(w, x, key):
        def turn(carry, w):
            x, key = carry
            key, own = jax.random.split(key)
            return (jnp.tanh(x @ w) + jax.random.normal(own, x.shape), key), None

        (x, key), _ = jax.lax.scan(turn, (x, key), w)
        return x.sum(), key

    args = jnp.ones((6, 32, 32)), jnp.ones((64, 32)), jax.random.key(0)
    grad = jax.value_and_grad(fn, has_aux=True)
    assert region_of(grad, *args)[1] is None
    assert region_of(lambda *args: grad(*args)[0][0], *args)[1] is not None


def test_what_a_region_reads_is_there_before_it():
    program, region = region_of(jax.grad(programs.weighted), *programs.WEIGHTED)
    made = {value for op in region.own | region.after for value in program.ops[op].writes}
    assert made.isdisjoint(region.given)
    for op in range(len(program.ops)):
        if op not in region.own | region.after:
            assert made.isdisjoint(program.ops[op].reads)


def test_slices_divide_what_a_loop_s_body_makes_of_an_axis():
    def grouped(x, w):
        return jnp.sin(x.reshape(4, 4, -1) @ w).reshape(x.shape), x.sum(0)

    fn = jax.grad(lambda w, x: jax.lax.scan(grouped, x, w)[0].sum())
    _, region = region_of(fn, jnp.ones((6, 64, 64)), jnp.ones((16, 64)))
    assert region.divisor == 4


def test_labels_that_count_on_tie_no_columns_to_rows():
    """What compares all with all is sliced along its rows, though both have the same labels."""
    program = program_of(jax.jit(jax.grad(programs.labelled)).trace(*programs.CONTRASTED))
    squares = {n for n, aval in enumerate(program.avals) if aval.shape == (8 * programs.BATCH,) * 2}
    sliced = [
        {value for value, axis in pairs if axis in (0, 1)} & squares
        for pairs in (
            [pair for one in region.ops.values() for pair in one.made]
            for region in regions_of(program, again=True)
        )
    ]
    assert max(map(len, sliced)) > 0.8 * len(squares)
