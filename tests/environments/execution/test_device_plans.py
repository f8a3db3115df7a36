"""Plans of random schedules, walked without running anything: values are where they are read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.environments.execution.device_plans import device_plans
from regal_jax.graphs.importers.jax.flat_program import flat_program
from regal_jax.graphs.importers.jax.program import from_jax
from regal_jax.search.orders.rules import build_schedule, random_order
from tests.graphs.importers.jax.functions import FUNCTIONS


@pytest.fixture(scope="module", params=FUNCTIONS)
def case(request):
    fn, args = FUNCTIONS[request.param]()
    return flat_program(fn, *args), from_jax(fn, *args)


@st.composite
def placements(draw: st.DrawFn):
    """(number of devices, seed of an order, seed of a placement)."""
    return draw(st.integers(1, 4)), draw(st.integers(0, 999)), draw(st.integers(0, 999))


def random_schedule(graph, num_devices, order_seed, placement_seed):
    placement = np.random.default_rng(placement_seed).integers(num_devices, size=graph.num_ops)
    order = random_order(graph, order_seed)
    return build_schedule(graph, order, placement, objective="makespan", num_devices=num_devices)


@given(choice=placements())
def test_every_value_is_there_when_it_is_read_and_gone_in_the_end(case, choice):
    program, graph = case
    schedule = random_schedule(graph, *choice)
    plans = device_plans(program, schedule)
    memory = [set(plan.sources) for plan in plans]
    position = {step.op: (d, step) for d, plan in enumerate(plans) for step in plan.steps}
    sent: set[tuple[int, int]] = set()
    for op in schedule.ops_in_order().tolist():
        device, step = position.pop(op)
        assert device == schedule.placement[op]
        assert {(value, device) for value in step.receives} <= sent
        assert memory[device].isdisjoint(step.receives)
        memory[device].update(step.receives)
        assert memory[device].issuperset(program.ops[op].reads)
        memory[device].update(program.ops[op].writes)
        assert {value for value, _ in step.sends} <= set(program.ops[op].writes)
        assert sent.isdisjoint(step.sends)
        assert device not in {target for _, target in step.sends}
        sent.update(step.sends)
        memory[device].difference_update(step.frees)
    assert not position
    made = {value for op in program.ops for value in op.writes}
    left = [value for values in memory for value in values]
    assert sorted(left) == sorted(made & set(program.bases()))


@given(choice=placements())
def test_devices_keep_the_order_and_receive_what_the_schedule_transfers(case, choice):
    program, graph = case
    schedule = random_schedule(graph, *choice)
    plans = device_plans(program, schedule)
    order = schedule.ops_in_order()
    for device, plan in enumerate(plans):
        own = order[schedule.placement[order] == device]
        assert [step.op for step in plan.steps] == own.tolist()
    transfers = schedule.steps[schedule.steps >= graph.num_ops] - graph.num_ops
    tensor, target = np.divmod(transfers, schedule.num_devices)
    expected = sorted(zip(graph.producer[tensor].tolist(), target.tolist(), strict=True))
    sends = [(step.op, d) for plan in plans for step in plan.steps for _, d in step.sends]
    assert sorted(sends) == expected
