from pathlib import Path

import numpy as np
import pytest

from regal_jax.errors import ImporterError
from regal_jax.graphs.importers.any_file import import_graph
from regal_jax.graphs.importers.onnx.model import from_onnx
from regal_jax.graphs.importers.roofline import DeviceProfile

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from tests.graphs.importers.onnx.models import array, info, model  # noqa: E402

FLOAT = TensorProto.FLOAT
SLOW = DeviceProfile("slow", flops_per_second=1e6, bytes_per_second=1e30)
"""Durations are FLOPs [us]."""
WHEEL = sorted((Path(onnx.__file__).parent / "backend/test/data").rglob("*.onnx"))


def consumers(graph):
    return [graph.consumers.row(t).tolist() for t in range(graph.num_tensors)]


def test_gemm_relu_by_hand():
    nodes = [
        helper.make_node("Constant", [], ["shape"], value=array("s", np.array([2, 12]))),
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["h"], transB=1, name="fc"),
        helper.make_node("Relu", ["h"], ["y"]),
        helper.make_node("Exp", ["h"], ["dead"]),
    ]
    weights = [array("w", np.zeros((5, 12), np.float32)), array("b", np.zeros(5, np.float32))]
    inputs = [info("x", 2, 3, 4), info("w", 5, 12)]
    graph = from_onnx(model(nodes, inputs, [info("y", 2, 5)], weights), profile=SLOW)
    assert graph.op_names == ("fc", "Relu_1")
    assert graph.op_kinds == ("Gemm", "Relu")
    assert graph.extra["tensors"]["name"] == ["x", "w", "b", "h", "y"]
    assert graph.producer.tolist() == [-1, -1, -1, 0, 1]
    assert graph.size.tolist() == [96, 240, 20, 40, 40]
    assert graph.persistent.tolist() == [True, True, True, False, True]
    assert consumers(graph) == [[0], [0], [0], [1], []]
    assert graph.duration.tolist() == pytest.approx([2 * 2 * 5 * 12, 10])


def test_shapes_are_found_by_folding_constants():
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ReduceProd", ["shape"], ["count"], keepdims=1),
        helper.make_node("Expand", ["one", "count"], ["ones"]),
        helper.make_node("Sin", ["ones"], ["y"]),
    ]
    toy = model(
        nodes,
        [info("x", 4, 3)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [array("one", np.ones(1, np.float32))],
    )
    graph = from_onnx(toy)
    assert graph.size[-1] == 48
    assert "assumed_dimensions" not in graph.extra[""]


def test_if_is_one_op_that_reads_what_its_branches_name():
    then = helper.make_graph([helper.make_node("Exp", ["x"], ["a"])], "t", [], [info("a", 4)])
    chain = [helper.make_node("Sin", ["w"], ["b0"]), helper.make_node("Cos", ["b0"], ["b"])]
    orelse = helper.make_graph(chain, "e", [], [info("b", 4)])
    node = helper.make_node("If", ["p"], ["y"], then_branch=then, else_branch=orelse)
    inputs = [info("p", kind=TensorProto.BOOL), info("x", 4), info("w", 4)]
    with pytest.warns(UserWarning, match=r"toy: an If, .* counts as one op: 'y' hides 3"):
        graph = from_onnx(model([node], inputs, [info("y", 4)]), profile=SLOW)
    assert graph.extra[""]["hidden_ops"] == {"y": 3}
    assert graph.inputs.row(0).tolist() == [0, 1, 2]
    assert graph.size.tolist() == [1, 16, 16, 16]
    assert graph.workspace.tolist() == [16]
    assert graph.duration.tolist() == pytest.approx([8])


def test_loop_multiplies_a_constant_trip_count():
    steps = [
        helper.make_node("Identity", ["go"], ["go_on"]),
        helper.make_node("Mul", ["state", "w"], ["t"]),
        helper.make_node("Add", ["t", "w"], ["next"]),
    ]
    flag = TensorProto.BOOL
    body_inputs = [info("i", kind=TensorProto.INT64), info("go", kind=flag), info("state", 4)]
    body = helper.make_graph(steps, "b", body_inputs, [info("go_on", kind=flag), info("next", 4)])
    node = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)
    trips = array("trips", np.array(10))
    toy = model([node], [info("x", 4), info("w", 4)], [info("y", 4)], [trips])
    with pytest.warns(UserWarning, match="'y' hides 2"):
        graph = from_onnx(toy, profile=SLOW)
    assert graph.workspace.tolist() == [16]
    assert graph.duration.tolist() == pytest.approx([80])


def test_dropout_vanishes_only_in_inference():
    on, ratio = array("on", np.array(True)), array("ratio", np.float32(0.5))
    io = [info("x", 4)], [info("y", 4)]
    node = helper.make_node("Dropout", ["x", "ratio", "on"], ["y"])
    assert from_onnx(model([node], *io, [on, ratio])).op_kinds == ("Dropout",)
    node = helper.make_node("Dropout", ["x"], ["y", "mask"])
    assert from_onnx(model([node], *io)).num_ops == 0


def test_local_functions_are_inlined_and_strings_weigh_sixteen():
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    body = [helper.make_node("Sin", ["a"], ["t"]), helper.make_node("Cos", ["t"], ["b"])]
    function = helper.make_function("mine", "F", ["a"], ["b"], body, opsets[:1])
    node = helper.make_node("F", ["x"], ["y"], domain="mine")
    toy = model([node], [info("x", 4)], [info("y", 4)], functions=[function], opset_imports=opsets)
    assert from_onnx(toy).op_kinds == ("Sin", "Cos")
    strings = info("s", 3, kind=TensorProto.STRING)
    assert from_onnx(model([], [strings], [strings])).size.tolist() == [48]


def test_packed_types_and_external_weights():
    assert from_onnx(model([], [info("x", 3, kind=TensorProto.INT4)], [])).size.tolist() == [2]
    weight = TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="nowhere.bin")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = from_onnx(model([node], [info("x", 4)], [info("y", 4)], [weight]))
    assert graph.size.tolist() == [16, 16, 16]


def test_an_unknown_op_needs_its_shape():
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("vendor", 1)]
    nodes = [
        helper.make_node("Magic", ["x"], ["h"], domain="vendor"),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    toy = model(nodes, [info("x", 4)], [info("y", 4)], opset_imports=opsets)
    with pytest.raises(ImporterError, match=r"'h' .an output of a Magic node") as caught:
        from_onnx(toy)
    assert "\n" not in str(caught.value)
    toy.graph.value_info.append(info("h", 4))
    assert from_onnx(toy).op_kinds == ("Magic", "Relu")


def test_bad_files_are_one_clear_line(tmp_path):
    garbage, empty = tmp_path / "garbage.onnx", tmp_path / "empty.onnx"
    garbage.write_bytes(b"\xff\x00 not a model \x07" * 9)
    empty.write_bytes(b"")
    for path in (garbage, empty):
        with pytest.raises(ImporterError, match="not an ONNX model") as caught:
            import_graph(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(ImporterError, match="no such file"):
        from_onnx(tmp_path / "none.onnx")


def test_a_name_that_nothing_makes_is_an_error():
    toy = model([helper.make_node("Relu", ["z"], ["y"])], [info("x", 4)], [info("y", 4)])
    with pytest.raises(ImporterError, match=r"reads 'z'"):
        from_onnx(toy)


def test_every_model_in_the_wheel_imports():
    assert WHEEL
    for path in WHEEL:
        graph = import_graph(path, dimensions={"*": 1})
        assert np.isfinite(graph.duration).all(), path
        assert graph.num_tensors, path


def test_resnet50_has_its_weights_and_flops():
    path = next(path for path in WHEEL if path.name == "light_resnet50.onnx")
    graph = from_onnx(path, profile=SLOW)
    convolutions = [i for i, kind in enumerate(graph.op_kinds) if kind == "Conv"]
    assert len(convolutions) == 53
    assert graph.duration[convolutions].sum() == pytest.approx(7.7e9, rel=0.1)


@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_the_node_tests_imports():
    from onnx.backend.test.case.node import collect_testcases

    cases = collect_testcases(None)[::7]
    failures = []
    for case in cases:
        try:
            from_onnx(case.model, dimensions={"*": 1})
        except ImporterError as error:
            failures.append(str(error))
    assert len(cases) > 200
    assert len(failures) <= 2, failures
