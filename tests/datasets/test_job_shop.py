"""Job shops: the published recipe, the classic instances, and text files."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.datasets.job_shop import (
    classic_bounds,
    classic_job_shops,
    job_shop_graph,
    read_job_shop,
    read_job_shops,
    uniform_job_shops,
    uniform_split,
)
from regal_jax.errors import GraphError, OptionError, RegalError
from regal_jax.graphs import files

CHECKSUMS = {
    (25, 10): (1858186, [2, 0, 3, 9, 7, 1, 8, 6, 4, 5]),
    (25, 20): (3716065, [1, 11, 0, 9, 15, 3, 18, 7, 2, 19]),
    (25, 30): (5576755, [19, 22, 28, 10, 20, 7, 2, 12, 16, 29]),
    (50, 10): (3716065, [1, 0, 9, 3, 7, 2, 8, 4, 5, 6]),
    (50, 20): (7427911, [16, 7, 11, 6, 12, 10, 1, 17, 15, 14]),
    (50, 30): (11147913, [12, 1, 25, 18, 15, 6, 22, 19, 9, 3]),
}
"""By (jobs, machines): the sum of all durations of the 150 job shops of seed 0, and the first ten
machines of the first job; the first ten durations are the same in all of them."""

FIRST_DURATIONS = [45, 48, 65, 68, 68, 10, 84, 22, 37, 88]

TWO_JOBS = "2 3\n0 5 1 2 2 4\n2 3 0 1 1 6\n"

TAILLARD = """Nb of jobs, Nb of Machines, Time seed, Machine seed, Upper bound, Lower bound :
          2           3   840612802   398197754        1231        1005
Times
 5 2 4
 3 1 6
Machines
 1 2 3
 3 1 2
"""


def arrays(seed, num_jobs, num_machines):
    rng = np.random.default_rng(seed)
    durations = rng.integers(0, 100, (num_jobs, num_machines))
    machines = np.argsort(rng.random((num_jobs, num_machines)), axis=1)
    return durations, machines


@pytest.mark.parametrize(("size", "expected"), CHECKSUMS.items())
def test_uniform_recipe(size, expected):
    graphs = uniform_job_shops(*size)
    assert len(graphs) == 150
    assert sum(graph.duration.sum() for graph in graphs) == expected[0]
    assert graphs[0].duration[:10].tolist() == FIRST_DURATIONS
    assert graphs[0].machine_type[:10].tolist() == expected[1]
    durations = np.concatenate([graph.duration for graph in graphs])
    assert (durations.min(), durations.max()) == (1, 98)


def test_uniform_split():
    train, test = uniform_split("train", 4, 3), uniform_split("test", 4, 3)
    assert (len(train), len(test)) == (100, 50)
    assert train + test == uniform_job_shops(4, 3)
    assert len({graph.fingerprint for graph in train + test}) == 150
    assert uniform_job_shops(4, 3, count=7) == train[:7]
    assert uniform_job_shops(4, 3, count=1, seed=1)[0].fingerprint != train[0].fingerprint


def test_graph_of_two_jobs():
    graph = job_shop_graph([[5, 2, 4], [3, 1, 6]], [[0, 1, 2], [2, 0, 1]], "two")
    assert graph.op_pairs.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5]]
    assert graph.machine_type.tolist() == [0, 1, 2, 2, 0, 1]
    assert graph.duration.tolist() == [5, 2, 4, 3, 1, 6]
    assert graph.capacity.tolist() == [1, 1, 1]
    assert graph.demand.tolist() == [1] * 6
    assert graph.size.tolist() == [0] * 6
    assert graph.producer.tolist() == list(range(6))
    assert graph.name == "two"


def job_shop_arrays(graph):
    """Durations and machines [jobs, machines], of which ``job_shop_graph`` makes a graph."""
    shape = (-1, len(graph.capacity))
    return graph.duration.reshape(shape), graph.machine_type.reshape(shape)


def standard_text(graph):
    """Jobs and machines, then each job's pairs of machine and duration."""
    durations, machines = job_shop_arrays(graph)
    rows = np.stack([machines, durations], axis=2).reshape(len(machines), -1)
    lines = [machines.shape, *rows.tolist()]
    return "".join(" ".join(f"{number:g}" for number in line) + "\n" for line in lines)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 6))
def test_round_trip(tmp_path_factory, seed, num_jobs, num_machines):
    durations, machines = arrays(seed, num_jobs, num_machines)
    graph = job_shop_graph(durations, machines, "shop")
    np.testing.assert_array_equal(job_shop_arrays(graph), (durations, machines))
    path = tmp_path_factory.mktemp("round") / "shop.txt"
    path.write_text(standard_text(graph))
    assert read_job_shop(path) == graph
    files.save_graph(graph, path.with_suffix(".json"))
    assert files.load_graph(path.with_suffix(".json")) == graph


def test_read_text(tmp_path):
    path = tmp_path / "two.txt"
    graph = job_shop_graph([[5, 0.25, 4], [3, 1, 6]], [[0, 1, 2], [2, 0, 1]], "two")
    path.write_text("2 3\n0 5 1 0.25 2 4\n2 3 0 1 1 6\n")
    assert read_job_shop(str(path)) == graph


def test_both_formats_say_the_same(tmp_path):
    standard, taillard = read_job_shop("# a comment\n\n" + TWO_JOBS), read_job_shop(TAILLARD)
    assert standard.fingerprint == taillard.fingerprint
    path = tmp_path / "tai.txt"
    path.write_text(TAILLARD + TAILLARD.replace(" 5 2 4", " 7 2 4"))
    first, second = read_job_shops(path)
    assert first.fingerprint == standard.fingerprint
    assert second.duration.tolist() == [7, 2, 4, 3, 1, 6]
    assert [first.name, second.name] == ["tai-0", "tai-1"]
    with pytest.raises(RegalError, match=r"tai\.txt: holds 2 job shops"):
        read_job_shop(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("2 x\n0 1\n", "line 1: 'x' is not an integer"),
        ("2\n0 1\n", "line 1: needs the numbers"),
        ("0 2\n", "line 1: needs the numbers"),
        ("1 1 7\n0 1\n", "line 1: has more"),
        (TWO_JOBS + "0 1 1 1 2 1\n", "line 1: 2 jobs, but 3 lines"),
        (TWO_JOBS.replace(" 6", ""), "line 3: has 5 numbers where 6"),
        (TWO_JOBS.replace("6", "six"), "line 3: 'six' is not a number"),
        (TWO_JOBS.replace("6", "-6"), "line 3: a duration is negative"),
        (TWO_JOBS.replace("6", "nan"), "line 3: a duration is negative or not finite"),
        (TWO_JOBS.replace("1 6", "3 6"), r"line 3: must visit each of the machines 0\.\.2 once"),
        (TAILLARD.replace("3 1 2", "2 1 0"), r"line 8: must visit each of the machines 1\.\.3"),
        (TAILLARD.replace(" 3 1 6\n", ""), "line 6: 2 lines of times, 'Machines'"),
        (TAILLARD.replace(" 3 1 2\n", ""), "line 6: 2 lines of times, 'Machines'"),
        (TAILLARD.replace("3 1 6", "3 1"), "line 5: has 2 numbers where 3"),
        (TAILLARD + " 1 2 3\n", "line 9: follows the machines"),
        (TAILLARD + " 1 2 3\n" + TAILLARD, "line 9: follows the machines"),
        ("Times\n1 2\nMachines\n1 2\n", "line 1: no numbers of jobs"),
    ],
)
def test_file_errors(tmp_path, text, message):
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(RegalError, match=rf"bad\.txt(, |: ){message}"):
        read_job_shop(path)


def test_missing_file(tmp_path):
    with pytest.raises(RegalError, match=r"none\.txt: no such file"):
        read_job_shop(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("durations", "machines", "field"),
    [
        ([[1, 2]], [[0, 0]], "machines"),
        ([[1, 2]], [[1, 2]], "machines"),
        ([[1, 2]], [[0, 1], [1, 0]], "machines"),
        ([1, 2], [0, 1], "machines"),
        ([[1, -2]], [[0, 1]], "ops.duration"),
        ([[1, 2]], [[0.0, 1.0]], "ops.machine_type"),
    ],
)
def test_bad_arrays(durations, machines, field):
    with pytest.raises(GraphError) as error:
        job_shop_graph(durations, machines)
    assert error.value.field == field


def test_classic_instances():
    graphs = {graph.name: graph for graph in classic_job_shops()}
    bounds = classic_bounds()
    assert len(graphs) == 156
    assert list(graphs) == list(bounds)
    durations, machines = job_shop_arrays(graphs["ft06"])
    assert durations[:2].tolist() == [[1, 3, 6, 7, 3, 6], [8, 5, 10, 10, 10, 4]]
    assert machines[:2].tolist() == [[2, 0, 1, 3, 5, 4], [1, 2, 4, 5, 0, 3]]
    assert [bounds[name]["optimum"] for name in ("ft06", "ft10", "ft20")] == [55, 930, 1165]
    for name, known in bounds.items():
        durations, machines = job_shop_arrays(graphs[name])
        assert durations.shape == (known["n_jobs"], known["n_machines"])
        load = np.bincount(machines.ravel(), durations.ravel())
        assert known["trivial_bound"] == max(load.max(), durations.sum(axis=1).max())
        assert known["trivial_bound"] <= known["upper_bound"]
        assert known["lower_bound"] <= known["upper_bound"]
        closed = known["lower_bound"] == known["upper_bound"]
        assert known["optimum"] == (known["upper_bound"] if closed else None)


def test_classic_families():
    counts = {"abz": 3, "dmu": 63, "ft": 3, "la": 20, "orb": 5, "swv": 12, "ta": 48, "yn": 2}
    assert {family: len(classic_job_shops(family)) for family in counts} == counts
    assert {graph.source for graph in classic_job_shops("yn")} == {"classic job shops/yn"}
    with pytest.raises(OptionError, match="'tai' is none of abz, dmu"):
        classic_job_shops("tai")


@pytest.mark.parametrize(
    "arguments",
    [(0, 3), (3, 0), (3, 3, -1), (3, 3, 1, -1), (3, 3, 1, 2**32), (3, 3, 1, 0, 0), (3, 3, 1, 0, 4)],
)
def test_option_errors(arguments):
    with pytest.raises(OptionError):
        uniform_job_shops(*arguments)


def test_unknown_split():
    with pytest.raises(OptionError, match="'valid': train or test"):
        uniform_split("valid", 3, 3)
