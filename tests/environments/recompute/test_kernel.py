"""The compiled cost of a plan equals the checker's."""

from hypothesis import given
from hypothesis import strategies as st

from regal_jax.environments.recompute import checker, kernel
from regal_jax.environments.recompute.instance import each_once, scratch_of
from regal_jax.native.compilation import jit
from tests.environments.recompute.cases import plans
from tests.oracles import recomputation as oracle
from tests.oracles.schedule_cost import plain


@jit
def _cost(instance, plan, scratch, limit):
    count = kernel.unrolled(instance, plan, scratch)
    peak, row, beyond = kernel.memory(instance, scratch, max(count, 0), limit, -1)
    return count, peak, row, beyond, kernel.total_work(instance, scratch, max(count, 0))


@given(plans(), st.integers(0, 100))
def test_costs_equal_the_checkers(case, limit):
    graph, order, instance, plan = case
    scratch = scratch_of(instance)
    count, peak, row, beyond, work = _cost(instance, plan, scratch, limit)
    if count < 0:  # too many runs
        return
    runs = order[scratch.runs[:count]].tolist()
    assert oracle.is_valid(plain(graph), runs)
    usage = checker.usage(graph, runs)
    assert (peak, row) == (max(usage), usage.index(max(usage)))
    assert work == sum(graph.duration[op] for op in runs)
    assert (beyond > 0) == (max(usage[1:]) > limit)


@given(plans())
def test_the_plan_of_each_op_once_is_the_base_order(case):
    _, order, instance, _ = case
    scratch = scratch_of(instance)
    count, *_ = _cost(instance, each_once(instance), scratch, 0)
    assert order[scratch.runs[:count]].tolist() == order.tolist()
