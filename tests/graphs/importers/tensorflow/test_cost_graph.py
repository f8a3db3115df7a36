from pathlib import Path

import pytest

from regal_jax.errors import GraphError, ImporterError
from regal_jax.graphs.importers.any_file import import_graph
from regal_jax.graphs.importers.tensorflow.cost_graph import from_cost_graph
from regal_jax.graphs.importers.tensorflow.protobuf import parse

EXAMPLE = Path(__file__).parent / "data" / "regal_example.pbtxt"


def consumers(graph):
    return [graph.consumers.row(t).tolist() for t in range(graph.num_tensors)]


def test_regal_example_is_read_by_ids_with_one_control_tensor():
    graph = import_graph(EXAMPLE)
    assert graph.name == "regal_example"
    assert graph.op_names == ("_SOURCE", "node_0", "node_1", "node_2", "node_3")
    assert graph.duration.tolist() == [0, 0, 58, 47, 58]
    assert graph.producer.tolist() == [2, 3, 4, 0]
    assert graph.size.tolist() == [70, 52, 55, 0]
    assert consumers(graph) == [[4], [], [], [1, 2, 3, 4]]


def test_aliases_workspace_final_and_persistent_memory():
    graph = from_cost_graph(
        """
        node { name: "c" id: 7 input_info { preceding_node: 5 } is_final: true
               output_info { alias_input_port: 0 } output_info { size: 8 alias_input_port: -1 } }
        node: { name: 'b' id: 5 input_info { preceding_node: 3 preceding_port: 1 }
                output_info { size: 99 } temporary_memory_size: 5 host_temp_memory_size: 2 }
        node < name: "a" id: 3 output_info { size: 1 alias_input_port: -1 }
               output_info { size: 0x10 }; persistent_memory_size: 6, compute_cost: 4 >
        """
    )
    assert graph.workspace.tolist() == [0, 7, 0]
    assert graph.producer.tolist() == [0, 2, 2, 2]
    assert graph.size.tolist() == [8, 1, 16, 6]
    assert graph.persistent.tolist() == [True, False, True, True]
    assert consumers(graph) == [[], [], [0, 1], []]


def test_text_format_tokens():
    """Escapes, adjacent strings, comments, lists, and fields that this reader doesn't know."""
    node = parse(
        r"""node { name: "x\n\"\x41\101" 'y'  # comment
        control_input: -3 control_input: [1, 2] dtype: NAME b < d: true, c: 2.5e1 e: -inf > }
        versions { producer: 1 }"""
    ).node[0]
    assert node.name == 'x\n"AAy'
    assert list(node.control_input) == [-3, 1, 2]
    assert not node.HasField("compute_cost")


def test_the_last_value_of_a_field_counts():
    (node,) = parse("node { id: 1 id: 2 is_final: true is_final: false }").node
    assert (node.id, node.is_final) == (2, False)


def test_a_binary_file_is_the_same_graph(tmp_path):
    path = tmp_path / "regal_example.pb"
    path.write_bytes(parse(EXAMPLE.read_text()).SerializeToString())
    assert import_graph(path) == import_graph(EXAMPLE)


def test_wire_format_by_hand(tmp_path):
    """id 3, compute_cost 300, is_final, control inputs packed, and a field of another version."""
    path = tmp_path / "one.pb"
    path.write_bytes(bytes([0x0A, 12, 0x18, 3, 0x48, 0xAC, 2, 0x38, 1, 0x42, 1, 0, 0x70, 9]))
    with pytest.raises(ImporterError, match=r"one\.pb: node '' reads from node 0"):
        import_graph(path)
    node = parse(path.read_bytes()).node[0]
    assert (node.id, node.compute_cost, node.is_final) == (3, 300, True)


def test_a_broken_binary_file_is_named(tmp_path):
    path = tmp_path / "bad.pb"
    path.write_bytes(b"no protobuf")
    with pytest.raises(ImporterError, match=r"bad\.pb: broken protobuf"):
        import_graph(path)
    with pytest.raises(ImporterError, match=r"none\.pb: no such file"):
        import_graph(tmp_path / "none.pb")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node {\n name: 'a'\n", r'line 2: Expected "}" \(at "name: \'a\'"\)'),
        ("node {\n name 'a' }", r'line 2: Expected ":" \(at "name \'a\' }"\)'),
        ("node {\n @ }", r"line 2: Expected identifier or number, got @ \(at '@ }'\)"),
        ("node { } }", r"line 1: Expected identifier or number, got } \(at 'node { } }'\)"),
        ("cost { }", "holds no node"),
        ("node { id: 99999999999 }", "line 1: Value out of range"),
        ("node { " + "x { " * 5000, "nested too deeply"),
        ("node { id: 1 } node { id: 1 }", "two nodes have the same id"),
        ("node { name: 'a' id: 1 control_input: 9 }", "'a' reads from node 9"),
        ("node { name: 'a' input_info { } }", "reads output 0 of node 0, which has 0"),
        ("node { name: 'a' output_info { size: -1 alias_input_port: -1 } }", "size is -1"),
        (
            "node { name: 'a' compute_cost: 'x' }",
            r"line 1: Couldn't parse integer: 'x' \(at .*compute_cost",
        ),
        (
            "node { name: 'a' output_info { size: 1 alias_input_port: 2 } input_info { } }",
            "aliases",
        ),
        ("node: 5 a { }", r"line 1: Expected \"{\" \(at 'node: 5 a"),
    ],
)
def test_bad_text_is_one_clear_line(text, message):
    with pytest.raises(ImporterError, match=message) as caught:
        from_cost_graph(text)
    assert "\n" not in str(caught.value)


def test_a_cycle_names_the_file(tmp_path):
    path = tmp_path / "loop.pbtxt"
    path.write_text("node { control_input: 1 } node { id: 1 control_input: 0 }")
    with pytest.raises(GraphError, match=r"loop\.pbtxt.*cycle"):
        from_cost_graph(path)


def test_missing_and_unknown_files(tmp_path):
    with pytest.raises(ImporterError, match="no such file"):
        import_graph(tmp_path / "none.pbtxt")
    with pytest.raises(ImporterError, match=r"supported are \.json"):
        import_graph(tmp_path / "model.xyz")
