"""Replicas found in graphs, and placements that keep them apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement import checker
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.microbatches import microbatches
from regal_jax.graphs.rewrites.transforms import permute
from regal_jax.search.orders import rules
from regal_jax.search.placements import replicas
from tests.strategies import computation_graphs


class Builder:
    """A graph, op by op."""

    def __init__(self):
        self.tensors, self.ops = [], []

    def given(self, size, role):
        persistent = role != "input"
        return self._tensor(-1, size, role, persistent)

    def op(self, kind, phase, inputs, sizes, roles=("",), duration=10.0):
        op = len(self.ops)
        self.ops.append((kind, phase, duration))
        for tensor in inputs:
            self.tensors[tensor][4].append(op)
        return [
            self._tensor(op, size, role, role == "gradient")
            for size, role in zip(sizes, roles, strict=True)
        ]

    def _tensor(self, producer, size, role, persistent):
        self.tensors.append((producer, size, role, persistent, []))
        return len(self.tensors) - 1

    def graph(self):
        producer, size, role, persistent, consumers = zip(*self.tensors, strict=True)
        kinds, phase, duration = zip(*self.ops, strict=True)
        return ComputationGraph.create(
            num_ops=len(kinds),
            producer=producer,
            size=size,
            persistent=persistent,
            consumers=consumers,
            duration=duration,
            op_kinds=kinds,
            extra={"ops": {"phase": list(phase)}, "tensors": {"role": list(role)}},
        )


def training_step(num_layers=5, width=1024, *, with_state=False):
    """Layers of equal size, two projections of the same input in each; SGD; op names by index.

    ``with_state``: each layer writes a statistic in place.
    """
    build, weights, saved = Builder(), [], []
    value = build.given(width, "input")
    for _ in range(num_layers):
        pair = [build.given(width * 4, "parameter") for _ in range(2)]
        sides = [build.op("dot", "forward", [value, w], [width])[0] for w in pair]
        saved.append((value, *sides))
        weights.append(pair)
        state = [build.given(64, "state")] if with_state else []
        value, *_ = build.op("mul", "forward", [*sides, *state], [width, 0], ["", ""])
    (slope,) = build.op("loss", "backward", [value], [width])
    for (read, *sides), pair in zip(saved[::-1], weights[::-1], strict=True):
        slopes = [build.op("mul_backward", "backward", [slope, s], [width])[0] for s in sides]
        for side, weight in zip(slopes, pair, strict=True):
            inputs = [side, read]
            (gradient,) = build.op("dot_t", "backward", inputs, [width * 4], ["gradient"], 5.0)
            build.op("sub_", "update", [gradient, weight], [0], duration=1.0)
        (slope,) = build.op("dot_sum", "backward", [*slopes, *pair], [width])
    graph = build.graph()
    return graph.replace(op_names=tuple(f"o{op}" for op in range(graph.num_ops)))


def replica_in_name(graph):
    """int[O]: what the names of microbatches say; -1 without, and for accumulation."""
    added = [name.startswith("accumulate") for name in graph.op_names]
    number = [name.partition("@")[2] for name in graph.op_names]
    return np.array([int(n) if n and not a else -1 for n, a in zip(number, added, strict=True)])


def check_same_up_to_renaming(found, expected):
    assert len({*zip(found.tolist(), expected.tolist(), strict=True)}) == len({*expected.tolist()})
    np.testing.assert_array_equal(found < 0, expected < 0)


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_microbatches_of_a_training_step(count):
    """Gradients are accumulated and parameters updated: these ops are shared."""
    graph = microbatches(training_step(), count)
    expected = replica_in_name(graph)
    assert np.sum(expected < 0) == 10 * (count - 1) + 10
    np.testing.assert_array_equal(replicas.find_replicas(graph), expected)


def test_microbatches_that_write_the_same_state_in_place():
    """Control tensors of size 0 lead from each replica to the next."""
    graph = microbatches(training_step(with_state=True), 4)
    expected = replica_in_name(graph)
    ends = graph.edges[:, [0, 2]]
    own = ends[np.all(expected[ends] >= 0, axis=1)]
    assert np.any(expected[own[:, 0]] != expected[own[:, 1]])
    np.testing.assert_array_equal(replicas.find_replicas(graph), expected)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 5), st.randoms(use_true_random=False))
def test_numbering_doesnt_matter(count, random):
    graph = microbatches(training_step(), count)
    ops, tensors = list(range(graph.num_ops)), list(range(graph.num_tensors))
    random.shuffle(ops)
    random.shuffle(tensors)
    mixed = permute(graph, ops, tensors)
    found = replicas.find_replicas(mixed)
    check_same_up_to_renaming(found, replica_in_name(mixed))
    first = [np.flatnonzero(found == replica)[0] for replica in range(count)]
    assert first == sorted(first)


def test_neither_names_nor_roles_are_looked_at():
    step = training_step()
    graph = microbatches(step, 4)
    plain = graph.replace(op_names=(), extra={})
    np.testing.assert_array_equal(replicas.find_replicas(plain), replicas.find_replicas(graph))


def chain(num_ops, *, size=100, kinds=None):
    """A chain that reads an input; each op makes a tensor of its own size."""
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=[-1, *range(num_ops)],
        size=[size + 64 * op for op in range(num_ops + 1)],
        consumers=[[op] for op in range(num_ops)] + [[]],
        op_kinds=kinds or (),
    )


@pytest.mark.parametrize("count", [2, 5, 16])
def test_parts_that_nothing_joins(count):
    graph = microbatches(chain(9), count)
    expected = np.repeat(np.arange(count), 9)
    np.testing.assert_array_equal(replicas.find_replicas(graph), expected)


def towers(count, depth):
    """A trunk, ``count`` chains with parameters of their own that read it, and an op that reads all
    of them."""
    build = Builder()
    (trunk,) = build.op("stem", "", [build.given(100, "input")], [500])
    ends = []
    for _ in range(count):
        value = trunk
        for layer in range(depth):
            weight = build.given(1000 * (1 + layer), "parameter")
            (value,) = build.op("dot", "", [value, weight], [500])
        ends.append(value)
    build.op("concat", "", ends, [500 * count])
    return build.graph()


def test_towers_between_a_trunk_and_a_head():
    found = replicas.find_replicas(towers(3, 6))
    np.testing.assert_array_equal(found, [-1, *np.repeat([0, 1, 2], 6), -1])


def test_replicas_that_differ_by_a_few_bytes():
    """Four chains of eight ops on parts of rows that don't divide evenly."""
    build, sizes = Builder(), [250_001, 250_001, 250_001, 250_000]
    values = [build.given(size, "input") for size in sizes]
    for _ in range(8):
        values = [
            build.op("relu", "forward", [value], [size])[0]
            for value, size in zip(values, sizes, strict=True)
        ]
    found = replicas.find_replicas(build.graph())
    np.testing.assert_array_equal(found, np.tile([0, 1, 2, 3], 8))


@pytest.mark.parametrize(
    "graph", [chain(30), training_step(), towers(1, 9), towers(3, 2)], ids=lambda g: str(g.num_ops)
)
def test_nothing_to_be_found(graph):
    assert set(replicas.find_replicas(graph).tolist()) == {-1}


def test_a_few_ops_alike_are_no_replicas():
    """Two chains of six ops in a graph of seventy-odd."""
    build = Builder()
    value = build.given(100, "input")
    for layer in range(60):
        (value,) = build.op(f"k{layer}", "", [value], [100])
    ends = []
    for _ in range(2):
        end = value
        for _ in range(6):
            (end,) = build.op("relu", "", [end], [100])
        ends.append(end)
    build.op("add", "", ends, [100])
    assert set(replicas.find_replicas(build.graph()).tolist()) == {-1}


@settings(max_examples=150, deadline=None)
@given(computation_graphs(max_ops=15, labelled=True), st.integers(1, 4), st.integers(1, 3))
def test_any_graph_has_labels_and_a_placement(graph, count, num_devices):
    many = microbatches(graph.replace(extra={}), count)
    found = replicas.find_replicas(many)
    assert found.dtype == np.int32
    assert found.shape == (many.num_ops,)
    ops = np.bincount(found[found >= 0])
    assert np.all(ops >= replicas.LEAST_OPS)
    placement = replicas.replicas_apart(many, many.duration, num_devices)
    assert placement.dtype == np.int32
    assert np.all((placement >= 0) & (placement < num_devices))


def test_a_graph_without_ops():
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    assert replicas.find_replicas(empty).tolist() == []
    assert replicas.replicas_apart(empty, empty.duration, 2).tolist() == []


@pytest.mark.parametrize(("count", "num_devices"), [(4, 2), (2, 2), (6, 3), (3, 2), (2, 4)])
def test_replicas_stay_whole_and_in_blocks(count, num_devices):
    graph = microbatches(training_step(), count)
    placement = replicas.replicas_apart(graph, graph.duration, num_devices)
    expected = replica_in_name(graph)
    own = expected >= 0
    np.testing.assert_array_equal(placement[own], expected[own] * num_devices // count)


def test_gradients_are_accumulated_on_the_first_device_and_updates_fill_the_others():
    graph = microbatches(training_step(), 4)
    placement = replicas.replicas_apart(graph, graph.duration, 2)
    kinds = np.array(graph.op_kinds)
    assert np.all(placement[kinds == "accumulate"] == 0)
    load = np.bincount(placement, graph.duration)
    assert abs(load[0] - load[1]) <= 2 * graph.duration[kinds == "sub_"].max()


def test_devices_dont_wait_for_each_other():
    """In program order, two devices take hardly longer than half of all durations."""
    graph = microbatches(training_step(), 4)
    schedule = rules.build_schedule(
        graph,
        graph.topological_order,
        replicas.replicas_apart(graph, graph.duration, 2),
        objective="makespan",
        num_devices=2,
    )
    assert checker.evaluate(graph, schedule).makespan <= 1.1 * graph.duration.sum() / 2


def test_shared_ops_follow_the_bytes_they_read():
    """Of two towers, the second ends in a larger tensor, so the op that joins them runs there."""
    build = Builder()
    ends = []
    for last in (90, 100):
        value = build.given(100, "input")
        for _ in range(8):
            (value,) = build.op("relu", "", [value], [100])
        ends += build.op("slice", "", [value], [100])
        ends[-1:] = build.op(f"end{last}", "", [ends[-1]], [last])
    build.op("join", "", ends, [8])
    graph = build.graph()
    found = replicas.find_replicas(graph)
    placement = replicas.replicas_apart(graph, graph.duration, 2)
    assert set(found[:9].tolist()) == {0}
    assert placement[-1] == placement[-2] == 1


def test_ops_that_are_no_replicas_are_balanced_by_fractions_of_us():
    graph = ComputationGraph.create(
        num_ops=8, producer=[], size=[], consumers=[], duration=[0.4] * 4 + [0.1] * 4
    )
    weight = graph.duration
    placement = replicas.replicas_apart(graph, weight, 2)
    assert np.bincount(placement, weight, 2) == pytest.approx([1.0, 1.0])
