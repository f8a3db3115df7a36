"""Where searches run: the same rows everywhere, and nothing is lost with a worker."""

import importlib.util
import os
import signal
from pathlib import Path

import pytest

from regal_jax.errors import MissingDependencyError, OptionError, RegalError
from regal_jax.methods.simple import run_rule
from regal_jax.reporting import results
from regal_jax.studies import executors
from regal_jax.studies.comparison.searches import Run, compare
from tests.policies.cases import random_graph

GRAPHS = {"small": [random_graph(0), random_graph(1)], "one": [random_graph(2)]}
RUNS = [Run("random 30", "random_search", 30), Run("lpmf", "lpmf", 0)]
MARK = "REGAL_JAX_TEST_MARK"
"""Names a file in the environment, so that workers know of it."""


def square(number):
    return number**2


def refuse(number):
    raise OptionError(f"no {number}")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(number):
    """Kills its worker, unless another one did before."""
    mark = Path(os.environ[MARK])
    if number == 1 and not mark.exists():
        mark.touch()
        die()
    return number**2


def dying_rule(problem, budget):
    """A method whose worker is killed when it is first asked for the seed 1."""
    die_once(budget.seed)
    return run_rule(problem, budget, order="lpmf")


def die_always(number):
    die()


@pytest.fixture
def mark(monkeypatch, tmp_path):
    monkeypatch.setenv(MARK, str(tmp_path / "mark"))
    return tmp_path / "mark"


def installed(name, where):
    missing = importlib.util.find_spec(name) is None
    return pytest.param(where, marks=pytest.mark.skipif(missing, reason=f"{name} isn't installed"))


EVERYWHERE = [
    "here",
    "processes:2",
    installed("ray", "ray"),
    installed("submitit", "submitit:local,jobs=2,folder=FOLDER"),
]


def rows_of(path):
    """The lines of a file, but for the seconds."""
    return [row for row in results.read_results(path) if row["metric"] != "seconds"]


@pytest.mark.parametrize("where", EVERYWHERE[1:])
def test_rows_are_the_same_and_in_the_same_order(tmp_path, where):
    where = where.replace("FOLDER", str(tmp_path / "logs"))
    compare(GRAPHS, RUNS, seeds=2, path=tmp_path / "here.csv")
    rows = compare(GRAPHS, RUNS, seeds=2, path=tmp_path / "there.csv", executor=where)
    assert rows_of(tmp_path / "there.csv") == rows_of(tmp_path / "here.csv")
    assert rows == results.read_results(tmp_path / "there.csv")


@pytest.mark.parametrize("where", EVERYWHERE[1:])
def test_a_worker_that_is_killed_loses_nothing(tmp_path, where, mark):
    where = where.replace("FOLDER", str(tmp_path / "logs"))
    found = dict(executors.completed(where, die_once, [(number,) for number in range(6)]))
    assert mark.exists()
    assert found == {number: number**2 for number in range(6)}


def test_a_sweep_survives_its_worker(tmp_path, mark):
    runs = [*RUNS, Run("dying", "lpmf", 2, options={"method": dying_rule})]
    ours = compare(GRAPHS, runs, seeds=2, path=tmp_path / "r.csv", executor="processes:2")
    assert mark.exists()
    compare(GRAPHS, runs, seeds=2, path=tmp_path / "here.csv")
    assert rows_of(tmp_path / "r.csv") == rows_of(tmp_path / "here.csv")
    assert len(ours) == len(results.read_results(tmp_path / "r.csv"))


def test_workers_that_keep_dying_are_given_up():
    with pytest.raises(RegalError, match="workers died 3 times over, 2 tasks are left"):
        list(executors.completed("processes:1", die_always, [(0,), (1,)]))


def test_a_ray_cluster_of_two_nodes(tmp_path, monkeypatch):
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="ray isn't installed")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        compare(GRAPHS, RUNS, seeds=1, path=tmp_path / "there.csv", executor="ray")
    finally:
        cluster.shutdown()
    compare(GRAPHS, RUNS, seeds=1, path=tmp_path / "here.csv")
    assert rows_of(tmp_path / "there.csv") == rows_of(tmp_path / "here.csv")


@pytest.mark.parametrize("where", EVERYWHERE[:3])
def test_a_tasks_own_error_is_raised(where):
    with pytest.raises(OptionError, match="no 3"):
        list(executors.completed(where, refuse, [(3,)]))


@pytest.mark.parametrize(
    "where", ["", "threads", "processes:0", "processes:two", "ray:1", "submitit:", "submitit:a,b"]
)
def test_places_that_there_are_not(where):
    with pytest.raises(OptionError, match="executor: must be one of here, processes"):
        list(executors.completed(where, square, [(3,)]))


@pytest.mark.parametrize(("package", "where"), [("ray", "ray"), ("submitit", "submitit:local")])
def test_what_is_not_installed(monkeypatch, package, where):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"regal_jax\[{package}\]"):
        list(executors.completed(where, square, [(3,)]))
