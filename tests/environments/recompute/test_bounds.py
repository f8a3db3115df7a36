"""The least memory, held against every schedule of tiny graphs."""

from hypothesis import given, settings

from regal_jax.environments.recompute import bounds, checker
from regal_jax.search.orders import rules
from tests.environments.recompute.test_checker import CHAIN
from tests.oracles import recomputation as oracle
from tests.oracles.schedule_cost import plain
from tests.strategies import computation_graphs


@given(computation_graphs(max_ops=4, max_tensors=6))
@settings(max_examples=30)
def test_no_schedule_needs_less(graph):
    assert bounds.least_memory(graph) <= oracle.least_memory(plain(graph))


@given(computation_graphs(max_ops=10))
def test_an_order_needs_as_much_when_each_op_runs_first(graph):
    order = rules.random_order(graph)
    usage = checker.usage(graph, order.tolist())
    need = bounds.working_sets(graph)
    assert all(need[op] <= use for op, use in zip(order, usage[1:], strict=True))


def test_by_hand():
    """Op 1 with the weights, the activations and its workspace; op 4 with all but the batch."""
    assert bounds.working_sets(CHAIN).tolist() == [22, 26, 15, 20, 32]
    assert bounds.least_memory(CHAIN) == 32
