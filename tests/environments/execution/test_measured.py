"""Schedules executed for real: results, order, errors. Devices may be one device several times."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.core import Primitive

from regal_jax.environments.execution.jax_executor import JaxExecutor
from regal_jax.environments.execution.measured import measured, profiled_graph
from regal_jax.errors import ImporterError, OptionError, ScheduleError
from regal_jax.graphs.importers.jax.program import from_jax
from regal_jax.search.orders.rules import build_schedule, program_order, random_order
from tests.cpu_devices import run_on_devices
from tests.graphs.importers.jax.functions import FUNCTIONS, assert_same, data

DEVICES = jax.devices()[:1] * 3


def random_schedule(graph, seed, num_devices=3):
    placement = np.random.default_rng(seed).integers(num_devices, size=graph.num_ops)
    order = random_order(graph, seed)
    return build_schedule(graph, order, placement, objective="makespan", num_devices=num_devices)


def in_turns(graph, num_devices):
    """Program order, op by op on the next device."""
    placement = np.arange(graph.num_ops) % num_devices
    order = program_order(graph)
    return build_schedule(graph, order, placement, objective="makespan", num_devices=num_devices)


@pytest.fixture(scope="module", params=FUNCTIONS)
def case(request):
    fn, args = FUNCTIONS[request.param]()
    return JaxExecutor(fn, args, devices=DEVICES), fn(*args)


@settings(max_examples=12)
@given(seed=st.integers(0, 999), num_devices=st.integers(1, 3))
def test_any_schedule_computes_the_function(case, seed, num_devices):
    executor, expected = case
    execution = executor.prepare(random_schedule(executor.graph, seed, num_devices))()
    assert_same(executor.outputs(execution), expected)


@settings(max_examples=12)
@given(seed=st.integers(0, 999))
def test_each_device_runs_one_op_at_a_time_in_order_after_its_inputs(case, seed):
    executor, _ = case
    graph = executor.graph
    schedule = random_schedule(graph, seed)
    start, finish, _ = executor.prepare(schedule)()
    assert (start >= 0).all()
    assert (finish > start).all()
    for producer, _, consumer in graph.edges:
        assert finish[producer] <= start[consumer]
    order = schedule.ops_in_order()
    for device in range(3):
        own = order[schedule.placement[order] == device]
        assert (finish[own[:-1]] <= start[own[1:]]).all()


def test_a_second_schedule_compiles_nothing(monkeypatch):
    fn, args = FUNCTIONS["mlp_gradient"]()
    executor = JaxExecutor(fn, args, devices=DEVICES)
    first = executor.prepare(random_schedule(executor.graph, 0))
    monkeypatch.setattr(jax, "jit", None)
    second = executor.prepare(random_schedule(executor.graph, 1))
    assert set(map(id, second.programs)) <= set(map(id, first.programs))


@settings(max_examples=10)
@given(seed=st.integers(0, 999))
def test_ordered_effects_keep_their_order_across_devices(seed):
    seen = []

    def fn(x):
        for i in range(4):
            jax.debug.callback(
                lambda value, i=i: seen.append((i, float(value))), x[i], ordered=True
            )
        return x + 1

    executor = JaxExecutor(fn, (jnp.arange(4.0),), devices=DEVICES)
    result = executor.outputs(executor.prepare(random_schedule(executor.graph, seed))())
    assert seen == [(i, float(i)) for i in range(4)]
    assert result.tolist() == [1, 2, 3, 4]


def test_an_op_that_fails_stops_the_others():
    def fail(_):
        raise RuntimeError("broken")

    def fn(x):
        y = jax.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32), x)
        return jnp.sin(jnp.cos(y) + jnp.exp(x))

    executor = JaxExecutor(fn, (1.0,), devices=DEVICES)
    run = executor.prepare(in_turns(executor.graph, 3))
    with pytest.raises(jax.errors.JaxRuntimeError, match="broken"):
        run()


def test_the_target_is_a_time_and_accepts_keywords():
    fn = lambda x, *, y: x @ y  # noqa: E731
    target = measured(fn, data(3, 3), y=data(3, 3), repeats=2, warm_up=0)
    time = target(in_turns(from_jax(fn, data(3, 3), y=data(3, 3)), 1))
    assert isinstance(time, float)
    assert 0 < time < np.inf


def test_a_function_without_ops_takes_no_time():
    fn = lambda x: x.reshape(-1)  # noqa: E731
    assert measured(fn, data(2, 2))(in_turns(from_jax(fn, data(2, 2)), 1)) == 0.0


def test_a_profiled_graph_differs_in_its_durations_only():
    fn, args = FUNCTIONS["branches"]()
    graph, profiled = from_jax(fn, *args), profiled_graph(fn, *args, repeats=2)
    assert np.isfinite(profiled.duration).all()
    assert (profiled.duration > 0).all()
    assert profiled.extra[""]["device_profile"] == f"measured on {DEVICES[0].device_kind}"
    assert profiled.replace(duration=graph.duration, extra=graph.extra) == graph


def test_errors_are_one_clear_line():
    fn, args = FUNCTIONS["branches"]()
    graph, target = from_jax(fn, *args), measured(fn, *args, devices=DEVICES)
    with pytest.raises(OptionError, match=r"4 devices, there are 3.*device_count=4"):
        target(in_turns(graph, 4))
    with pytest.raises(ScheduleError, match=f"1 ops, fn has {graph.num_ops}"):
        target(in_turns(from_jax(jnp.sin, args[0]), 1))
    valid = in_turns(graph, 2)
    with pytest.raises(ScheduleError):
        target(valid.replace(steps=valid.steps[::-1]))
    with pytest.raises(ImporterError, match="JAX can't trace this function"):
        measured(lambda x: x if x > 0 else -x, 1.0)
    with pytest.raises(OptionError, match="got a shape"):
        measured(jnp.sin, jax.ShapeDtypeStruct((3,), jnp.float32))
    for wrong in ({"repeats": 0}, {"warm_up": -1}):
        with pytest.raises(OptionError, match="repeats"):
            measured(fn, *args, **wrong)


def test_an_op_that_cannot_be_compiled_is_named():
    mystery = Primitive("mystery")
    mystery.def_abstract_eval(lambda x: x)
    target = measured(lambda x: jnp.sin(mystery.bind(x)), data(3))
    schedule = in_turns(from_jax(lambda x: jnp.sin(mystery.bind(x)), data(3)), 1)
    with pytest.raises(ImporterError, match="mystery_0: JAX can't compile it by itself") as caught:
        target(schedule)
    assert "\n" not in str(caught.value)


THREE_DEVICES = """
import jax, numpy as np
from regal_jax.environments.execution.jax_executor import JaxExecutor
from regal_jax.environments.execution.measured import measured
from tests.environments.execution.test_measured import in_turns
from tests.graphs.importers.jax.functions import FUNCTIONS, assert_same

assert len(jax.devices()) == 3
fn, args = FUNCTIONS["branches"]()
executor = JaxExecutor(fn, args)
schedule = in_turns(executor.graph, 3)
execution = executor.prepare(schedule)()
assert_same(executor.outputs(execution), fn(*args))
home = {v: d for op, d in zip(executor.program.ops, schedule.placement) for v in op.writes}
assert len(execution.kept) > 1
for value, array in execution.kept.items():
    assert array.devices() == {jax.devices()[home[value]]}
assert 0 < measured(fn, *args, repeats=1)(schedule) < np.inf
print("done")
"""


def test_three_real_devices():
    printed = run_on_devices(THREE_DEVICES, 3)
    assert printed.strip() == "done"
