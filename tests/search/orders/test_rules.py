"""Orders, placements and the schedules they make."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement import checker
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.microbatches import microbatches
from regal_jax.search.orders import rules
from tests.strategies import computation_graphs


def data_graph(num_ops: int, edges: list[tuple[int, int]]) -> ComputationGraph:
    """One tensor of a byte an edge."""
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=[u for u, _ in edges],
        size=[1] * len(edges),
        consumers=[[v] for _, v in edges],
    )


FORK = data_graph(7, [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (4, 6)])
"""    0
      1   2
     3 4   5
       6      """


def test_orders_by_hand():
    order = {name: rule(FORK, 0).tolist() for name, rule in rules.ORDERS.items()}
    assert order["program_order"] == [0, 1, 2, 3, 4, 5, 6]
    assert order["depth_first"] == [0, 1, 3, 4, 6, 2, 5]
    assert order["breadth_first"] == [0, 1, 2, 3, 4, 5, 6]


def test_breadth_first_takes_ops_as_they_become_ready():
    graph = data_graph(5, [(0, 4), (1, 2), (2, 3)])  # sources 0, 1; then 4, 2; then 3
    assert rules.breadth_first(graph).tolist() == [0, 1, 4, 2, 3]
    assert rules.depth_first(graph).tolist() == [0, 4, 1, 2, 3]


def check_valid(graph, order):
    assert order.dtype == np.int32
    assert sorted(order.tolist()) == list(range(graph.num_ops))
    place = np.argsort(order)
    assert np.all(place[graph.edges[:, 0]] < place[graph.edges[:, 2]])


@settings(max_examples=100)
@given(computation_graphs(), st.integers(0, 5), st.sampled_from(sorted(rules.ORDERS)))
def test_every_order_is_valid_and_a_function_of_the_seed(graph, seed, name):
    order = rules.ORDERS[name](graph, seed)
    check_valid(graph, order)
    np.testing.assert_array_equal(order, rules.ORDERS[name](graph, seed))


def test_random_orders_are_all_reached():
    graph = data_graph(4, [(0, 3)])
    orders = {tuple(rules.random_order(graph, seed).tolist()) for seed in range(200)}
    assert len(orders) == 12  # 4! / 2


def test_lpmf_by_hand():
    """Op 1 makes 9 bytes, op 0 makes 5; op 2 turns the 9 into 1."""
    graph = ComputationGraph.create(
        num_ops=4, producer=[0, 1, 2], size=[5, 9, 1], consumers=[[3], [2], [3]]
    )
    assert rules.least_memory_first(graph).tolist() == [0, 1, 2, 3]
    shrunk = graph.replace(size=np.array([5, 4, 1]))
    assert rules.least_memory_first(shrunk).tolist() == [1, 2, 0, 3]


def test_lpmf_counts_an_input_that_an_op_is_the_last_to_read():
    """Op 1 frees 50 bytes of input, which pays for its 10; unless they are persistent."""
    graph = ComputationGraph.create(
        num_ops=3, producer=[0, 1, -1], size=[5, 10, 50], consumers=[[2], [2], [1]]
    )
    assert rules.least_memory_first(graph).tolist() == [1, 0, 2]
    kept = graph.replace(persistent=np.array([False, False, True]))
    assert rules.least_memory_first(kept).tolist() == [0, 1, 2]


def naive_least_memory_first(graph):
    """What is in memory after each candidate, from the definition; one device."""
    done: list[int] = []
    before = {
        op: set(graph.edges[graph.edges[:, 2] == op, 0].tolist()) for op in range(graph.num_ops)
    }

    def memory_after(ops):
        total = 0
        for tensor, size in enumerate(graph.size.tolist()):
            readers = set(graph.consumers.row(tensor).tolist())
            producer = int(graph.producer[tensor])
            exists = producer in ops if producer >= 0 else bool(readers)
            if exists and (graph.persistent[tensor] or readers - set(ops)):
                total += size
        return total

    while len(done) < graph.num_ops:
        ready = [op for op in before if op not in done and before[op] <= set(done)]
        done.append(min(ready, key=lambda op: (memory_after([*done, op]), op)))
    return done


@settings(max_examples=150)
@given(computation_graphs(max_ops=8))
def test_lpmf_is_the_greedy_of_its_definition(graph):
    order = rules.least_memory_first(graph).tolist()
    assert order == naive_least_memory_first(graph)


def test_greedily_balanced_by_hand():
    weight = np.array([3.0, 1.0, 1.0, 4.0])
    place = rules.greedily_balanced(FORK.replace(), np.array([0, 1, 2, 3]), weight, 2)
    assert place[:4].tolist() == [0, 1, 1, 1]


def test_contiguous_cuts_by_hand():
    order, weight = np.array([2, 0, 1, 3]), np.array([1.0, 1.0, 1.0, 1.0])
    half = rules.contiguous(order, weight, [0.5])
    assert half.tolist() == [0, 1, 0, 1]
    thirds = rules.contiguous(order, weight, [0.25, 0.75])
    assert thirds.tolist() == [1, 1, 0, 2]
    assert rules.contiguous(order, np.zeros(4), [0.5]).tolist() == [0, 0, 0, 0]


def placements(graph, order, num_devices):
    weight = rules.op_weights(graph, "peak_memory").astype(float)
    shares = np.arange(1, num_devices) / num_devices
    return {
        "single": rules.single_device(graph),
        "balanced": rules.greedily_balanced(graph, order, weight, num_devices),
        "components": rules.whole_components(graph, weight, num_devices),
        "contiguous": rules.contiguous(order, weight, shares),
    }


@settings(max_examples=100)
@given(
    computation_graphs(),
    st.integers(1, 4),
    st.sampled_from(sorted(rules.ORDERS)),
    st.booleans(),
)
def test_placements_are_in_range_and_their_schedules_valid(graph, num_devices, name, eager):
    order = rules.ORDERS[name](graph, 0)
    for place in placements(graph, order, num_devices).values():
        assert place.dtype == np.int32
        assert place.shape == (graph.num_ops,)
        assert np.all((place >= 0) & (place < num_devices))
        schedule = rules.build_schedule(
            graph,
            order,
            place,
            objective="peak_memory",
            num_devices=num_devices,
            eager=eager,
        )
        checker.evaluate(graph, schedule)
        np.testing.assert_array_equal(schedule.ops_in_order(), order)
        np.testing.assert_array_equal(schedule.placement, place)


@settings(max_examples=60)
@given(computation_graphs(), st.integers(1, 4))
def test_contiguous_is_a_pipeline(graph, num_devices):
    order = rules.depth_first(graph)
    place = placements(graph, order, num_devices)["contiguous"]
    assert np.all(np.diff(place[order]) >= 0)


def test_eager_and_lazy_transfers_by_hand():
    """0 -> 1 on the same device, then 0 -> 2 on the other."""
    graph = data_graph(3, [(0, 1), (0, 2)])
    steps = {
        eager: rules.build_schedule(
            graph,
            np.array([0, 1, 2]),
            np.array([0, 0, 1]),
            objective="peak_memory",
            num_devices=2,
            eager=eager,
        ).steps.tolist()
        for eager in (False, True)
    }
    transfer = 3 + 1 * 2 + 1
    assert steps == {False: [0, 1, transfer, 2], True: [0, transfer, 1, 2]}


@settings(max_examples=60)
@given(computation_graphs(max_ops=5), st.integers(1, 3), st.integers(1, 3))
def test_whole_components_keep_components_whole(graph, replicas, num_devices):
    many = microbatches(graph, replicas)
    weight = rules.op_weights(many, "peak_memory").astype(float)
    place = rules.whole_components(many, weight, num_devices)
    assert np.all(place[many.edges[:, 0]] == place[many.edges[:, 2]])


def test_whole_components_balance_replicas():
    many = microbatches(FORK, 4)
    weight = rules.op_weights(many, "peak_memory").astype(float)
    place = rules.whole_components(many, weight, 2).reshape(4, 7)
    assert np.all(place == place[:, :1])
    assert sorted(place[:, 0].tolist()) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("objective", "expected"), [("makespan", [1, 1, 1]), ("peak_memory", [100 + 40, 0, 8])]
)
def test_op_weights(objective, expected):
    graph = ComputationGraph.create(
        num_ops=3, producer=[-1, 0, 2], size=[100, 40, 8], consumers=[[0], [1, 2], []]
    )
    assert rules.op_weights(graph, objective).tolist() == expected


def test_a_graph_without_ops():
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    for rule in rules.ORDERS.values():
        assert rule(empty, 0).tolist() == []
    for place in placements(empty, np.zeros(0, np.int32), 2).values():
        assert place.tolist() == []
