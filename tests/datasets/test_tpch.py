"""TPC-H graphs: reading records, converting them, unions of random queries."""

import gzip
import json

import numpy as np
import pytest

from regal_jax.datasets.tpch import (
    convert_tpch,
    load_queries,
    load_tpch,
    random_tpch,
    tpch_graph,
)
from regal_jax.errors import GraphError, OptionError, RegalError
from regal_jax.graphs import files

RECORD = {
    "name": "tpch50_test_00",
    "split": "test",
    "queries": [["2g", 1], ["5g", 9]],
    "resource_limit": 6000,
    "durations": [4041.75, 247.5, 46.0, 230.0, 10.5],
    "resources": [12, 200, 200, 5, 593],
    "edges": [[1, 2], [0, 1], [2, 3]],
}

QUERIES = [
    {"size": "2g", "query": 1, "durations": [3.5, 1], "resources": [2, 7], "edges": [[0, 1]]},
    {"size": "5g", "query": 4, "durations": [2.0], "resources": [600], "edges": []},
    {
        "size": "2g",
        "query": 2,
        "durations": [1.0, 2.0, 3.0],
        "resources": [1, 2, 3],
        "edges": [[0, 2], [1, 2]],
    },
]


def write(path, records):
    path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in records).encode()))
    return path


def test_graph_of_a_record():
    graph = tpch_graph(RECORD)
    assert graph.op_pairs.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert graph.duration.tolist() == RECORD["durations"]
    assert graph.demand.tolist() == RECORD["resources"]
    assert graph.machine_type.tolist() == [0] * 5
    assert graph.capacity.tolist() == [6000]
    assert graph.size.tolist() == [0] * 5
    assert (graph.name, graph.family) == ("tpch50_test_00", "tpch")
    assert graph.extra[""]["queries"] == RECORD["queries"]


def test_load(tmp_path):
    other = RECORD | {"name": "other"}
    other.pop("queries")
    write(tmp_path / "tpch50_test.jsonl.gz", [RECORD, other])
    first, second = load_tpch(tmp_path, 50, "test")
    assert first == tpch_graph(RECORD)
    assert second.fingerprint == first.fingerprint
    with pytest.raises(RegalError, match=r"tpch100_train\.jsonl\.gz: no such file"):
        load_tpch(tmp_path, 100, "train")


@pytest.mark.parametrize(("queries", "split"), [(60, "test"), (50, "valid")])
def test_option_errors(tmp_path, queries, split):
    with pytest.raises(OptionError):
        load_tpch(tmp_path, queries, split)


def test_convert(tmp_path):
    source, output = write(tmp_path / "in.jsonl.gz", [RECORD]), tmp_path / "out.jsonl.gz"
    convert_tpch(source, output)
    assert files.load_graphs(output) == [tpch_graph(RECORD)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"durations": None}, "ops.duration: must be a list"),
        ({"durations": [1.0, 2.0]}, r"edges: edge 0 \[1, 2\]: not all in \[0, 2\)"),
        ({"durations": [1.0, 2.0, "x", 4.0, 5.0]}, "ops.duration: must hold numbers"),
        ({"durations": [1.0, 2.0, -3.0, 4.0, 5.0]}, "ops.duration: entry 2"),
        ({"resources": [1, 2]}, "ops.demand: has 2 entries for 5 ops"),
        ({"resources": [1, 2, 3, 4, 0.5]}, "ops.demand: must hold integers"),
        ({"edges": [[0, 1], [1, 0]]}, "tensors.consumers: the ops form a cycle"),
        ({"edges": [[0, 5]]}, r"edges: edge 0 \[0, 5\]: not all in"),
        ({"edges": [[0, -1]]}, r"edges: edge 0 \[0, -1\]"),
        ({"edges": [[0, 1], [2]]}, "edges: must be pairs"),
        ({"edges": [[0, 1, 2]]}, "edges: must be pairs"),
        ({"edges": [0, 1]}, "edges: must be pairs"),
        ({"edges": [[0.0, 1.5]]}, "edges: must hold integers"),
        ({"edges": "ab"}, "edges: must be pairs"),
        ({"resource_limit": "many"}, "capacity: must hold integers"),
        ({"name": 3}, "a JSON object, and its name a string"),
    ],
)
def test_bad_records(tmp_path, change, message):
    path = write(tmp_path / "tpch50_test.jsonl.gz", [RECORD, RECORD | change])
    with pytest.raises(RegalError, match=rf"tpch50_test\.jsonl\.gz, line 2(, |: ).*{message}"):
        load_tpch(tmp_path, 50, "test")
    assert path.exists()


@pytest.mark.parametrize("key", ["name", "durations", "resources", "edges", "resource_limit"])
def test_missing_columns(tmp_path, key):
    record = {k: v for k, v in RECORD.items() if k != key}
    write(tmp_path / "tpch50_test.jsonl.gz", [record])
    with pytest.raises(RegalError, match=f"line 1: {key} is required"):
        load_tpch(tmp_path, 50, "test")


@pytest.mark.parametrize("line", ["{", "[1]", "3"])
def test_not_json_objects(tmp_path, line):
    path = tmp_path / "queries.jsonl"
    path.write_text(json.dumps(QUERIES[0]) + "\n\n" + line + "\n")
    with pytest.raises(RegalError, match=r"queries\.jsonl, line 3: "):
        load_queries(path)


def test_bad_queries(tmp_path):
    bad = QUERIES[0] | {"edges": [[0, 2]]}
    with pytest.raises(GraphError, match=r"line 2, edges: edge 0 \[0, 2\]"):
        load_queries(write(tmp_path / "queries.jsonl.gz", [QUERIES[0], bad]))
    no_number = {key: value for key, value in QUERIES[0].items() if key != "query"}
    with pytest.raises(RegalError, match="line 1: query is required"):
        load_queries(write(tmp_path / "queries.jsonl.gz", [no_number]))


def test_random_union(tmp_path):
    """Query after query, as drawn."""
    records = load_queries(write(tmp_path / "queries.jsonl.gz", QUERIES))
    graph = random_tpch(records, 40, (3, 1))
    by_name = {(query["size"], query["query"]): query for query in QUERIES}
    drawn = [by_name[tuple(name)] for name in graph.extra[""]["queries"]]
    assert len(drawn) == 40
    assert len({query["query"] for query in drawn}) == 3
    first, edges = 0, []
    for query in drawn:
        here = slice(first, first + len(query["durations"]))
        assert graph.duration[here].tolist() == query["durations"]
        assert graph.demand[here].tolist() == query["resources"]
        edges += [[before + first, after + first] for before, after in query["edges"]]
        first = here.stop
    assert graph.num_ops == first
    assert graph.op_pairs.tolist() == edges
    assert graph.capacity.tolist() == [6000]
    assert graph.name == "tpch 40 3-1"


def test_random_seeds():
    graphs = [random_tpch(QUERIES, 30, (0, index)) for index in range(20)]
    assert len({graph.fingerprint for graph in graphs}) == 20
    assert random_tpch(QUERIES, 30, (0, 4)) == graphs[4]
    counts = np.bincount([query for g in graphs for _, query in g.extra[""]["queries"]])[[1, 2, 4]]
    assert np.all(np.abs(counts - 200) < 60)  # 600 draws of three: five standard deviations


@pytest.mark.parametrize(("records", "count"), [([], 3), (QUERIES, 0)])
def test_nothing_to_draw(records, count):
    with pytest.raises(OptionError):
        random_tpch(records, count, 0)
