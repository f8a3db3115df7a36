"""Reordered ONNX models: the same nodes and numbers, no more memory, errors for what can't be."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.compiler.onnx.reorder import reorder_onnx, save_onnx
from regal_jax.errors import ImporterError, OptionError
from regal_jax.graphs.importers.onnx.dimensions import Dimensions
from regal_jax.graphs.importers.onnx.model import from_onnx

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from regal_jax.compiler.onnx.nodes import graph_of_nodes, names_read  # noqa: E402
from tests.graphs.importers.onnx.models import array, info, model  # noqa: E402

BOOL = TensorProto.BOOL
QUICK = {"method": "approximate_dp", "evaluations": 200}


def branch(name, node):
    return helper.make_graph([node], name, [], [info(node.output[0], 2, 6)])


def conditional(position, first, second, output):
    """An If that names ``first`` and ``second`` inside its branches only."""
    then = helper.make_node("Add", [first, second], [f"then{position}"])
    other = helper.make_node("Tanh", [first], [f"else{position}"])
    return helper.make_node(
        "If",
        ["flag"],
        [output],
        then_branch=branch("then", then),
        else_branch=branch("else", other),
    )


KINDS = ("Tanh", "Add", "Mul", "Identity", "Reshape", "Constant", "If")


@st.composite
def models(draw):
    """Up to 14 nodes in a row, reading anything before them; two or more outputs may be unread."""
    names, nodes = ["x"], []
    for position in range(draw(st.integers(2, 14))):
        kind, output = draw(st.sampled_from(KINDS)), f"v{position}"
        first, second = (draw(st.sampled_from(names)) for _ in range(2))
        if kind == "If":
            nodes.append(conditional(position, first, second, output))
        elif kind == "Constant":
            value = array("", np.full((2, 6), position, np.float32))
            nodes.append(helper.make_node(kind, [], [output], value=value))
        elif kind == "Reshape":
            nodes.append(helper.make_node(kind, [first, "shape"], [output]))
        else:
            inputs = [first, second] if kind in ("Add", "Mul") else [first]
            nodes.append(helper.make_node(kind, inputs, [output]))
        names.append(output)
    results = draw(st.lists(st.sampled_from(names[1:]), min_size=1, unique=True))
    return model(
        nodes,
        [info("x", 2, 6), info("flag", kind=BOOL)],
        [info(name, 2, 6) for name in results],
        [array("shape", np.array([2, 6]))],
    )


def session(proto, **settings_):
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    for name, value in settings_.items():
        setattr(options, name, value)
    return ort.InferenceSession(proto.SerializeToString(), options)


def outputs(proto, flag=True):
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(2, 6)
    return session(proto).run(None, {"x": x, "flag": np.array(flag)})


def wide(width):
    """Every branch is made at once and then reduced: the worst order there is."""
    make = [helper.make_node("Tanh", ["x"], [f"t{k}"], name=f"make{k}") for k in range(width)]
    reduce = [
        helper.make_node("ReduceSum", [f"t{k}"], [f"s{k}"], name=f"sum{k}", keepdims=0)
        for k in range(width)
    ]
    total = helper.make_node("Sum", [f"s{k}" for k in range(width)], ["y"], name="total")
    return model([*make, *reduce, total], [info("x", 10)], [info("y")])


def names(proto):
    return [node.name for node in proto.graph.node]


def reads_only_what_is_there(proto):
    known = {value.name for value in (*proto.graph.input, *proto.graph.initializer)}
    for node in proto.graph.node:
        if not known.issuperset(names_read(node)):
            return False
        known.update(node.output)
    return True


@given(models())
@settings(max_examples=60)
def test_nodes_are_the_same_in_a_valid_order_and_nothing_else_changes(proto):
    before = proto.SerializeToString()
    reordered, report = reorder_onnx(proto, **QUICK)
    assert proto.SerializeToString() == before
    rows = [sorted(n.SerializeToString() for n in m.graph.node) for m in (proto, reordered)]
    assert rows[0] == rows[1]
    assert reads_only_what_is_there(reordered)
    assert report.resident <= report.lower_bound <= report.peak_after <= report.peak_before
    if report.peak_after == report.peak_before:
        assert reordered.SerializeToString() == before
    _, second = reorder_onnx(reordered, **QUICK)
    assert (second.peak_before, second.resident) == (report.peak_after, report.resident)
    for graph in (proto.graph, reordered.graph):
        del graph.node[:]
    assert proto == reordered


@given(models(), st.booleans())
@settings(max_examples=30)
def test_outputs_are_the_same_bit_for_bit(proto, flag):
    reordered, _ = reorder_onnx(proto, **QUICK)
    for before, after in zip(outputs(proto, flag), outputs(reordered, flag), strict=True):
        assert before.tobytes() == after.tobytes()


def test_a_mask_of_dropout_that_nobody_reads_takes_no_memory():
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("Dropout", ["t"], ["u", "mask"]),
        helper.make_node("Tanh", ["u"], ["y"]),
    ]
    proto = model(nodes, [info("x", 2, 6)], [info("y", 2, 6)])
    reordered, report = reorder_onnx(proto, **QUICK)
    assert reordered == proto
    assert report.peak_after == 3 * 2 * 6 * 4  # x, t and y


def test_branches_are_finished_one_by_one():
    reordered, report = reorder_onnx(wide(5), method="auto", evaluations=1000)
    assert report.peak_before == 40 + 5 * 40 + 4
    assert report.peak_after == 40 + 40 + 5 * 4  # x, the last branch and all sums
    assert report.lower_bound == report.peak_after  # proven
    assert report.resident == 40
    position = {name: k for k, name in enumerate(names(reordered))}
    assert all(position[f"sum{k}"] == position[f"make{k}"] + 1 for k in range(5))


def test_the_runtime_follows_the_file(tmp_path):
    reordered, _ = reorder_onnx(wide(5), **QUICK)
    for proto in (wide(5), reordered):
        prefix = str(tmp_path / "profile")
        run = session(proto, enable_profiling=True, profile_file_prefix=prefix)
        run.run(None, {"x": np.ones(10, np.float32)})
        with open(run.end_profiling()) as file:
            events = [event["name"] for event in json.load(file) if event.get("cat") == "Node"]
        suffix = "_kernel_time"
        ran = [name.removesuffix(suffix) for name in events if name.endswith(suffix)]
        assert ran == names(proto)


def test_a_branch_waits_for_what_it_names_outside():
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"]),
        helper.make_node("Exp", ["x"], ["b"]),
        conditional(0, "a", "b", "y"),
    ]
    proto = model(nodes, [info("x", 2, 6), info("flag", kind=BOOL)], [])
    graph = graph_of_nodes(proto, Dimensions({}))
    assert graph.size.tolist() == [48, 48, 48, 1, 48]  # x, a, b, flag, y
    assert [graph.consumers.row(t).tolist() for t in range(5)] == [[0, 1], [2], [2], [2], []]


def test_views_share_memory_and_constants_are_there_from_the_start():
    nodes = [
        helper.make_node("Constant", [], ["c"], value=array("", np.zeros(12, np.float32))),
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("Reshape", ["t", "shape"], ["flat"]),
        helper.make_node("Add", ["flat", "c"], ["y"]),
    ]
    shape = array("shape", np.array([12]))
    proto = model(nodes, [info("x", 2, 6)], [info("y", 12)], [shape])
    graph = graph_of_nodes(proto, Dimensions({}))
    named = dict(zip(graph.extra["tensors"]["name"], range(graph.num_tensors), strict=True))
    assert graph.producer[named["c"]] == -1
    assert graph.size.tolist() == [0, 48, 48, 8, 0, 48, 48]  # c's node, x, t, shape, flat, c, y
    assert graph.size.sum() == from_onnx(proto).size.sum() + 8  # which drops the shape
    assert [graph.inputs.row(op).tolist() for op in range(4)] == [[], [1], [2, 3], [0, 2, 4, 5]]


def test_local_functions_are_called_as_they_were():
    twice = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["c"],
        [helper.make_node("Tanh", ["a"], ["b"]), helper.make_node("Tanh", ["b"], ["c"])],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["y"], domain="own"),
        helper.make_node("Twice", ["y"], ["z"], domain="own"),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    inputs, results = [info("x", 2, 6)], [info("z", 2, 6)]
    proto = model(nodes, inputs, results, functions=[twice], opset_imports=opsets)
    reordered, report = reorder_onnx(proto, **QUICK)
    assert reordered == proto
    assert report.peak_before == 3 * 48


def test_sizes_are_those_of_the_dimensions():
    proto = model(
        [helper.make_node("Tanh", ["x"], ["y"])], [info("x", "n", 3)], [info("y", "n", 3)]
    )
    _, report = reorder_onnx(proto, dimensions={"n": 8}, **QUICK)
    assert report.peak_before == 2 * 8 * 3 * 4


def test_models_that_cannot_be_read(tmp_path):
    with pytest.raises(ImporterError, match="no such file"):
        reorder_onnx(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(ImporterError, match=r"bad\.onnx: not an ONNX model"):
        reorder_onnx(tmp_path / "bad.onnx")
    unsorted = model(
        [helper.make_node("Tanh", ["b"], ["y"]), helper.make_node("Tanh", ["x"], ["b"])],
        [info("x", 3)],
        [info("y", 3)],
    )
    with pytest.raises(ImporterError, match="'b', which nothing before it makes"):
        reorder_onnx(unsorted)
    node = helper.make_node("Own", ["x"], ["y"], domain="own")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    unknown = model([node], [info("x", 3)], [], opset_imports=opsets)
    with pytest.raises(ImporterError, match="'y'"):
        reorder_onnx(unknown)


def test_a_model_with_weights_in_a_file_is_written_beside_it(tmp_path):
    weights = array("w", np.ones((6, 6), np.float32))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    proto = model(nodes, [info("x", 2, 6)], [info("y", 2, 6)], [weights])
    source = tmp_path / "model.onnx"
    external = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save_model(proto, source, **external)
    reordered, _ = reorder_onnx(source, **QUICK)
    assert reordered.SerializeToString() == source.read_bytes()
    save_onnx(reordered, tmp_path / "new.onnx")
    loaded = onnx.load(tmp_path / "new.onnx")
    assert onnx.numpy_helper.to_array(loaded.graph.initializer[0]).tolist() == [[1] * 6] * 6
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    with pytest.raises(OptionError, match=r"'weights\.bin' aren't in this folder"):
        save_onnx(reordered, elsewhere / "new.onnx")
    assert not list(elsewhere.iterdir())
