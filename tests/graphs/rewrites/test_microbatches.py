"""Replicas for microbatches: alone, and with accumulated gradients, updates and state."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.errors import OptionError
from regal_jax.graphs import annotations, precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers import roofline
from regal_jax.graphs.rewrites.microbatches import microbatches
from regal_jax.graphs.rewrites.transforms import permute
from tests.graphs.cases import training_step
from tests.strategies import computation_graphs


def annotated_step(**changes):
    """A train step: f(weight, batch), loss, gradient, and SGD in place; f writes a statistic.

    Ops: 0 f, 1 loss, 2 backward, 3 update. Tensors: 0 weight, 1 batch, 2 statistic, 3 activation,
    4 the statistic's new version, 5 loss, 6 gradient, 7 f's and 8 backward's control tensors (they
    read the weight before it is updated), 9 the weight's new version.
    """
    columns = {
        "producer": [-1, -1, -1, 0, 0, 1, 2, 0, 2, 3],
        "size": [100, 10, 4, 20, 0, 4, 100, 0, 0, 0],
        "persistent": [True] * 3 + [False, False, True, True, False, False, False],
        "consumers": [[0, 2, 3], [0], [0], [1, 2], [], [], [3], [3], [3], []],
        "duration": [1, 2, 3, 4],
        "op_names": ("f", "loss", "backward", "update"),
        "op_kinds": ("dot", "sum", "dot_backward", "sub_"),
        "extra": {
            "ops": {"phase": ["forward", "forward", "backward", "update"], "line": [7, 8, 9, 10]},
            "tensors": {
                "role": ["parameter", "input", "state", "", "", "output", "gradient", *[""] * 3],
                "name": ["w", "x", "mean", *[""] * 7],
            },
        },
    }
    return ComputationGraph.create(num_ops=4, **(columns | changes))


def rows(graph):
    return [graph.consumers.row(t).tolist() for t in range(graph.num_tensors)]


def precedes(graph):
    """bool[O, O]."""
    return precedence.unpack(precedence.closure(graph))


@st.composite
def annotated_graphs(draw):
    """Any graph with any roles and phases, sensible or not."""
    graph = draw(computation_graphs(labelled=True, max_ops=8))
    kinds = ["parameter", "state", "input", "gradient", "output", ""]
    phases = ["forward", "backward", "update"]
    role = draw(
        st.lists(st.sampled_from(kinds), min_size=graph.num_tensors, max_size=graph.num_tensors)
    )
    phase = draw(st.lists(st.sampled_from(phases), min_size=graph.num_ops, max_size=graph.num_ops))
    extra = {
        **graph.extra,
        "ops": {**graph.extra.get("ops", {}), "phase": phase},
        "tensors": {**graph.extra.get("tensors", {}), "role": role},
    }
    return graph.replace(extra=extra)


def topological(graph):
    """The graph with its ops numbered in a valid order."""
    return permute(graph, graph.topological_order, np.arange(graph.num_tensors))


@given(computation_graphs(labelled=True))
def test_one_microbatch_is_the_graph(graph):
    assert microbatches(graph, 1) == graph


def test_two_microbatches_by_hand():
    graph = microbatches(training_step(), 2)
    np.testing.assert_array_equal(graph.producer, [-1, -1, 0, 1, -1, 2, 3])
    np.testing.assert_array_equal(graph.size, [100, 10, 20, 5, 10, 20, 5])
    np.testing.assert_array_equal(graph.persistent, [1, 0, 0, 1, 0, 0, 1])
    rows = [graph.consumers.row(t).tolist() for t in range(graph.num_tensors)]
    assert rows == [[0, 1, 2, 3], [0], [1], [], [2], [3], []]
    np.testing.assert_array_equal(graph.duration, [1, 2, 1, 2])
    np.testing.assert_array_equal(graph.workspace, [3, 4, 3, 4])
    assert graph.op_names == ("f@0", "g@0", "f@1", "g@1")
    assert graph.op_kinds == ("dot", "add", "dot", "add")
    assert graph.extra["ops"] == {"line": [7, 8, 7, 8]}
    assert graph.extra["tensors"] == {"name": ["w", "x", "y", "z", "x", "y", "z"]}
    assert graph.extra[""] == {"a": 1}


@given(computation_graphs(machine_types=2), st.integers(1, 4))
def test_microbatches_are_independent_copies(graph, num_replicas):
    replicated = microbatches(graph, num_replicas)
    shared = int(np.sum(graph.persistent & (graph.producer < 0)))
    own = graph.num_tensors - shared
    assert replicated.num_tensors == shared + num_replicas * own
    closure = precedence.unpack(precedence.closure(graph))
    expected = np.kron(np.eye(num_replicas, dtype=bool), closure)
    np.testing.assert_array_equal(precedence.unpack(precedence.closure(replicated)), expected)
    np.testing.assert_array_equal(
        replicated.machine_type, np.tile(graph.machine_type, num_replicas)
    )
    assert len(replicated.consumers.values) == num_replicas * len(graph.consumers.values)


@given(computation_graphs(max_ops=6), st.integers(2, 3))
def test_columns_keep_their_exact_types(graph, num_replicas):
    """The fingerprint hashes bytes, so a wider type would make equal graphs differ."""
    replicated = microbatches(graph, num_replicas)
    remade = permute(replicated, range(replicated.num_ops), range(replicated.num_tensors))
    for column in ("producer", "size", "persistent", "duration", "workspace", "demand"):
        assert getattr(remade, column).dtype == getattr(graph, column).dtype
        assert getattr(replicated, column).dtype == getattr(graph, column).dtype
    assert remade == replicated


def test_no_microbatches():
    with pytest.raises(OptionError, match="at least 1"):
        microbatches(training_step(), 0)


def test_a_train_step_of_two_microbatches_by_hand():
    graph = microbatches(annotated_step(), 2)
    names = ("f@0", "loss@0", "backward@0", "f@1", "loss@1", "backward@1")
    assert graph.op_names == (*names, "accumulate/backward:6@1", "update")
    assert graph.op_kinds[5:] == ("dot_backward", "accumulate", "sub_")
    assert graph.extra["ops"]["phase"][5:] == ["backward", "accumulate", "update"]
    np.testing.assert_array_equal(graph.size[:10], annotated_step().size)
    # Replica 1's batch, activation, version, loss, gradient, two controls; then the accumulated
    # gradient's version, and the control tensor between the writers of the statistic.
    np.testing.assert_array_equal(graph.size[10:], [10, 20, 0, 4, 100, 0, 0, 0, 0])
    np.testing.assert_array_equal(
        graph.producer, [-1, -1, -1, 0, 0, 1, 2, 0, 2, 7, -1, 3, 3, 4, 5, 3, 5, 6, 0]
    )
    assert rows(graph)[:10] == [[0, 2, 7, 3, 5], [0], [0, 3], [1, 2], [], [], [7, 6], [7], [7], []]
    assert rows(graph)[10:] == [[3], [4, 5], [], [], [6], [7], [7], [7], [3]]
    np.testing.assert_array_equal(np.flatnonzero(graph.persistent), [0, 1, 2, 5, 6, 10, 13])
    np.testing.assert_array_equal(graph.duration[[0, 3, 7]], [1, 1, 4])
    assert graph.duration[6] == 1e6 * 300 / roofline.A100.bytes_per_second
    assert graph.extra["tensors"]["role"][-2:] == ["", ""]
    assert graph.extra["tensors"]["role"][10] == "input"


def test_versions_are_a_chain():
    graph = microbatches(annotated_step(), 4)
    add = [op for op, kind in enumerate(graph.op_kinds) if kind == "accumulate"]
    before = precedes(graph)
    assert len(add) == 3
    chain = [*add, graph.num_ops - 1]
    assert np.all(before[chain[:-1], chain[1:]])
    assert not graph.persistent[graph.size == 100][2:].any()


def test_a_gradient_that_is_read_and_written_before():
    """Backward 2 makes it, 3 reads it, 4 adds to it in place; then the update."""
    graph = ComputationGraph.create(
        num_ops=6,
        producer=[-1, 0, 1, 2, 3, 4],
        size=[8, 8, 8, 8, 0, 0],
        persistent=[True, False, False, True, False, False],
        consumers=[[0], [1], [2], [3, 4, 5], [4], [5]],
        extra={
            "ops": {"phase": ["forward", *["backward"] * 4, "update"]},
            "tensors": {"role": ["input", "", "", "gradient", "", ""]},
        },
    )
    before = precedes(microbatches(graph, 2))
    first, second, add, update = range(5), range(5, 10), 10, 11
    assert before[[first[3], first[4], second[4]], add].all()
    assert before[add, update]
    assert not before[first, :][:, second].any()


def test_costs_of_accumulation_follow_a_profile():
    work = {"flops": [1, 2, 3, 4], "bytes_accessed": [5, 6, 7, 8], "workspace": [9, 9, 9, 9]}
    graph = microbatches(annotated_step(**work), 2)
    np.testing.assert_array_equal(graph.flops, [1, 2, 3, 1, 2, 3, 25, 4])
    np.testing.assert_array_equal(graph.bytes_accessed, [5, 6, 7, 5, 6, 7, 300, 8])
    assert graph.workspace[6] == 0
    slow = roofline.with_profile(graph, roofline.DeviceProfile("slow", 1e6, 1e6))
    assert slow.duration[6] == 300


def test_batch_norm_without_declared_writes_is_not_serialised():
    """Its empty outputs in inference are no versions of its running statistics."""
    graph = ComputationGraph.create(
        num_ops=1,
        producer=[-1, -1, 0, 0],
        size=[8, 4, 8, 0],
        persistent=[False, True, True, False],
        consumers=[[0], [0], [], []],
        op_kinds=("native_batch_norm",),
        extra={"tensors": {"role": ["input", "state", "output", ""]}},
    )
    assert len(annotations.in_place_writes(graph)) == 0
    assert not precedes(microbatches(graph, 3)).any()


def test_in_place_writes_by_hand():
    """Readers of the weight look like writers, and f, whose version nobody reads, of the batch."""
    np.testing.assert_array_equal(
        annotations.in_place_writes(annotated_step()),
        [[0, 0], [0, 2], [0, 3], [1, 0], [2, 0], [6, 3]],
    )


def test_ops_after_the_update_run_once():
    step = annotated_step()
    late = step.replace(
        extra={**step.extra, "ops": {"phase": ["forward", "update", "backward", ""]}}
    )
    assert microbatches(late, 3).op_names[-1] == "loss"
    early = step.replace(extra={**step.extra, "ops": {"phase": ["update", "", "", ""]}})
    assert microbatches(early, 3).op_names == step.op_names


@given(annotated_graphs(), st.integers(2, 3))
def test_any_annotated_graph_splits(graph, num_replicas):
    graph = topological(graph)
    split = microbatches(graph, num_replicas)
    assert np.all(split.edges[:, 0] < split.edges[:, 2])
    phase = np.array(split.extra["ops"]["phase"])
    role = split.extra["tensors"]["role"]
    added = phase == "accumulate"
    assert len(role) == split.num_tensors
    assert all(len(names) in (0, split.num_ops) for names in (split.op_names, split.op_kinds))
    update = np.array(graph.extra["ops"]["phase"]) == "update"
    once = update | precedes(graph)[update].any(axis=0)
    assert split.num_ops == once.sum() + num_replicas * (~once).sum() + added.sum()


@given(annotated_graphs(), st.integers(2, 3))
def test_every_replica_keeps_its_precedence_and_the_update_waits_for_all(graph, num_replicas):
    graph = topological(graph)
    split = microbatches(graph, num_replicas)
    old, new = precedes(graph), precedes(split)
    labels = [f"op{o}" for o in range(graph.num_ops)]
    named = microbatches(graph.replace(op_names=tuple(labels)), num_replicas)
    place = {name: op for op, name in enumerate(named.op_names)}
    for before, after in np.argwhere(old):
        for r in range(num_replicas):
            first = place.get(f"op{before}@{r}", place.get(f"op{before}"))
            second = place.get(f"op{after}@{r}", place.get(f"op{after}"))
            assert new[first, second]
    for op, name in enumerate(named.op_names):
        if name.startswith("accumulate/"):
            gradient = split.inputs.row(op)
            gradient = gradient[(split.size[gradient] >= 0) & (split.producer[gradient] >= 0)]
            assert new[split.producer[gradient], op].all()


@given(annotated_graphs(), st.integers(2, 3))
def test_nobody_sees_a_half_accumulated_gradient(graph, num_replicas):
    """Every reader of an accumulator comes before the first addition or after the last."""
    graph = topological(graph)
    split = microbatches(graph, num_replicas)
    before = precedes(split)
    added = np.array(split.extra["ops"]["phase"]) == "accumulate"
    for tensor in np.flatnonzero(split.producer >= 0):
        readers = split.consumers.row(tensor)
        additions = readers[added[readers]]
        if len(additions) == num_replicas - 1 and graph.num_tensors > tensor:
            assert np.all(before[additions[:-1], additions[1:]])
            for reader in readers[~added[readers]]:
                assert before[reader, additions[0]] or before[additions[-1], reader]


def test_large_graphs_split_quickly():
    num_ops = 10_000
    chain = np.arange(num_ops)
    graph = ComputationGraph.create(
        num_ops=num_ops,
        producer=np.concatenate([[-1], chain, chain]),
        size=np.full(2 * num_ops + 1, 4),
        persistent=np.arange(2 * num_ops + 1) > num_ops,
        consumers=[[op] for op in range(num_ops)] + [[]] * (num_ops + 1),
        extra={"tensors": {"role": ["input"] + [""] * num_ops + ["gradient"] * num_ops}},
    )
    start = time.perf_counter()
    split = microbatches(graph, 8)
    assert time.perf_counter() - start < 2
    assert split.num_ops == 8 * num_ops + 7 * num_ops
