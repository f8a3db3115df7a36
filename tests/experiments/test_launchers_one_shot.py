"""The launchers of one-shot priority sampling: the whole path, and that a run resumes."""

import csv
import gzip
import json

import numpy as np
import pytest

from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.reporting import results
from regal_jax.training import checkpoints
from tests.experiments.test_launchers import launch
from tests.experiments.test_launchers_ablations import SMOKE, launch_twice


def arguments(name, *more):
    return (f"{name}.py", f"--flagfile={SMOKE}/{name}.flags", *more)


def launch_once(name, folder, *more):
    return launch(*arguments(name, *more), f"--output_dir={folder}")


def launch_again(name, folder, *more):
    script, *rest = arguments(name, *more)
    return launch_twice(script, folder, *rest)


def methods_of(output):
    """The first column of all tables, cut at two spaces."""
    return [line.split("  ")[0] for line in output.splitlines()]


def policy_in(folder):
    return checkpoints.load_policy(folder / "seed_0" / "best.policy", OneShotConfig)[1]


def write_records(path, records):
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def query(seed):
    """A plan like those of TPC-H: five stages of a tree, demands of up to 600 units."""
    rng = np.random.default_rng(seed)
    return {
        "size": "2g",
        "query": seed + 1,
        "durations": rng.uniform(10, 900, 5).round(3).tolist(),
        "resources": rng.integers(1, 600, 5).tolist(),
        "edges": [[0, 2], [1, 2], [2, 3], [3, 4]],
    }


def cluster_graph(seed):
    """Twelve such plans at once."""
    plans = [query(100 * seed + index) for index in range(12)]
    return {
        "name": f"tpch50 {seed}",
        "resource_limit": 6000,
        "durations": [time for plan in plans for time in plan["durations"]],
        "resources": [units for plan in plans for units in plan["resources"]],
        "edges": [[5 * i + u, 5 * i + v] for i in range(12) for u, v in plans[i]["edges"]],
    }


def project(name, upper_bound=5):
    """Two activities of 2 and 3 on one resource of one unit, between them a third on another."""
    return {
        "name": name,
        "durations": [2, 3, 1],
        "demands": [[1, 0, 0, 0], [1, 0, 0, 0], [0, 2, 0, 0]],
        "capacities": [1, 2, 1, 1],
        "edges": [[0, 2]],
        "published_lower_bound": upper_bound,
        "published_upper_bound": upper_bound,
        "critical_path_length": 3,
        "energy_bound": 5,
    }


def test_one_shot_jssp_smoke(tmp_path):
    output = launch_again("one_shot_jssp", tmp_path)
    assert "job_shop 3x2: makespan, gap from the lower bound (2 graphs)" in output
    assert "job_shop 4x3: makespan" in output
    for label in ("one_shot greedy", "one_shot S(8)", "mopnr", "brkga 500", "cp_sat 0.3s"):
        assert methods_of(output).count(label) == 2
    folders = [tmp_path / f"training_job_shop_{size}" for size in ("3x2", "4x3")]
    assert [policy_in(folder).feature_set for folder in folders] == ["extended"] * 2


def test_the_classic_job_shops_are_measured_from_the_best_known(tmp_path):
    methods = "--methods=critical_path,justification"
    more = ("--classic", "--families=ft", "--test_graphs=1", methods)
    output = launch_once("one_shot_jssp", tmp_path, *more)
    assert "classic ft: makespan, gap from the best known (1 graphs)" in output
    row = next(line for line in output.splitlines() if line.startswith("justification"))
    assert float(row.split()[1]) >= 55  # ft06's optimum


def test_one_shot_tpch_smoke(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    write_records(data / "queries.jsonl.gz", map(query, range(6)))
    write_records(data / "tpch50_test.jsonl.gz", map(cluster_graph, (0, 1)))
    write_records(data / "tpch50_train.jsonl.gz", map(cluster_graph, (2, 3)))
    out = tmp_path / "out"
    output = launch_once("one_shot_tpch", out, f"--data_dir={data}")
    assert "tpch 50: makespan, gap from the lower bound (2 graphs)" in output
    lines = output.splitlines()
    assert next(line for line in lines if line.startswith("critical_path")).split()[5] == "9821"
    assert next(line for line in lines if line.startswith("PPO-BiHyb")).split()[1] == "8906"
    assert "floating-point shares" in output
    assert policy_in(out / "training_fresh").num_types == 1


def test_one_shot_graphs_smoke(tmp_path):
    output = launch_once("one_shot_graphs", tmp_path)
    assert "layered 24: speedup, gap from the lower bound (2 graphs)" in output
    assert "real 20-40 nodes: speedup" in output
    assert policy_in(tmp_path / "training_real").guided


def test_one_shot_ablation_smoke(tmp_path):
    output = launch_once("one_shot_ablation", tmp_path)
    for name in ("one_shot", "one_shot (-)", "greedy baseline", "standardised logits"):
        assert f"{name} greedy" in methods_of(output)
        assert f"{name} S(4)" in methods_of(output)
    names = ("one_shot", "one_shot_(-)", "greedy_baseline", "standardised_logits")
    folders = [tmp_path / f"training_job_shop_4x3_{name}" for name in names]
    assert [policy_in(f).standardised for f in folders] == [False, True, False, True]


def test_one_shot_search_smoke(tmp_path):
    output = launch_once("one_shot_search", tmp_path)
    genetic = ("one_shot brkga 1500", "noisy_rule brkga 1500", "brkga 1500", "justification 1500")
    for label in ("one_shot S(8)", *genetic):
        assert label in methods_of(output)
    with (tmp_path / "results.csv").open() as file:
        cost = {
            (row["graph"], row["method"]): float(row["value"])
            for row in csv.DictReader(file)
            if row["metric"] == "cost"
        }
    for graph in {graph for graph, _ in cost}:  # the search's samples hold those of S(8)
        assert cost[graph, "one_shot brkga 1500"] <= cost[graph, "one_shot S(8)"]


def test_one_shot_projects_smoke(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    write_records(data / "j30.jsonl.gz", [project("one"), project("two")])
    output = launch_once("one_shot_projects", tmp_path / "out", f"--data_dir={data}")
    assert "j30 (2)" in output
    for label in ("best rule parallel", "brkga serial 500", "random_search serial 50"):
        assert f"`{label}`" in methods_of(output)
    row = next(line for line in output.splitlines() if line.startswith("`best rule serial`"))
    assert row.split()[3] == "0.0"
    rows = results.read_results(tmp_path / "out" / "table.csv")
    known = [row for row in rows if row["method"] == "best known"]
    assert {row["graph"] for row in known} == {"one", "two"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--settings=job_shop 4"], "'job_shop 4' is not KIND SIZE"),
        (["--settings=tpch 50"], "need the folder of their files"),
    ],
)
def test_wrong_settings_are_told_in_one_line(flags, message, tmp_path):
    with pytest.raises(AssertionError, match=f"error: .*{message}") as failure:
        launch_once("one_shot_search", tmp_path, *flags)
    assert "Traceback" not in str(failure.value)
