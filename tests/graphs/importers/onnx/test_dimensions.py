import pytest

from regal_jax.cli import main
from regal_jax.errors import ImporterError, OptionError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from regal_jax.compiler.onnx.reorder import reorder_onnx  # noqa: E402
from regal_jax.graphs.importers.onnx.model import from_onnx  # noqa: E402
from tests.graphs.importers.onnx.models import info, model  # noqa: E402


def relu(*shape):
    node = helper.make_node("Relu", ["x"], ["y"])
    return model([node], [info("x", *shape)], [info("y", *shape)])


def image():
    """One input of four dimensions, none of which is known in the same way."""
    proto = relu("batch", "?", 320, "width")
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[2].dim_value = -1
    return proto


@pytest.mark.parametrize("read", [from_onnx, reorder_onnx])
def test_every_unset_dimension_of_the_inputs_is_asked_for_at_once(read):
    match = (
        r"unknown dimensions: 'batch' of 'x', 'x\[1\]' of 'x', 'x\[2\]' of 'x', 'width' of 'x'; "
        r".*dimensions=\{'batch': 8, 'x\[1\]': 8, .*--dimensions='batch=8,x\[1\]=8,"
    )
    with pytest.raises(ImporterError, match=match):
        read(image())
    with pytest.raises(ImporterError, match=r"'x\[2\]' of 'x'; it has no 'height'; give"):
        read(image(), dimensions={"batch": 2, "x[1]": 3, "height": 5, "width": 7})
    with pytest.raises(ImporterError, match=r"'n' is none of the model's, which are 'batch', "):
        read(image(), dimensions={"n": 3, "batch": 2, "*": 1})


def test_sizes_are_those_given():
    sizes = {"batch": 2, "x[1]": 3, "x[2]": 5, "width": 7}
    graph = from_onnx(image(), dimensions=sizes)
    assert graph.size.tolist() == [4 * 2 * 3 * 5 * 7] * 2
    assert "assumed_dimensions" not in graph.extra[""]
    assert reorder_onnx(image(), dimensions=sizes)[1].peak_before == 2 * 4 * 2 * 3 * 5 * 7


def test_a_star_is_all_others_and_they_are_listed():
    graph = from_onnx(image(), dimensions={"batch": 2, "*": 3})
    assert graph.size.tolist() == [4 * 2 * 3**3] * 2
    assert graph.extra[""]["assumed_dimensions"] == {"x[1]": 3, "x[2]": 3, "width": 3}


def test_a_place_sizes_its_symbol_elsewhere():
    nodes = [helper.make_node("Mystery", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    proto = model(nodes, [info("x", "n")], [info("y", "n")])
    proto.graph.value_info.append(info("h", "n"))
    assert from_onnx(proto, dimensions={"x[0]": 5}).size.tolist() == [20, 20, 20]


def test_a_stored_input_is_as_large_as_its_tensor():
    weight = helper.make_tensor("w", TensorProto.FLOAT, [5000], bytes(20000), raw=True)
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    proto = model(nodes, [info("x", 5000), info("w", "n")], [info("y", 5000)], [weight])
    assert from_onnx(proto).size.tolist() == [20000, 20000, 20000]


@pytest.mark.parametrize("read", [from_onnx, reorder_onnx])
def test_dimensions_that_depend_on_data_are_asked_for_by_place(read):
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
    toy = model([helper.make_node("NonZero", ["x"], ["y"])], [info("x", 4, 3)], outputs)
    with pytest.raises(ImporterError, match=r"unknown dimensions: .* of 'y'; give"):
        read(toy)
    read(toy, dimensions={"y[1]": 5})
    assert from_onnx(toy, dimensions={"y[1]": 5}).size.tolist() == [48, 2 * 5 * 8]


@pytest.mark.parametrize("size", [0, -1, 1.5, "8", None])
def test_sizes_are_whole_numbers(size):
    with pytest.raises(OptionError, match="dimensions: 'batch' must be a whole number >= 1, got"):
        from_onnx(image(), dimensions={"batch": size})


@pytest.mark.parametrize("command", ["info", "schedule", "import", "check"])
def test_the_command_line_has_the_same_dimensions(tmp_path, capsys, command):
    path, schedule = tmp_path / "x.onnx", tmp_path / "s.json"
    onnx.save(relu("batch", 4), path)
    extra = {"import": [f"--output={tmp_path / 'x.json'}"], "check": [str(schedule)]}
    arguments = [command, str(path), *extra.get(command, [])]
    if command == "check":
        made = ["schedule", str(path), "--dimensions=batch=2", f"--output={schedule}"]
        assert main(made) == 0
        capsys.readouterr()
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "unknown dimensions: 'batch' of 'x'" in error
    assert len(error.splitlines()) == 1
    assert main([*arguments, "--dimensions=batch=2"]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch", "'batch' is not NAME=SIZE"),
        ("batch=", "'batch=' is not NAME=SIZE"),
        ("=3", "'=3' is not NAME=SIZE"),
        ("batch=-1", "'batch=-1' is not NAME=SIZE"),
        (f"batch={'9' * 5000}", "is not NAME=SIZE"),
        ("batch=1,batch=2", "'batch' twice"),
        ("batch=0", "must be a whole number >= 1, got 0"),
        ("batch=999999999999999999", "x.onnx: "),
    ],
)
def test_bad_dimensions_are_one_line(tmp_path, capsys, text, message):
    onnx.save(relu("batch", 4), tmp_path / "x.onnx")
    assert main(["info", str(tmp_path / "x.onnx"), f"--dimensions={text}"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_only_models_with_symbols_have_dimensions(tmp_path, capsys):
    for arguments in (["info", "g.json"], ["import", "g.txt", "--psplib", "--output=o.json"]):
        assert main([*arguments, "--dimensions=batch=1"]) == 2
        assert "dimensions" in capsys.readouterr().err
