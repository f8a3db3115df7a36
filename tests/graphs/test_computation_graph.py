"""The graph itself: defaults, derived rows, equality, and every rejection of the format."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from regal_jax.errors import GraphError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows
from tests.strategies import computation_graphs


def make(**changes):
    """Op 0 makes tensor 0 for ops 1 and 2; op 1 makes tensor 1 for op 2; tensor 2 is an input."""
    columns = {
        "num_ops": 3,
        "producer": [0, 1, -1],
        "size": [10, 20, 30],
        "consumers": [[1, 2], [2], [0]],
    }
    return ComputationGraph.create(**(columns | changes))


def test_defaults():
    graph = make()
    np.testing.assert_array_equal(graph.duration, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(graph.workspace, [0, 0, 0])
    np.testing.assert_array_equal(graph.persistent, [False, False, False])
    np.testing.assert_array_equal(graph.machine_type, [0, 0, 0])
    np.testing.assert_array_equal(graph.demand, [1, 1, 1])
    assert graph.capacity is None
    assert (graph.num_ops, graph.num_tensors) == (3, 3)


def test_types_of_columns():
    graph = make(capacity=[2])
    types = {
        "producer": np.int32,
        "size": np.int64,
        "persistent": np.bool_,
        "duration": np.float64,
        "workspace": np.int64,
        "machine_type": np.int32,
        "demand": np.int64,
        "capacity": np.int64,
    }
    assert {column: getattr(graph, column).dtype.type for column in types} == types
    assert graph.consumers.values.dtype == np.int32
    assert graph.consumers.offsets.dtype == np.int64


def test_inputs_outputs_edges():
    graph = make()
    assert [graph.inputs.row(op).tolist() for op in range(3)] == [[2], [0], [0, 1]]
    assert [graph.outputs.row(op).tolist() for op in range(3)] == [[0], [1], []]
    assert graph.edges.tolist() == [[0, 0, 1], [0, 0, 2], [1, 1, 2]]
    assert graph.edges.dtype == np.int32


def test_repeated_consumers_count_once():
    assert make(consumers=[[2, 1, 2, 1], [2], [0]]).consumers.row(0).tolist() == [2, 1]


def test_ragged_rows():
    rows = ragged_rows(np.array([2, 0, 2]), np.array([7, 8, 9]), 4)
    assert [rows.row(i).tolist() for i in range(4)] == [[8], [], [7, 9], []]
    assert rows.lengths().tolist() == [1, 0, 2, 0]
    assert rows.row_of_value().tolist() == [0, 2, 2]


@given(computation_graphs())
def test_rows_agree_with_each_other(graph):
    consumed = {(t, op) for t in range(graph.num_tensors) for op in graph.consumers.row(t).tolist()}
    assert consumed == {(t, op) for op in range(graph.num_ops) for t in graph.inputs.row(op)}
    for op in range(graph.num_ops):
        np.testing.assert_array_equal(graph.outputs.row(op), np.flatnonzero(graph.producer == op))
    produced = [(graph.producer[t], t, op) for t, op in consumed if graph.producer[t] >= 0]
    assert sorted(map(tuple, graph.edges.tolist())) == sorted(produced)


@given(computation_graphs())
def test_topological_order_respects_edges(graph):
    order = graph.topological_order
    position = np.argsort(order)
    assert sorted(order) == list(range(graph.num_ops))
    assert np.all(position[graph.edges[:, 0]] < position[graph.edges[:, 2]])


@given(computation_graphs())
def test_topological_order_takes_the_lowest_index_first(graph):
    simple = nx.DiGraph(graph.edges[:, [0, 2]].tolist())
    simple.add_nodes_from(range(graph.num_ops))
    assert graph.topological_order.tolist() == list(nx.lexicographical_topological_sort(simple))


def test_columns_are_read_only():
    graph = make()
    with pytest.raises(ValueError, match="read-only"):
        graph.size[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        graph.consumers.values[0] = 1


@pytest.mark.parametrize(
    "change",
    [
        {"size": [10, 20, 31]},
        {"producer": [0, 1, 1], "consumers": [[1, 2], [2], []]},
        {"consumers": [[1, 2], [2], [1]]},
        {"persistent": [True, False, False]},
        {"duration": [1.0, 2.0, 1.0]},
        {"workspace": [0, 0, 1]},
        {"demand": [2, 1, 1]},
        {"capacity": [1]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_fingerprint_depends_on_costs(change):
    assert make(**change).fingerprint != make().fingerprint
    assert make(**change) != make()


def test_fingerprint_ignores_names():
    named = make(name="net", op_names=("a", "b", "c"))
    assert named.fingerprint == make().fingerprint
    assert hash(named) == hash(make())
    assert named != make()
    assert make() == make()
    assert make() != "graph"


def test_replace_validates():
    graph = make().replace(size=np.array([1, 2, 3], np.int64))
    assert graph.size.tolist() == [1, 2, 3]
    with pytest.raises(GraphError, match="negative"):
        graph.replace(size=np.array([1, 2, -3], np.int64))
    with pytest.raises(TypeError, match="sizes"):
        graph.replace(sizes=graph.size)
    with pytest.raises(GraphError, match="3 ops"):
        graph.replace(workspace=np.zeros(2, np.int64))


def test_a_copy_knows_what_stays_and_not_what_changes():
    graph = make()
    assert all((graph.fingerprint, len(graph.op_pairs), graph.outputs.lists()))
    larger = graph.replace(size=np.array([1, 2, 3], np.int64))
    assert larger.fingerprint == make(size=[1, 2, 3]).fingerprint != graph.fingerprint
    assert larger.op_pairs is graph.op_pairs
    assert not larger.size.flags.writeable
    assert (graph.replace(name="b").name, graph.name) == ("b", "")
    other = graph.replace(consumers=ragged_rows(np.array([0, 2]), np.array([2, 0]), 3))
    assert other.op_pairs.tolist() == [[0, 2]]
    columns = {"workspace": np.int64, "machine_type": np.int32, "demand": np.int64}
    longer = graph.replace(
        duration=np.ones(4), **{name: np.zeros(4, dtype) for name, dtype in columns.items()}
    )
    assert longer.num_ops == len(longer.outputs.lists()) == 4


def test_labels():
    graph = make(op_names=("a", "", "c"), op_kinds=("dot", "add", "exp"))
    assert [graph.op_label(op) for op in range(3)] == ["a", "add_1", "c"]
    assert make().op_label(2) == "op_2"
    assert graph.tensor_label(0) == "a:0"
    assert graph.tensor_label(2) == "input_2"
    named = make(extra={"tensors": {"name": ["x", "", "w"]}})
    assert [named.tensor_label(t) for t in range(3)] == ["x", "op_1:1", "w"]


def test_empty_graphs():
    none = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    assert (none.num_ops, none.num_tensors, none.edges.shape) == (0, 0, (0, 3))
    assert none.topological_order.shape == (0,)
    alone = ComputationGraph.create(num_ops=2, producer=[], size=[], consumers=[])
    assert alone.inputs.lengths().tolist() == [0, 0]


def test_errors_are_regal_errors_with_field_and_reason():
    with pytest.raises(RegalError) as caught:
        make(size=[1, 2, -3])
    assert caught.value.field == "tensors.size"
    assert caught.value.reason == "entry 2 (-3) is negative"
    assert str(caught.value) == "tensors.size: entry 2 (-3) is negative"


REJECTIONS = {
    "cycle": ({"consumers": [[1], [0], []]}, "tensors.consumers", "cycle"),
    "self-loop": ({"consumers": [[0], [2], []]}, "tensors.consumers", "cycle"),
    "producer too high": ({"producer": [0, 3, -1]}, "tensors.producer", "index 3 .* not in"),
    "producer too low": ({"producer": [0, -2, -1]}, "tensors.producer", "index -2 .* not in"),
    "consumer too high": ({"consumers": [[3], [], []]}, "tensors.consumers", "index 3 .* not in"),
    "consumer negative": ({"consumers": [[-1], [], []]}, "tensors.consumers", "index -1"),
    "machine without capacity": (
        {"machine_type": [0, 1, 0], "capacity": [4]},
        "ops.machine_type",
        "index 1",
    ),
    "size negative": ({"size": [1, -2, 3]}, "tensors.size", "negative"),
    "duration negative": ({"duration": [1, -0.5, 3]}, "ops.duration", "negative"),
    "duration nan": ({"duration": [1, float("nan"), 3]}, "ops.duration", "finite"),
    "duration infinite": ({"duration": [1, float("inf"), 3]}, "ops.duration", "finite"),
    "workspace negative": ({"workspace": [-1, 0, 0]}, "ops.workspace", "negative"),
    "demand negative": ({"demand": [-1, 0, 0]}, "ops.demand", "negative"),
    "machine type negative": ({"machine_type": [-1, 0, 0]}, "ops.machine_type", "negative"),
    "capacity negative": ({"capacity": [-1]}, "capacity", "negative"),
    "sizes too few": ({"size": [1, 2]}, "tensors.size", "2 entries for 3 tensors"),
    "consumers too few": ({"consumers": [[], []]}, "tensors.consumers", "2 entries for 3"),
    "persistent too few": ({"persistent": [True]}, "tensors.persistent", "1 entries for 3"),
    "workspace too many": ({"workspace": [0] * 4}, "ops.workspace", "4 entries for 3 ops"),
    "names too few": ({"op_names": ("a",)}, "ops.name", "1 entries for 3 ops"),
    "kinds too few": ({"op_kinds": ("a",)}, "ops.kind", "1 entries for 3 ops"),
    "size over 2**53": ({"size": [1, 2**53 + 1, 3]}, "tensors.size", "out of range"),
    "size over 2**64": ({"size": [1, 2**70, 3]}, "tensors.size", "2\\*\\*53"),
    "workspace over 2**53": ({"workspace": [2**60, 0, 0]}, "ops.workspace", "out of range"),
    "duration over 2**53": ({"duration": [2**53 + 1, 0, 0]}, "ops.duration", "2\\*\\*53"),
    "duration huge": ({"duration": [10**400, 0, 0]}, "ops.duration", "2\\*\\*53"),
    "capacity over 2**53": ({"capacity": [2**54]}, "capacity", "out of range"),
    "machine type over int32": ({"machine_type": [2**40, 0, 0]}, "ops.machine_type", "range"),
    "boolean size": ({"size": [1, True, 3]}, "tensors.size", "boolean"),
    "boolean producer": ({"producer": [False, 1, -1]}, "tensors.producer", "boolean"),
    "boolean consumer": ({"consumers": [[1, True], [], []]}, "tensors.consumers", "boolean"),
    "boolean duration": ({"duration": [True, 1.0, 1.0]}, "ops.duration", "numbers only"),
    "fraction": ({"size": [1.5, 2, 3]}, "tensors.size", "integers only"),
    "whole float": ({"consumers": [[1, 1.0], [], []]}, "tensors.consumers", "integers only"),
    "nan size": ({"size": [float("nan"), 2, 3]}, "tensors.size", "integers only"),
    "string size": ({"size": ["1", "2", "3"]}, "tensors.size", "integers only"),
    "string duration": ({"duration": ["1", "2", "3"]}, "ops.duration", "numbers only"),
    "missing size": ({"size": [None, 2, 3]}, "tensors.size", "integers only"),
    "nested size": ({"size": [[1], [2], [3]]}, "tensors.size", "flat"),
    "ragged size": ({"size": [[1], [2, 3], 4]}, "tensors.size", "flat"),
    "nested duration": ({"duration": [[1], [2], [3]]}, "ops.duration", "flat"),
    "integer persistent": ({"persistent": [1, 0, 0]}, "tensors.persistent", "booleans only"),
    "ragged persistent": ({"persistent": [[True], [], 1]}, "tensors.persistent", "booleans only"),
    "flat consumers": ({"consumers": [1, 2, 0]}, "tensors.consumers", "one list"),
    "string consumers": ({"consumers": ["1", [], []]}, "tensors.consumers", "one list"),
    "mapping consumers": ({"consumers": [{1: 2}, [], []]}, "tensors.consumers", "one list"),
    "nested consumers": ({"consumers": [[[1]], [], []]}, "tensors.consumers", "flat"),
    "string consumer": ({"consumers": [["1"], [], []]}, "tensors.consumers", "integers only"),
}


@pytest.mark.parametrize("case", REJECTIONS)
def test_rejections(case):
    changes, field, reason = REJECTIONS[case]
    with pytest.raises(GraphError, match=reason) as caught:
        make(**changes)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_largest_integers_are_accepted():
    graph = make(size=[2**53, 0, 0], workspace=[2**53, 0, 0], duration=[2.0**60, 0, 0])
    assert graph.size[0] == graph.workspace[0] == 2**53


def test_consumers_as_rows():
    rows = RaggedRows(np.array([0, 2, 3, 4]), np.array([1, 2, 2, 0], np.int32))
    assert make(consumers=rows) == make()
