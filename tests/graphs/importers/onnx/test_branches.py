import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from regal_jax.graphs.importers.onnx.model import from_onnx  # noqa: E402
from tests.graphs.importers.onnx.models import array, info, model  # noqa: E402


def branch(name, *kinds, reads="x", output=4, initializer=()):
    """A chain of ops, whose values have the same names in every branch."""
    names = [reads, *(f"t{index}" for index in range(len(kinds)))]
    nodes = [helper.make_node(k, [names[i]], [names[i + 1]]) for i, k in enumerate(kinds)]
    return helper.make_graph(nodes, name, [], [info(names[-1], output)], initializer)


def choice(condition, output, then, orelse):
    return helper.make_node("If", [condition], [output], then_branch=then, else_branch=orelse)


BOOL = TensorProto.BOOL
TRUE, FALSE = array("true", np.array(True)), array("false", np.array(False))
INPUTS = [info("x", 4), info("p", kind=BOOL)]


@pytest.mark.filterwarnings("error")
def test_a_constant_condition_is_its_branch():
    nodes = [
        choice("true", "a", branch("t", "Exp", "Sin"), branch("e", "Cos")),
        choice("false", "b", branch("t", "Exp", "Sin"), branch("e", "Cos", reads="a")),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    graph = from_onnx(model(nodes, INPUTS, [info("y", 4)], [TRUE, FALSE]))
    assert graph.op_kinds == ("Exp", "Sin", "Cos", "Relu")
    assert graph.size[-4:].tolist() == [16] * 4


@pytest.mark.filterwarnings("error")
def test_conditions_are_computed_and_branches_nested():
    weight = array("w", np.zeros(4, np.float32))
    inner = choice("q", "t0", branch("t", "Exp"), branch("e", "Cos", "Sin", reads="u"))
    names = [
        helper.make_node("Not", ["true"], ["q"]),
        helper.make_node("Add", ["x", "w"], ["u"]),
        inner,
    ]
    outer = helper.make_graph(names, "outer", [], [info("t0", 4)], [weight])
    nodes = [choice("true", "y", outer, branch("e", "Cos"))]
    graph = from_onnx(model(nodes, INPUTS, [info("y", 4)], [TRUE]))
    assert graph.op_kinds == ("Add", "Cos", "Sin")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", [True, False])
def test_the_only_branch_that_computes_is_taken(first):
    busy, idle = branch("busy", "Exp", "Sin"), branch("idle", "Identity")
    node = choice("p", "y", *((busy, idle) if first else (idle, busy)))
    assert from_onnx(model([node], INPUTS, [info("y", 4)])).op_kinds == ("Exp", "Sin")


def test_two_live_branches_are_one_op_that_says_so():
    node = choice("p", "y", branch("t", "Exp", "Sin"), branch("e", "Cos"))
    with pytest.warns(UserWarning, match="'y' hides 3"):
        graph = from_onnx(model([node], INPUTS, [info("y", 4)]))
    assert graph.op_kinds == ("If",)


def test_what_loops_inside_of_bodies_hide_counts():
    loop = helper.make_node("Loop", ["n", "", "x"], ["t0"], body=_step())
    body = helper.make_graph([loop], "with_loop", [], [info("t0", 4)])
    node = choice("p", "y", body, branch("e", "Cos"))
    inputs = [*INPUTS, info("n", kind=TensorProto.INT64)]
    with pytest.warns(UserWarning, match="'y' hides 4"):
        from_onnx(model([node], inputs, [info("y", 4)]))


def _step():
    nodes = [
        helper.make_node("Identity", ["go"], ["again"]),
        helper.make_node("Tanh", ["state"], ["half"]),
        helper.make_node("Tanh", ["half"], ["next"]),
    ]
    inputs = [info("i", kind=TensorProto.INT64), info("go", kind=BOOL), info("state", 4)]
    return helper.make_graph(nodes, "step", inputs, [info("again", kind=BOOL), info("next", 4)])
