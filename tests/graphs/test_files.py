"""regal-graph/1 files: round trips, rejections that name file, line and field, atomic writes."""

import copy
import gzip
import json
import os
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regal_jax.errors import GraphError, RegalError
from regal_jax.graphs import files
from tests.strategies import computation_graphs

DOCUMENT = {
    "format": "regal-graph/1",
    "name": "net",
    "family": "tests",
    "source": "by hand",
    "ops": {"name": ["a", "b"], "kind": ["dot", "add"], "duration": [1.5, 2], "workspace": [0, 4]},
    "tensors": {
        "producer": [0, -1],
        "size": [10, 20],
        "persistent": [False, True],
        "consumers": [[1], [0, 1]],
    },
}


def changed(path, value):
    """DOCUMENT with the value at a dotted path replaced, or removed if it is ``...``."""
    document = copy.deepcopy(DOCUMENT)
    *tables, key = path.split(".")
    target = document
    for table in tables:
        target = target[table]
    if value is ...:
        del target[key]
    else:
        target[key] = value
    return document


def write(path, *documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".jsonl.gz"])
def test_round_trip_by_hand(tmp_path, suffix):
    graph = files.graph_from_json(DOCUMENT)
    path = tmp_path / f"net{suffix}"
    files.save_graph(graph, path)
    assert files.load_graph(path) == graph
    assert files.load_graph(str(path)) == graph
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs=st.lists(computation_graphs(max_ops=6, labelled=True, machine_types=2), max_size=3))
def test_round_trip(tmp_path, suffix, graphs):
    path = tmp_path / f"graphs{suffix}"
    files.save_graphs(graphs, path)
    assert files.load_graphs(path) == graphs


@given(computation_graphs(labelled=True))
def test_json_object_round_trip(graph):
    document = json.loads(json.dumps(files.graph_to_json(graph)))
    assert files.graph_from_json(document) == graph


def test_values_read():
    graph = files.graph_from_json(DOCUMENT)
    assert (graph.name, graph.family, graph.source) == ("net", "tests", "by hand")
    assert graph.op_names == ("a", "b")
    assert graph.op_kinds == ("dot", "add")
    np.testing.assert_array_equal(graph.duration, [1.5, 2.0])
    np.testing.assert_array_equal(graph.workspace, [0, 4])
    np.testing.assert_array_equal(graph.persistent, [False, True])
    assert graph.consumers.row(1).tolist() == [0, 1]
    assert graph.capacity is None


@pytest.mark.parametrize("column", ["name", "kind", "duration", "workspace", "machine_type"])
def test_any_one_op_column_is_enough(column):
    value = ["a", "b"] if column in ("name", "kind") else [0, 0]
    graph = files.graph_from_json(changed("ops", {column: value}))
    assert graph.num_ops == 2
    np.testing.assert_array_equal(graph.demand, [1, 1])
    np.testing.assert_array_equal(graph.duration, [0, 0] if column == "duration" else [1, 1])


def test_unknown_keys_are_kept():
    document = changed("remark", {"deep": [1, None]})
    document["ops"]["line"] = [7, 8]
    document["tensors"]["name"] = ["x", "w"]
    graph = files.graph_from_json(document)
    written = files.graph_to_json(graph)
    assert written["remark"] == {"deep": [1, None]}
    assert written["ops"]["line"] == [7, 8]
    assert written["tensors"]["name"] == ["x", "w"]
    assert files.graph_from_json(written) == graph


def test_blank_lines_are_skipped_but_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    good, bad = json.dumps(DOCUMENT), json.dumps(changed("tensors.size", [1, -2]))
    path.write_text(f"\n{good}\n\n{bad}\n")
    with pytest.raises(GraphError, match=r"line 4, tensors\.size"):
        files.load_graphs(path)
    path.write_text(f"{good}\r\n\r\n{good}")
    assert len(files.load_graphs(path)) == 2


REJECTIONS = {
    "another format": ("format", "regal-graph/2", "format: is 'regal-graph/2'"),
    "no format": ("format", ..., "format: is None"),
    "no ops": ("ops", ..., "ops: is required"),
    "ops is a list": ("ops", [1], "ops: is required and must be an object"),
    "no op column": ("ops", {"line": [1, 2]}, "ops: needs at least one of"),
    "no tensors": ("tensors", ..., "tensors: is required"),
    "no producer": ("tensors.producer", ..., "tensors.producer: is required"),
    "no size": ("tensors.size", ..., "tensors.size: is required"),
    "no consumers": ("tensors.consumers", ..., "tensors.consumers: is required"),
    "null column": ("tensors.persistent", None, "tensors.persistent: must be a list"),
    "column is a number": ("tensors.size", 3, "tensors.size: must be a list"),
    "cycle": ("tensors.consumers", [[0], []], "tensors.consumers: the ops form a cycle"),
    "consumer out of range": ("tensors.consumers", [[2], []], "tensors.consumers: index 2"),
    "producer out of range": ("tensors.producer", [2, -1], "tensors.producer: index 2"),
    "negative": ("tensors.size", [1, -1], "tensors.size: entry 1 .-1. is negative"),
    "nan": ("ops.duration", [float("nan"), 1], "ops.duration: entry 0 .nan. is not a finite"),
    "infinite": ("ops.duration", [float("inf"), 1], "ops.duration: entry 0 .inf. is not a finite"),
    "null entry": ("ops.duration", [None, 1], "ops.duration: "),
    "unequal ops": ("ops.workspace", [1], "ops.workspace: has 1 entries for 2 ops"),
    "unequal tensors": ("tensors.size", [1], "tensors.size: has 1 entries for 2 tensors"),
    "over 2**53": ("tensors.size", [1, 2**53 + 1], "tensors.size: holds an integer out of range"),
    "over 2**64": ("tensors.size", [1, 2**64], "tensors.size: holds an integer over"),
    "boolean": ("tensors.size", [1, True], "tensors.size: holds a boolean"),
    "integer flag": ("tensors.persistent", [0, 1], "tensors.persistent: must hold booleans"),
    "nested consumers": ("tensors.consumers", [[[1]], []], "tensors.consumers: must be a flat"),
    "object consumers": ("tensors.consumers", [{}, []], "tensors.consumers: must hold one list"),
    "names": ("ops.name", [1, 2], "ops.name: must hold strings only"),
    "name": ("name", 3, "name: must be a string"),
    "capacity": ("capacity", 3, "capacity: must be a list"),
    "capacity missing a type": ("capacity", [], "ops.machine_type: index 0"),
}


@pytest.mark.parametrize("case", REJECTIONS)
def test_rejections_name_file_line_field_and_reason(tmp_path, case):
    where, value, message = REJECTIONS[case]
    path = write(tmp_path / "bad.jsonl", DOCUMENT, changed(where, value))
    with pytest.raises(GraphError, match=f"bad.jsonl, line 2, {message}") as caught:
        files.load_graphs(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "{", "nonsense", '{"format": ' + "9" * 5000 + "}", "[" * 100_000]
)
def test_text_that_is_not_json(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(RegalError, match=r"a\.json, line 1: not JSON"):
        files.load_graph(tmp_path / "a.json")


@pytest.mark.parametrize("text", ["[]", "3", "NaN", '"regal-graph/1"'])
def test_json_that_is_no_object(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(GraphError, match="format: expected a JSON object"):
        files.load_graph(tmp_path / "a.json")


def test_load_graph_wants_one(tmp_path):
    path = write(tmp_path / "two.jsonl", DOCUMENT, DOCUMENT)
    with pytest.raises(RegalError, match="holds 2 graphs"):
        files.load_graph(path)
    path.write_text("")
    assert files.load_graphs(path) == []
    with pytest.raises(RegalError, match="holds 0 graphs"):
        files.load_graph(path)


def test_json_file_takes_one_graph(tmp_path):
    graph = files.graph_from_json(DOCUMENT)
    with pytest.raises(RegalError, match=r"holds one graph, not 2; use \.jsonl"):
        files.save_graphs([graph, graph], tmp_path / "a.json")
    assert os.listdir(tmp_path) == []


def test_damaged_gzip(tmp_path):
    """Cut at any place, and with a byte flipped in the middle."""
    data = gzip.compress(json.dumps(DOCUMENT).encode())
    path = tmp_path / "a.jsonl.gz"
    for end in (0, 1, 5, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        with pytest.raises(RegalError, match="truncated or damaged gzip"):
            files.load_graphs(path)
    for place in range(10, len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        with pytest.raises(RegalError):
            files.load_graphs(path)


def test_unreadable_files(tmp_path):
    with pytest.raises(RegalError, match=r"none\.json: no such file"):
        files.load_graph(tmp_path / "none.json")
    with pytest.raises(RegalError, match="is a directory"):
        files.load_graph(tmp_path)
    (tmp_path / "a.json").write_bytes(b"\xff\xfe")
    with pytest.raises(RegalError, match="not UTF-8"):
        files.load_graph(tmp_path / "a.json")


def test_gzip_output_depends_on_the_graph_alone(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        files.save_graph(files.graph_from_json(DOCUMENT), tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_places_that_cant_be_written(tmp_path):
    graph = files.graph_from_json(DOCUMENT)
    with pytest.raises(RegalError, match="can't write there: no such file or directory"):
        files.save_graph(graph, tmp_path / "missing" / "a.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(RegalError, match="can't write there: not a directory"):
        files.save_graph(graph, tmp_path / "file" / "a.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(RegalError, match="can't write there"):
        files.save_graph(graph, tmp_path / "folder.json")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_directory(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RegalError, match="permission denied"):
        files.save_graph(files.graph_from_json(DOCUMENT), tmp_path / "a.json")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failed_write_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "a.json"
    path.write_text("old")

    def write_half(file):
        file.write(b"ne")
        raise error

    expected = RegalError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        files.write_atomically(path, write_half)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="only Linux has nameless files")
def test_a_killed_writer_leaves_nothing(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    code = f"""
import os, signal
from regal_jax.graphs import files
def write(file):
    file.write(b"half" * 100_000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
files.write_atomically({str(path)!r}, write)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("nameless", [True, False])
def test_a_file_without_a_name_or_with_one(tmp_path, monkeypatch, nameless):
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "a.json"
    for text in (b"old", b"new"):
        files.write_atomically(path, lambda file, text=text: file.write(text))
        assert path.read_bytes() == text
    with pytest.raises(ZeroDivisionError):
        files.write_atomically(path, lambda file: 1 / 0)
    assert os.listdir(tmp_path) == ["a.json"]


def test_new_files_have_ordinary_permissions(tmp_path):
    """Not those of a private temporary file."""
    path = tmp_path / "a.json"
    path.touch()
    ordinary = stat.S_IMODE(path.stat().st_mode)
    files.save_graph(files.graph_from_json(DOCUMENT), path)
    assert stat.S_IMODE(path.stat().st_mode) == ordinary
