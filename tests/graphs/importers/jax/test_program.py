import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.errors import ImporterError
from regal_jax.graphs.importers.flop_counts import equation_flops
from regal_jax.graphs.importers.jax.program import from_jax
from regal_jax.graphs.importers.roofline import DeviceProfile
from tests.flax_train_steps import TRAIN_STEPS

X = jax.ShapeDtypeStruct((4, 8), jnp.float32)  # 128 bytes
SLOW = DeviceProfile("slow", flops_per_second=1e6, bytes_per_second=1e30)
"""Durations are FLOPs [us]."""


def consumers(graph):
    return [graph.consumers.row(t).tolist() for t in range(graph.num_tensors)]


def test_tensors_of_a_small_function_by_hand():
    def fn(x, w):
        y = x @ w  # 4 x 2
        return jnp.tanh(y) + 1.0, y.T

    graph = from_jax(fn, X, jax.ShapeDtypeStruct((8, 2), jnp.float32), profile=SLOW)
    assert graph.op_kinds == ("dot_general", "tanh", "add", "transpose")
    assert graph.producer.tolist() == [-1, -1, 0, 1, 2, 3]
    assert graph.size.tolist() == [128, 64, 32, 32, 32, 32]
    assert graph.persistent.tolist() == [True, True, False, False, True, True]
    assert consumers(graph) == [[0], [0], [1, 3], [2], [], []]
    assert graph.duration.tolist() == pytest.approx([2 * 4 * 8 * 2, 8, 8, 0])
    assert graph.extra["tensors"]["name"][:3] == ["args[0]", "args[1]", ""]
    assert (graph.name, graph.source) == ("fn", f"jax-{jax.__version__}")


def test_duration_counts_distinct_bytes_on_the_roofline():
    profile = DeviceProfile("bytes", flops_per_second=1e30, bytes_per_second=1e6)
    graph = from_jax(lambda x: x * x, X, profile=profile)
    assert graph.duration.tolist() == pytest.approx([256.0])
    assert graph.inputs.row(0).tolist() == [0]


def test_zero_copy_ops_are_their_input():
    def fn(x):
        y = jnp.sin(x).reshape(8, 4)
        y = jax.lax.optimization_barrier((y[None], x))[0]
        y = jax.lax.stop_gradient(jax.lax.squeeze(y, (0,))).astype(jnp.float32)
        return jax.lax.bitcast_convert_type(jnp.broadcast_to(y, (1, 8, 4)), jnp.int32)

    graph = from_jax(fn, X)
    assert graph.op_kinds == ("sin",)
    assert graph.size.tolist() == [128, 128]
    assert graph.persistent.all()


def test_copies_slices_and_type_changes_are_ops():
    graph = from_jax(lambda x: (jnp.copy(x), x[1:], x.astype(jnp.int8), x.T), X)
    assert sorted(graph.size[graph.producer >= 0].tolist()) == [32, 96, 128, 128]
    assert graph.num_ops == 4


def test_an_output_that_is_an_input_stays_that_tensor():
    graph = from_jax(lambda x, y: (x.reshape(-1), y + 1), X, X, donate_argnums=(0, 1))
    assert graph.producer.tolist() == [-1, -1, 0]
    assert graph.persistent.tolist() == [True, False, True]


def test_donation_of_a_jitted_function_and_of_pytrees():
    jitted = jax.jit(lambda tree, y: (tree["a"] + tree["b"]) * y, donate_argnums=0)
    graph = from_jax(jitted, {"a": X, "b": X}, X)
    assert graph.persistent.tolist() == [False, False, True, False, True]
    graph = from_jax(lambda tree, y: tree["a"] + y, {"a": X, "b": X}, X, donate_argnums=-1)
    assert graph.persistent.tolist() == [True, True, False, True]
    assert graph.extra["tensors"]["name"][:2] == ["args[0]['a']", "args[0]['b']"]
    with pytest.raises(ImporterError, match="out of range"):
        from_jax(jnp.sin, X, donate_argnums=1)


def test_constants_are_parameters_once_and_literals_are_none():
    table = np.arange(8, dtype=np.float32)
    graph = from_jax(jax.jit(lambda x: (x * table + 2.0) * table), X)
    assert graph.size[graph.producer < 0].tolist() == [128, 32]
    assert graph.persistent[:2].all()


def test_unused_outputs_exist_and_dead_code_does_not():
    def fn(x):
        jnp.cos(x)
        return jax.lax.top_k(x, 2)[0]

    graph = from_jax(fn, X)
    assert graph.op_kinds == ("top_k",)
    assert graph.size.tolist() == [128, 32, 32]
    assert consumers(graph)[2] == []
    assert graph.persistent.tolist() == [True, True, False]


def test_unused_arguments_stay():
    graph = from_jax(lambda x, y: x + 1, X, X)
    assert graph.producer.tolist() == [-1, -1, 0]


def test_calls_are_inlined():
    @jax.custom_vjp
    def double(x):
        return x * 2

    double.defvjp(lambda x: (double(x), None), lambda _, g: (g * 2,))
    fn = jax.jit(lambda x: jax.checkpoint(jnp.sin)(jax.jit(double)(jax.nn.relu(x))))
    assert from_jax(fn, X).op_kinds == ("max", "mul", "sin")
    with_gradient = from_jax(jax.grad(lambda x: fn(x).sum()), X)
    assert "jit" not in with_gradient.op_kinds
    assert not any("remat" in k or "custom" in k for k in with_gradient.op_kinds)


def test_scan_is_one_op_with_the_workspace_and_flops_of_its_body():
    def body(carry, x):
        hidden = jnp.outer(x, x)  # two broadcasts or less, then 8 x 8
        return carry + hidden.sum(), jnp.sin(hidden).sum()

    graph = from_jax(lambda x: jax.lax.scan(body, 0.0, x), X, profile=SLOW)
    assert graph.op_kinds == ("scan",)
    assert graph.size.tolist() == [128, 4, 16]
    body_only = from_jax(
        lambda x: body(0.0, x), jax.ShapeDtypeStruct((8,), jnp.float32), profile=SLOW
    )
    assert graph.duration[0] == pytest.approx(4 * body_only.duration.sum())
    assert 2 * 256 <= graph.workspace[0] <= 3 * 256


def test_while_counts_one_iteration_and_cond_its_largest_branch():
    def loop(x):
        return jax.lax.while_loop(lambda y: y[0, 0] < 9, lambda y: jnp.sin(jnp.cos(y)), x)

    graph = from_jax(loop, X, profile=SLOW)
    assert graph.op_kinds == ("while",)
    assert graph.workspace.tolist() == [128]
    assert graph.duration[0] == pytest.approx(2 * 32 + 1)

    def branches(p, x):
        return jax.lax.cond(p, lambda x: x, lambda x: jnp.exp(jnp.sin(jnp.cos(x))), x)

    graph = from_jax(branches, jax.ShapeDtypeStruct((), bool), X, profile=SLOW)
    assert graph.op_kinds[-1] == "cond"
    assert graph.workspace[-1] == 256
    assert graph.duration[-1] == pytest.approx(96)


def test_unknown_primitives_with_programs_inside_are_one_op():
    graph = from_jax(jnp.linalg.solve, jax.ShapeDtypeStruct((4, 4), jnp.float32), X)
    assert "custom_linear_solve" in graph.op_kinds
    assert graph.workspace[graph.op_kinds.index("custom_linear_solve")] > 0


def test_effects_stay_in_order():
    def fn(x):
        jax.debug.print("{}", x[0, 0])
        jax.debug.print("{}", x[1, 1])
        return x + 1

    graph = from_jax(fn, X)
    prints = [i for i, kind in enumerate(graph.op_kinds) if kind.startswith("debug")]
    assert len(prints) == 2
    control = int(np.flatnonzero(graph.size == 0)[0])
    assert graph.producer[control] == prints[0]
    assert graph.consumers.row(control).tolist() == [prints[1]]


@pytest.mark.parametrize(
    ("aval", "size"),
    [
        (jax.ShapeDtypeStruct((3,), jnp.int4), 2),
        (jax.ShapeDtypeStruct((3,), jnp.bfloat16), 6),
        (jax.ShapeDtypeStruct((5,), bool), 5),
        (jax.ShapeDtypeStruct((2,), jnp.complex64), 16),
        (jax.ShapeDtypeStruct((0, 7), jnp.float32), 0),
    ],
)
def test_exact_bytes(aval, size):
    assert from_jax(lambda x: x, aval).size.tolist() == [size]


def test_random_keys_weigh_their_base_array():
    graph = from_jax(lambda key: jax.random.split(key, 3), jax.random.key(0))
    assert graph.size.tolist() == [8, 24]


def test_names_carry_the_scope_and_keywords_their_path():
    def fn(*, x):
        with jax.named_scope("layer"):
            return jnp.sin(x)

    graph = from_jax(fn, x=X, name="net")
    assert (graph.name, graph.op_names) == ("net", ("layer/sin_0",))
    assert graph.extra["tensors"]["name"] == ["kwargs['x']", ""]


@pytest.mark.parametrize("fn", [lambda x: x if x > 0 else -x, lambda x: x + "a", 3])
def test_a_function_that_cannot_be_traced_is_one_clear_line(fn):
    with pytest.raises(ImporterError, match="JAX can't trace this function") as caught:
        from_jax(fn, 1.0)
    assert "\n" not in str(caught.value)


def test_symbolic_shapes_are_refused():
    shape = jax.export.symbolic_shape("batch, 3")
    with pytest.raises(ImporterError, match="symbolic"):
        from_jax(jnp.sin, jax.ShapeDtypeStruct(shape, jnp.float32))


@pytest.mark.parametrize("name", TRAIN_STEPS)
def test_train_steps_import_with_every_argument_byte(name):
    step, args = TRAIN_STEPS[name]()
    graph = from_jax(step, *args, donate_argnums=0)
    leaves = jax.tree.leaves(args)
    arguments = [i for i, n in enumerate(graph.extra["tensors"]["name"]) if n]
    expected = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    assert graph.size[arguments].sum() == expected
    assert len(arguments) == len(leaves)
    assert graph.num_ops > 100
    assert (graph.duration >= 0).all()
    assert "jit" not in graph.op_kinds
    names = graph.extra["tensors"]["name"]
    assert any("['params']" in n and n.endswith("['kernel']") for n in names)
    assert graph.persistent[arguments].sum() == 2  # the batch and its targets


def test_the_mlp_has_its_matmuls_and_their_flops():
    step, args = TRAIN_STEPS["mlp"]()
    graph = from_jax(step, *args, profile=SLOW)
    matmuls = [i for i, kind in enumerate(graph.op_kinds) if kind == "dot_general"]
    layers = [20 * 64, 64 * 64, 64 * 10]
    expected = 2 * 32 * (3 * sum(layers) - layers[0])  # no gradient of the input
    assert graph.duration[matmuls].sum() == pytest.approx(expected)


def test_the_lstm_is_two_scans_with_workspace():
    step, args = TRAIN_STEPS["lstm"]()
    graph = from_jax(step, *args)
    scans = [i for i, kind in enumerate(graph.op_kinds) if kind == "scan"]
    assert len(scans) == 2
    assert (graph.workspace[scans] > 0).all()


def test_flops_of_formulas():
    dims = (((2,), (1,)), ((0,), (0,)))
    flops = functools.partial(equation_flops, params={"dimension_numbers": dims})
    assert flops("dot_general", [(5, 2, 3), (5, 3, 4)], [(5, 2, 4)]) == 2 * 5 * 2 * 3 * 4
    assert equation_flops("reduce_sum", [(4, 8)], [(4,)], {}) == 32
    assert equation_flops("cumsum", [(4, 8)], [(4, 8)], {}) == 32
    assert equation_flops("sort", [(4, 8)], [(4, 8)], {"dimension": 1}) == 32 * 3
    assert equation_flops("fft", [(8,)], [(8,)], {"fft_lengths": (8,)}) == 5 * 8 * 3
    assert equation_flops("transpose", [(4, 8)], [(8, 4)], {}) == 0
    assert equation_flops("exp", [(4, 8)], [(4, 8)], {}) == 32
    assert equation_flops("cholesky", [(2, 6, 6)], [(2, 6, 6)], {}) == 2 * 72


def test_convolution_flops_count_channels_per_group():
    def fn(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=2)

    x = jax.ShapeDtypeStruct((1, 4, 5, 5), jnp.float32)
    w = jax.ShapeDtypeStruct((6, 2, 3, 3), jnp.float32)
    graph = from_jax(fn, x, w, profile=SLOW)
    assert graph.duration.tolist() == pytest.approx([2 * (6 * 3 * 3) * (3 * 3) * 2])
