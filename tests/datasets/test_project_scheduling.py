"""Project scheduling: PSPLIB files, task graphs on processors, random projects."""

import gzip
import json
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.datasets.project_networks import project_network
from regal_jax.datasets.project_scheduling import (
    load_psplib,
    random_project,
    read_project,
)
from regal_jax.errors import OptionError, RegalError

STARS = "*" * 72
PROJECT = f"""{STARS}
file with basedata            : small.bas
initial value random generator: 28123
{STARS}
projects                      :  1
jobs (incl. supersource/sink ):  6
horizon                       :  30
RESOURCES
  - renewable                 :  2   R
  - nonrenewable              :  0   N
  - doubly constrained        :  0   D
{STARS}
PROJECT INFORMATION:
pronr.  #jobs rel.date duedate tardcost  MPM-Time
    1      4      0       38       26       38
{STARS}
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
   1        1          2           2   3
   2        1          1           4
   3        1          2           4   5
   4        1          1           6
   5        1          1           6
   6        1          0
{STARS}
REQUESTS/DURATIONS:
jobnr. mode duration  R 1  R 2
{"-" * 72}
  1      1     0       0    0
  2      1     8       4    0
  3      1     4       0    7
  4      1     6       0    0
  5      1     3       3    0
  6      1     0       0    0
{STARS}
RESOURCEAVAILABILITIES:
  R 1  R 2
   12   13
{STARS}
"""

INSTANCE = {
    "name": "j30_1_1",
    "durations": [8, 4, 6],
    "demands": [[4, 0], [0, 3], [0, 0]],
    "capacities": [12, 13],
    "edges": [[0, 1], [1, 2]],
    "critical_path_length": 18,
    "energy_bound": 3,
    "published_lower_bound": 20,
    "published_upper_bound": 21,
}


def write(path, records):
    path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in records).encode()))


def test_single_mode_file(tmp_path):
    path = tmp_path / "j301_1.sm"
    path.write_text(PROJECT)
    graph = read_project(path)
    assert graph.op_pairs.tolist() == [[0, 2], [1, 2], [1, 3]]
    assert graph.duration.tolist() == [8, 4, 6, 3]
    assert graph.machine_type.tolist() == [0, 1, 0, 0]
    assert graph.demand.tolist() == [4, 7, 0, 3]
    assert graph.capacity.tolist() == [12, 13]
    assert (graph.name, graph.family) == ("j301_1", "psplib")
    assert read_project(PROJECT).fingerprint == graph.fingerprint


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("8       4    0", "8       4    1", "line 30: job 2 uses resources 1 and 2; an op"),
        ("   3        1", "   3        2", "line 21: job 3 has 2 modes"),
        ("   3        1", "   9        1", "line 21: must be job 3"),
        ("2           4   5", "3           4   5", "line 21: must be job 3, its modes"),
        ("           4   5", "           4   7", r"edges: edge 2 \[1, 5\]: not all in"),
        ("  2      1     8", "  2      2     8", "line 30: must be job 2, 1, and 3 numbers"),
        ("0    7", "0    x", "line 31: must hold integers"),
        ("0    7", "7", "line 31: must be job 3"),
        ("  6      1     0", "  6      1     2", "line 34: the first and the last job"),
        ("  6      1     0       0    0\n", "", "6 jobs precede others, 5 make requests"),
        ("nonrenewable              :  0", "nonrenewable              :  2", "line 10: a machine"),
        ("RESOURCEAVAILABILITIES:", "", "no numbers under RESOURCEAVAILABILITIES"),
        ("   5        1          1           6", "   5        1          1           3", "cycle"),
    ],
)
def test_bad_files(tmp_path, old, new, message):
    path = tmp_path / "bad.sm"
    assert PROJECT.count(old) >= 1
    path.write_text(PROJECT.replace(old, new, 1))
    with pytest.raises(RegalError, match=rf"bad\.sm(, |: ).*{message}"):
        read_project(path)


def test_psplib_sets(tmp_path):
    """Instances with an activity of several resources are left out; open bounds are filled in."""
    several = INSTANCE | {"demands": [[4, 0], [1, 3], [0, 0]]}
    unknown = INSTANCE | {"name": "open", "published_lower_bound": None}
    write(tmp_path / "j30.jsonl.gz", [INSTANCE, several, unknown])
    (graph, bounds), (other, trivial) = load_psplib(tmp_path, "j30")
    assert bounds == (20, 21)
    assert trivial == (18, 21)
    assert graph.machine_type.tolist() == [0, 1, 0]
    assert graph.demand.tolist() == [4, 3, 0]
    assert graph.capacity.tolist() == [12, 13]
    assert graph.op_pairs.tolist() == [[0, 1], [1, 2]]
    assert other.fingerprint == graph.fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"demands": [[4, 0], [0, 3]]}, "line 2, ops.machine_type: has 2 entries"),
        ({"demands": [[4, 0], [0, 3], [0]]}, "line 2, demands: must be rows"),
        ({"demands": [4, 3, 0]}, "line 2, demands: must be rows"),
        ({"demands": [[4, 0], [0, -3], [0, 0]]}, "line 2, ops.demand: entry 1"),
        ({"demands": [[4, 0, 0], [0, 0, 3], [0, 0, 0]]}, "line 2, ops.machine_type: index 2"),
        ({"edges": [[0, 3]]}, "line 2, edges"),
    ],
)
def test_bad_instances(tmp_path, change, message):
    write(tmp_path / "j30.jsonl.gz", [INSTANCE, INSTANCE | change])
    with pytest.raises(RegalError, match=rf"j30\.jsonl\.gz, {message}"):
        load_psplib(tmp_path, "j30")


def test_missing_bound(tmp_path):
    write(tmp_path / "j30.jsonl.gz", [{k: v for k, v in INSTANCE.items() if k != "energy_bound"}])
    with pytest.raises(RegalError, match="line 1: energy_bound is required"):
        load_psplib(tmp_path, "j30")


def digraph(num_ops, arcs):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(num_ops))
    graph.add_edges_from(arcs)
    return graph


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([0.0, 1.5, 1.8, 2.1, 5.0]))
def test_networks_have_no_redundant_arc(seed, num_ops, complexity):
    arcs = project_network(np.random.default_rng(seed), num_ops, complexity)
    assert all(before < after for before, after in arcs)
    assert len(set(arcs)) == len(arcs)
    graph = digraph(num_ops, arcs)
    assert set(nx.transitive_reduction(graph).edges) == set(arcs)
    ends = min(3, max(num_ops // 3, 1))
    assert [op for op in graph if graph.in_degree(op) == 0] == list(range(ends))
    assert [op for op in graph if graph.out_degree(op) == 0] == list(range(num_ops - ends, num_ops))


@pytest.mark.parametrize(("num_ops", "arcs"), [(30, (42, 52, 62)), (60, (87, 106, 125))])
def test_networks_have_as_many_arcs_as_those_of_psplib(num_ops, arcs):
    for complexity, expected in zip((1.5, 1.8, 2.1), arcs, strict=True):
        found = [
            project_network(np.random.default_rng(seed), num_ops, complexity) for seed in range(15)
        ]
        assert np.median([len(network) for network in found]) == expected
        degrees = [d for arcs in found for _, d in digraph(num_ops, arcs).out_degree]
        assert np.mean(np.array(degrees) <= 3) > 0.99


def test_random_projects():
    graphs = [random_project((7, index), 30) for index in range(60)]
    assert len({graph.fingerprint for graph in graphs}) == 60
    assert random_project((7, 3), 30) == graphs[3]
    for column in ("duration", "demand"):
        values = np.concatenate([getattr(graph, column) for graph in graphs])
        assert set(values.tolist()) == set(range(1, 11))
        assert abs(values.mean() - 5.5) < 0.35  # 1,800 of deviation 2.9: five standard errors
    types = np.bincount(np.concatenate([graph.machine_type for graph in graphs]))
    assert np.all(np.abs(types - 450) < 95)
    assert graphs[3].name == "project 30 7-3"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.sampled_from([0.0, 0.3, 1.0]))
def test_resource_strength(seed, num_ops, strength):
    """Capacities against the peaks of the earliest-start schedule, time unit by time unit."""
    graph = random_project(seed, num_ops, strength=strength)
    start = np.zeros(num_ops, int)
    for before, after in graph.op_pairs:
        start[after] = max(start[after], start[before] + int(graph.duration[before]))
    for resource in range(4):
        own = np.flatnonzero(graph.machine_type == resource)
        use = np.zeros(int((start + graph.duration).max()), int)
        for op in own:
            use[start[op] : start[op] + int(graph.duration[op])] += graph.demand[op]
        least = graph.demand[own].max(initial=0)
        expected = least + strength * (use.max() - least)
        assert abs(graph.capacity[resource] - max(expected, 1)) <= 0.5
    assert math.isfinite(graph.capacity.sum())


@pytest.mark.parametrize(
    "options", [{"num_ops": 0}, {"complexity": -1.0}, {"strength": 1.5}, {"strength": math.nan}]
)
def test_option_errors(options):
    with pytest.raises(OptionError):
        random_project(0, **{"num_ops": 9, **options})
