"""``rj.jit`` does what ``jax.jit`` does, in every context; cases follow JAX's own tests of jit."""

import contextlib
import copy
import gc
import inspect
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regal_jax as rj
from regal_jax.compiler.xla.jit import RescheduleWarning

QUICK = {"methods": ("lpmf",), "cache": None}


def both(function, **options):
    return rj.jit(function, **QUICK, **options), jax.jit(function, **options)


def outcome(call):
    """(type of the exception, values, dtypes, weak types)."""
    try:
        leaves = jax.tree.leaves(call())
    except Exception as error:
        return type(error), (), (), ()
    return (
        None,
        [np.asarray(leaf).tobytes() for leaf in leaves],
        [np.asarray(leaf).dtype for leaf in leaves],
        [getattr(leaf, "weak_type", None) for leaf in leaves],
    )


def scaled(n, x):
    return x * n


@pytest.mark.parametrize("first", [1, 1.0, True, np.int32(1), np.float32(1)])
def test_static_values_that_are_equal_are_not_the_same(first):
    fast, plain = both(scaled, static_argnums=0)
    x = jnp.arange(3)
    for n in (first, 1, 1.0, True, np.int32(1), np.float32(1), 0, -0.0, 0.0):
        assert outcome(lambda n=n: fast(n, x)) == outcome(lambda n=n: plain(n, x))


def test_static_values_without_a_hash_raise_what_jax_raises():
    fast, plain = both(scaled, static_argnums=0)
    for function in (fast, plain):
        with pytest.raises(ValueError, match="Non-hashable static arguments"):
            function([1], jnp.arange(3))


def test_a_function_that_calls_itself_while_it_is_traced():
    def fact(n, y):
        return n * fast(n - 1, 1.0) * y if n else jnp.float32(1.0)

    fast = rj.jit(fact, static_argnums=0, **QUICK)
    results = []
    thread = threading.Thread(target=lambda: results.append(fast(5, 2.0)), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RescheduleWarning)
        thread.start()
        thread.join(60)
    assert not thread.is_alive(), "it waits for itself"
    assert results == [240.0]


def fresh(x):
    return jax.random.normal(jax.random.key(0), (3,)) + x, jnp.ones(3, jnp.int32) * x


def mixed(x):
    return x + jnp.ones((2, 3), jnp.float32), jnp.log(x - 1), x @ x


CONTEXTS = {
    "nothing": contextlib.nullcontext,
    "enable_x64": lambda: jax.enable_x64(True),
    "matmul": lambda: jax.default_matmul_precision("bfloat16"),
    "dtype_promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "rank_promotion": lambda: jax.numpy_rank_promotion("raise"),
    "disable_jit": jax.disable_jit,
    "debug_nans": lambda: jax.debug_nans(True),
    "debug_infs": lambda: jax.debug_infs(True),
    "partitionable": lambda: jax.threefry_partitionable(False),
    "prng": lambda: jax.default_prng_impl("rbg"),
    "device": lambda: jax.default_device(jax.devices("cpu")[0]),
    "seed_offset": lambda: configured("jax_random_seed_offset", 3),
}


@contextlib.contextmanager
def configured(name, value):
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


@pytest.mark.parametrize("function", [fresh, mixed])
def test_every_context_has_programs_of_its_own(function):
    """One jitted function goes through all contexts, twice, so that programs could be mixed up."""
    fast, plain = both(function)
    x = jnp.arange(3.0)
    for name in [*CONTEXTS] * 2:
        with CONTEXTS[name]():
            assert outcome(lambda: fast(x)) == outcome(lambda: plain(x)), name


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda f, x: jax.grad(f)(x), lambda x: jnp.cos(x)),
        (lambda f, x: jax.vmap(f)(x[None])[0], lambda x: jnp.sin(x).sum()),
        (lambda f, x: jax.jit(f)(x), lambda x: jnp.sin(x).sum()),
        (lambda f, x: jax.jit(lambda y: f(3.0) + y)(0.0), lambda x: jnp.sin(3.0)),
    ],
)
def test_inside_a_transformation_it_says_once_that_it_does_nothing(transform, expected):
    fast, x = rj.jit(lambda x: jnp.sin(x).sum(), **QUICK), jnp.arange(4.0)
    with pytest.warns(RescheduleWarning, match=r"put rj\.jit outermost, as in rj\.jit\(jax\.grad"):
        found = transform(fast, x)
    np.testing.assert_allclose(found, expected(x), rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transform(fast, x)
    assert fast.reports == []


def test_what_is_not_about_the_order_is_the_jitted_functions():
    def documented(x, *, y=1.0):
        """Twice."""
        return {"twice": 2 * x * y}

    fast, plain = both(documented)
    x = jnp.arange(3.0)
    assert (fast.__name__, fast.__doc__) == (plain.__name__, plain.__doc__)
    assert fast.__wrapped__ is plain.__wrapped__ is documented
    assert inspect.signature(fast) == inspect.signature(documented)
    assert "documented" in repr(fast)
    assert fast.eval_shape(x) == plain.eval_shape(x)
    assert str(fast.trace(x).jaxpr) == str(plain.trace(x).jaxpr)
    assert jax.eval_shape(fast, x) == jax.eval_shape(plain, x)
    fast(x)
    assert fast._cache_size() >= 1
    fast.clear_cache()
    assert fast._cache_size() == 0
    assert fast(x)["twice"].tolist() == [0, 2, 4]
    with pytest.raises(AttributeError, match="no_such"):
        _ = fast.no_such


def test_the_lowered_stage_is_jaxs():
    fast, plain = both(lambda x, unused: x + 1, donate_argnums=0)
    arguments = jnp.arange(3.0), jnp.arange(5)
    ours, theirs = fast.lower(*arguments), plain.lower(*arguments)
    assert ours.args_info == theirs.args_info
    assert ours.donate_argnums == theirs.donate_argnums == (0,)
    assert ours.out_info == theirs.out_info
    assert ours.as_text(debug_info=True)
    assert str(ours.compiler_ir()) == str(theirs.compiler_ir())
    assert ours.cost_analysis() == theirs.cost_analysis()
    compiled = [ours.compile(), ours.compile({"xla_backend_optimization_level": 0}), ours.compile()]
    for one in compiled:
        assert one(jnp.arange(3.0), arguments[1]).tolist() == [1, 2, 3]
    with pytest.raises(Exception, match="no_such_option"):
        ours.compile({"no_such_option": 1})


def module_level(x):
    return x + 1


def test_copies():
    fast = rj.jit(module_level, **QUICK)
    for other in (copy.copy(fast), copy.deepcopy(fast)):
        assert other(1) == fast(1) == 2
        assert other.reports is not fast.reports


def test_donation_by_name_and_in_a_dictionary():
    def update(state, *, step):
        return {name: value - step for name, value in state.items()}

    fast = rj.jit(update, donate_argnames="state", **QUICK)
    state = {"a": jnp.ones(3), "b": jnp.zeros(2)}
    kept = fast({name: value + 0 for name, value in state.items()}, step=1.0)
    assert jax.tree.map(lambda leaf: leaf.tolist(), kept) == {"a": [0, 0, 0], "b": [-1, -1]}


def test_bad_input_has_jaxs_message():
    fast, plain = both(lambda x: x)
    for value in ("text", object(), 2**400):
        errors = []
        for function in (fast, plain):
            with pytest.raises(Exception) as caught:  # noqa: PT011
                function(value)
            errors.append((caught.type, str(caught.value).splitlines()[0]))
        assert errors[0] == errors[1]


def test_programs_go_with_their_traces():
    """A function that is gone keeps no program: nothing refers to its trace."""
    fast = rj.jit(lambda x: x + 1, **QUICK)
    fast(1.0)
    assert len(fast._programs) == 1
    jax.clear_caches()
    gc.collect()
    fast(1.0)
    assert len(fast._programs) == 1
