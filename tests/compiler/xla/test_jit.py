"""``rj.jit``: the same numbers, less memory, and JAX as it was."""

import json
import threading
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regal_jax as rj
from regal_jax.compiler.xla import decisions
from regal_jax.compiler.xla.jit import RescheduleWarning
from regal_jax.compiler.xla.reschedule import DEFAULT, MEMORY, memory_of
from regal_jax.errors import CompilerError, OptionError
from regal_jax.studies.compiler.side_by_side import same_bits
from tests.compiler import programs
from tests.cpu_devices import run_on_devices

QUICK = {"methods": ("lpmf", "xla_list"), "cache": None}
ARGUMENTS = programs.arrays((programs.WEIGHTS, programs.ROWS))


def test_the_same_bits_with_less_memory():
    fast, plain = rj.jit(programs.branches, **QUICK), jax.jit(programs.branches)
    assert same_bits(fast(*ARGUMENTS), plain(*ARGUMENTS))
    (report,) = fast.reports
    best = min(report.memory[DEFAULT].total, report.memory[MEMORY].total)
    assert report.memory[report.chosen].temporaries < 0.5 * report.memory[DEFAULT].temporaries
    assert report.ratio == report.memory[report.chosen].total / best < 1
    assert memory_of(plain.lower(*ARGUMENTS).compile()) == report.memory[DEFAULT]


def test_a_train_step_with_a_loop_and_donated_state():
    def step(state, x):
        loss, slopes = jax.value_and_grad(lambda ws: programs.looped(ws, x).sum())(state)
        return [w - 0.1 * g for w, g in zip(state, slopes, strict=True)], loss

    fast = rj.jit(step, donate_argnums=0, **QUICK)
    state, x = ARGUMENTS
    copied = jax.tree.map(jnp.copy, state)
    donated = jax.tree.map(jnp.copy, state)
    assert same_bits(fast(donated, x), jax.jit(step, donate_argnums=0)(copied, x))
    (report,) = fast.reports
    assert report.ratio <= 1
    assert report.memory[DEFAULT].donated > 0
    in_place = report.memory[report.chosen].donated > 0
    assert all(array.is_deleted() == in_place for array in donated)


def test_a_donation_that_is_worth_more_than_an_order_is_kept():
    def step(state, weights, x):
        return state + programs.branches(weights, x)[0]

    state = jnp.ones((2048, 2048))
    fast = rj.jit(step, donate_argnums=0, **QUICK)
    expected = jax.jit(step)(state, *ARGUMENTS)
    assert same_bits(fast(state, *ARGUMENTS), expected)
    assert state.is_deleted()
    assert fast.reports[0].chosen in (DEFAULT, MEMORY)


def test_a_compiled_stage_is_jaxs():
    lowered = rj.reschedule(jax.jit(programs.branches), **QUICK).lower(*ARGUMENTS)
    compiled = lowered.compile()
    assert isinstance(compiled, jax.stages.Compiled)
    assert memory_of(compiled) == lowered.report.memory[lowered.report.chosen]
    assert "stablehlo" in lowered.as_text()


def test_every_kind_of_call_compiles_once():
    @partial(rj.jit, static_argnames="power", **QUICK)
    def function(x, y=2.0, *, power=1):
        return x * y**power

    x = jnp.arange(3.0)
    for _ in range(2):
        assert function(x).tolist() == [0, 2, 4]
        assert function(x, 3.0).tolist() == [0, 3, 6]
        assert function(x, y=3.0, power=2).tolist() == [0, 9, 18]
        assert function(x.astype(jnp.int32), 3).tolist() == [0, 3, 6]
        assert function(np.arange(3.0)).tolist() == [0, 2, 4]
    assert len(function.reports) == 5 - 1  # an array of numpy is like one of JAX


def test_positional_static_arguments_and_weak_types_follow_jax():
    def function(x, times, scale):
        return x * scale if times else x

    fast = rj.jit(function, static_argnums=(1,), **QUICK)
    plain = jax.jit(function, static_argnums=(1,))
    half = jnp.ones(3, jnp.bfloat16)
    for scale in (2.0, jnp.float32(2.0)):
        for times in (0, 1):
            assert fast(half, times, scale).dtype == plain(half, times, scale).dtype


def test_methods_can_be_decorated():
    class Scale:
        factor = 3.0

        @partial(rj.jit, static_argnums=0, **QUICK)
        def apply(self, x):
            return self.factor * x

    assert Scale().apply(jnp.arange(2.0)).tolist() == [0, 3]
    assert isinstance(Scale.apply, type(rj.jit(jnp.sin, **QUICK)))


TWO_DEVICES = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import regal_jax as rj
from regal_jax.studies.compiler.side_by_side import same_bits
from tests.compiler import programs
mesh = Mesh(np.array(jax.devices()), ("rows",))
weights, x = programs.arrays((programs.WEIGHTS, programs.ROWS))
x = jax.device_put(x, NamedSharding(mesh, PartitionSpec("rows")))
fast = rj.jit(programs.branches, methods=("lpmf",), cache=None)
assert same_bits(fast(weights, x), jax.jit(programs.branches)(weights, x))
print(len(jax.devices()), fast.reports[0].ratio)
"""


def test_sharded_programs():
    printed = run_on_devices(TWO_DEVICES, 2)
    devices, ratio = printed.split()
    assert devices == "2"
    assert float(ratio) < 0.9


def test_inside_other_transformations_it_is_the_function():
    fast = rj.jit(lambda x: jnp.sin(x).sum(), **QUICK)
    x = jnp.arange(4.0)
    np.testing.assert_array_equal(jax.grad(fast)(x), jnp.cos(x))
    assert jax.vmap(fast)(x[None]).shape == (1,)
    assert jax.jit(fast)(x) == fast(x)


def test_a_method_without_a_policy_for_one_device_is_named():
    fast = rj.jit(programs.branches, methods=("gas",), cache=None)
    with pytest.raises(OptionError, match="no gas policy is shipped for peak_memory"):
        fast(*ARGUMENTS)


def test_threads_share_one_compilation():
    fast, results = rj.jit(programs.branches, **QUICK), []
    threads = [threading.Thread(target=lambda: results.append(fast(*ARGUMENTS))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fast.reports) == 1
    assert same_bits(results[0], results[1])
    assert same_bits(results[0], results[2])


def test_decisions_are_kept_on_disk(tmp_path):
    options = {**QUICK, "cache": tmp_path}
    first, second = rj.jit(programs.branches, **options), rj.jit(programs.branches, **options)
    expected = first(*ARGUMENTS)
    (file,) = tmp_path.glob("*.json")
    assert json.loads(file.read_text())["format"] == "regal-order/3"
    assert same_bits(second(*ARGUMENTS), expected)
    assert (first.reports[0].cached, second.reports[0].cached) == (False, True)
    assert second.reports[0].chosen == first.reports[0].chosen


DAMAGES = {
    **{text: lambda _, text=text: text for text in ("", "{", "[]", "5", "null", "[" * 100_000)},
    "format alone": lambda document: json.dumps({"format": document["format"]}),
    "another format": lambda document: json.dumps(document | {"format": "regal-order/1"}),
    "another key": lambda document: json.dumps(document | {"key": "0" * 64}),
    **{
        f"{field} {value}": lambda document, changed={field: value}: json.dumps(
            document | {"content": document["content"] | changed}
        )
        for field, value in [
            *(("order", value) for value in ([1, 2], 5, {"main": None}, {})),
            *(("name", value) for value in ("xla_default", "best_ever", 3)),
            *(("memory", value) for value in ({}, {"lpmf": [1, 1, 0]}, None)),
        ]
    },
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=[name[:20] for name in DAMAGES])
def test_a_damaged_decision_is_made_again(tmp_path, damage):
    options = {**QUICK, "cache": tmp_path}
    rj.jit(programs.branches, **options)(*ARGUMENTS)
    (file,) = tmp_path.glob("*.json")
    file.write_text(damage(json.loads(file.read_text())))
    again = rj.jit(programs.branches, **options)
    again(*ARGUMENTS)
    assert not again.reports[0].cached
    assert json.loads(file.read_text())["content"]["name"] == again.reports[0].chosen


def test_a_decision_of_another_program_is_made_again(tmp_path):
    options = {**QUICK, "cache": tmp_path}
    rj.jit(programs.branches, **options)(*ARGUMENTS)
    (file,) = tmp_path.glob("*.json")
    decision = decisions.load(tmp_path, file.stem)
    (entry,) = decision.order
    decisions.save(
        tmp_path, file.stem, decision._replace(order={entry: decision.order[entry][:-1]})
    )
    again = rj.jit(programs.branches, **options)
    assert same_bits(again(*ARGUMENTS), jax.jit(programs.branches)(*ARGUMENTS))
    assert not again.reports[0].cached


def test_an_unwritable_cache_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    fast = rj.jit(programs.branches, **{**QUICK, "cache": tmp_path / "file" / "orders"})
    assert fast(*ARGUMENTS)[0].shape == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ("nothing",)}, "nothing"),
        ({"top_k": -1}, "top_k must be at least 0"),
        ({"time_limit": 0}, "time_limit must be positive"),
        ({"evaluations": 0}, "evaluations must be at least 1"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(OptionError, match=message):
        rj.jit(lambda x: x, **options)


def test_a_plain_function_is_not_rescheduled():
    with pytest.raises(OptionError, match=r"takes a jitted function, got function: use rj\.jit"):
        rj.reschedule(lambda x: x)


def test_side_effects_are_refused(capfd):
    def noisy(x):
        jax.debug.print("{}", x)
        return x

    with pytest.raises(CompilerError, match=r"rj\.jit of noisy: .* its side effects \(Debug\)"):
        rj.jit(noisy, strict=True)(1.0)
    fast = rj.jit(noisy)
    with pytest.warns(RescheduleWarning, match=r"side effects \(Debug\); it runs as jax\.jit"):
        assert fast(1.0) == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fast(1.0) == 1.0
    assert capfd.readouterr().out == "1.0\n1.0\n"
    assert fast.reports == []


def test_other_platforms_are_refused(monkeypatch):
    monkeypatch.setattr("regal_jax.compiler.xla.reschedule.PLATFORM", "tpu")
    refused = "rescheduled on tpu only, this is for cpu"
    with pytest.raises(CompilerError, match=refused):
        rj.jit(programs.branches, strict=True, **QUICK)(*ARGUMENTS)
    fast = rj.jit(programs.branches, **QUICK)
    with pytest.warns(RescheduleWarning, match=refused):
        values = fast(*ARGUMENTS)
    assert same_bits(values, jax.jit(programs.branches)(*ARGUMENTS))
    with pytest.warns(RescheduleWarning, match=refused):
        compiled = rj.jit(programs.branches, **QUICK).lower(*ARGUMENTS).compile()
    assert same_bits(compiled(*ARGUMENTS), values)


def test_an_error_in_the_search_leaves_jax_as_it_was(monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    fast = rj.jit(programs.branches, **QUICK)
    with monkeypatch.context() as patch:
        patch.setattr("regal_jax.compiler.xla.reschedule.candidates", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fast(*ARGUMENTS)
    assert same_bits(fast(*ARGUMENTS), jax.jit(programs.branches)(*ARGUMENTS))
