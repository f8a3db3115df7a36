import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.compiler.order_report import least_memory_order
from regal_jax.compiler.xla.zero_cost_ops import pack
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.transforms import permute
from tests.oracles.exhaustive_search import least_peak_memory
from tests.oracles.schedule_cost import plain
from tests.strategies import computation_graphs


@st.composite
def programs(draw):
    """Graphs numbered in program order, half of whose ops are free."""
    graph = draw(computation_graphs(7, max_tensors=10))
    graph = permute(graph, graph.topological_order, np.arange(graph.num_tensors))
    free = np.array(draw(st.lists(st.booleans(), min_size=graph.num_ops, max_size=graph.num_ops)))
    by_free = np.append(free, False)[graph.producer]  # producer -1 looks up the last entry
    return graph.replace(
        size=np.where(by_free, 0, graph.size), workspace=np.where(free, 0, graph.workspace)
    )


@given(programs())
@settings(max_examples=150)
def test_packing_keeps_the_least_peak(graph):
    packed = pack(graph).graph
    assert least_peak_memory(plain(packed), 1) == least_peak_memory(plain(graph), 1)


@given(programs())
@settings(max_examples=25)
def test_the_order_found_is_no_worse_than_the_programs_own_and_above_the_bound(graph):
    options = {"seed": 0, "evaluations": 300, "time_limit": None}
    order, report = least_memory_order(graph, method="depth_first", **options)
    assert sorted(order.tolist()) == list(range(graph.num_ops))
    least = least_peak_memory(plain(graph), 1)
    assert report.lower_bound <= least <= report.peak_after <= report.peak_before
    if report.peak_after == report.peak_before:
        assert order.tolist() == list(range(graph.num_ops))


def test_a_chain_of_views_follows_what_makes_it():
    # 0 waits for nothing; 1 makes 8 bytes; 2 and 3 are views of them; 4 waits for 1 and 3.
    graph = ComputationGraph.create(
        num_ops=5,
        producer=[0, 1, 2, 3],
        size=[0, 8, 0, 0],
        consumers=[[1], [2, 3, 4], [3], [4]],
        workspace=[0, 0, 0, 0, 1],
    )
    packed = pack(graph)
    assert packed.groups == ((0,), (1, 2, 3), (4,))
    assert packed.graph.size.tolist() == [0, 8, 0]
    assert [packed.graph.consumers.row(t).tolist() for t in range(3)] == [[1], [2], [2]]
    assert packed.start == 0
    assert packed.unpacked([1, 2, 0]).tolist() == [0, 1, 2, 3, 4]
