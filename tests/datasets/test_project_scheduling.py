"""Project scheduling: PSPLIB's files."""

import gzip
import json

import pytest

from regal_jax.datasets.project_scheduling import (
    load_psplib,
    read_project,
)
from regal_jax.errors import RegalError

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
