"""The launchers of robust scheduling with GFlowNets: the whole path, and that a run resumes."""

import csv

import pytest

from regal_jax.policies.gflownet.policy import FlowConfig
from regal_jax.training import checkpoints
from tests.experiments.test_launchers_one_shot import (
    launch_again,
    launch_once,
    methods_of,
)


def policy_in(folder):
    """The system and the configuration of a policy that was trained there."""
    _, config, about = checkpoints.load_policy(folder / "seed_0" / "last.policy", FlowConfig)
    return about["system"], config


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_gflownet_robust_smoke(tmp_path):
    output = launch_again("gflownet_robust", tmp_path)
    assert "one graph: speedups and diversity of the best 5 schedules" in output
    assert {"critical_path", "list_sampling", "ppo", "gflownet"} <= {*methods_of(output)}
    assert "gflownet (paper)" in methods_of(output)
    assert "one graph: gflownet less the others" in output
    assert {path.name for path in (tmp_path / "training_ppo").iterdir()} == {"seed_0", "seed_1"}
    assert policy_in(tmp_path / "training_gflownet")[0] == "gflownet"
    seeds = {(row["method"], row["seed"]) for row in rows_of(tmp_path / "results.csv")}
    assert {seed for method, seed in seeds if method == "gflownet"} == {"0", "1"}
    assert {seed for method, seed in seeds if method == "critical_path"} == {"0"}


def test_gflownet_generalise_smoke(tmp_path):
    output = launch_once("gflownet_generalise", tmp_path, "--methods=critical_path,gflownet")
    assert "all families: speedups and diversity" in output
    assert {"erdos_renyi", "layered"} <= {*output.splitlines()}
    assert methods_of(output).count("gflownet") == 3  # a table of each family, and one of all
    assert methods_of(output).count("critical_path") == 3 + 2  # and two lines of differences
    system, config = policy_in(tmp_path / "training_gflownet")
    assert (system, config.network) == ("gflownet", "reencode")


def test_given_policies_are_tested_on_real_graphs_without_training(tmp_path):
    output = launch_once("gflownet_real", tmp_path / "first", "--methods=critical_path,gflownet")
    assert "real graphs: speedups and diversity" in output
    assert "ppo (paper)" in methods_of(output)
    (line,) = (line for line in output.splitlines() if line.startswith("critical_path  Bandwidth"))
    assert line.split()[-1] == "2"  # test graphs
    file = tmp_path / "first" / "training_gflownet" / "seed_0" / "last.policy"
    assert not (tmp_path / "first" / "training_ppo").exists()

    again = tmp_path / "second"
    more = ("--methods=critical_path,gflownet", f"--policy={file}")
    assert measured(launch_once("gflownet_real", again, *more)) == measured(output)
    assert {path.name for path in again.iterdir()} == {"config.flags", "results.csv"}


def measured(output):
    return [line for line in output.splitlines() if not line.startswith("seconds to sample")]


def test_gflownet_temperature_smoke(tmp_path):
    output = launch_once("gflownet_temperature", tmp_path)
    assert "training temperatures: 0.01:1 less the others" in output
    assert "speedups of 20 schedules at each temperature" in output
    samples = rows_of(tmp_path / "samples.csv")
    assert len(samples) == 6 * 3
    assert {row["method"] for row in samples} == {"1", "0.3", "0.1", "0.03", "0.01", "0.005"}


def test_gflownet_loss_smoke(tmp_path):
    output = launch_once("gflownet_loss", tmp_path)
    assert "losses: log_partition_variance less the others" in output
    rows = rows_of(tmp_path / "results.csv")
    assert {row["method"] for row in rows} == {"log_partition_variance", "trajectory_balance"}
    assert {"quarter_1", "quarter_4", "validation_top_1"} <= {row["metric"] for row in rows}


def test_gflownet_sizes_smoke(tmp_path):
    output = launch_again("gflownet_sizes", tmp_path)
    lines = output.splitlines()
    assert lines[0].startswith("bytes of the 5 largest")
    shares = {line.split("  ")[0]: float(line.split()[-1]) for line in lines[3:6]}
    assert 0 < shares["0"] < shares["as traced"] < shares["2"] < 100
    assert "Bandwidth 2" in output
    assert methods_of(output).count("critical_path") == 1 + 2  # and two lines of differences
    seeds = {(row["method"], row["seed"]) for row in rows_of(tmp_path / "results.csv")}
    assert len(seeds) == 3 * 2


def test_gflownet_convergence_smoke(tmp_path):
    output = launch_again("gflownet_convergence", tmp_path)
    small, real = output.split("Real graphs: 1 graph, 1 training.")
    assert "Small graphs: 1 graph, 1 training." in small
    assert "total variation [%]" in small
    assert "total variation [%]" not in real
    rows = rows_of(tmp_path / "results.csv")
    value = {(r["setting"], r["graph"], r["method"], r["metric"]): float(r["value"]) for r in rows}
    assert len(value) == len(rows) == 2 * 8 + 2 * 6
    assert all(0 <= v <= 100 for (*_, m), v in value.items() if m.startswith(("total", "eff")))


@pytest.mark.parametrize(
    ("name", "flag", "message"),
    [
        ("gflownet_robust", "--methods=auto", "methods: 'auto' is none of critical_path"),
        ("gflownet_real", "--targets=none.toml", "none.toml"),
        ("gflownet_temperature", "--regimes=cold", "regimes: 'cold' is neither T nor LOW:HIGH"),
        ("gflownet_loss", "--losses=mse", "losses: mse: not of log_partition_variance"),
        ("gflownet_convergence", "--temperatures=1,0", "temperature must be a positive number"),
        ("gflownet_sizes", "--spreads=wide", "spreads: 'wide' is no number"),
        ("gflownet_sizes", "--spreads=9", "spread must be between 0 and 4, got 9.0"),
    ],
)
def test_wrong_options_are_told_in_one_line_before_training(name, flag, message, tmp_path):
    with pytest.raises(AssertionError, match=f"error: .*{message}") as failure:
        launch_once(name, tmp_path, flag)
    assert "Traceback" not in str(failure.value)
    assert {path.name for path in tmp_path.iterdir()} <= {"config.flags"}
