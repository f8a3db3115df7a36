"""Topoformer's launchers: the whole path; of two of them, that a second run adds nothing."""

from regal_jax.policies.topological_order.policy import OrderingConfig
from regal_jax.training import checkpoints
from tests.experiments.test_launchers_ablations import SMOKE, launch_twice
from tests.experiments.test_launchers_one_shot import launch_once


def launch_smoke(name, folder):
    return launch_twice(f"{name}.py", folder, f"--flagfile={SMOKE}/{name}.flags")


def config_of(path):
    return checkpoints.load_policy(path, OrderingConfig)[1]


def test_topoformer_layered_smoke(tmp_path):
    output = launch_smoke("topoformer_layered", tmp_path)
    assert "30 nodes: gap of peak memory from approximate_dp 100 (3 graphs)" in output
    assert "40 nodes: gap" in output
    labels = [line.split("  ")[0] for line in output.splitlines()]
    for label in ("depth_first_dp 0.5s", "random_orders 20", "xla_dfs", "topoformer greedy"):
        assert labels.count(label) == 2
    assert labels.count("topoformer beam 4") == 2
    assert (tmp_path / "training" / "best.policy").exists()


def test_topoformer_real_smoke(tmp_path):
    output = launch_once("topoformer_real", tmp_path)
    assert "20-40 nodes: gap of peak memory from approximate_dp 100 (2 graphs)" in output
    assert "40-60 nodes, graphs with at least 2 % headroom" in output
    assert "auto 100" in output


def test_topoformer_encoders_smoke(tmp_path):
    output = launch_smoke("topoformer_encoders", tmp_path)
    assert "mlp beam 4" in output
    assert "gat sample 4" in output
    assert config_of(tmp_path / "gat" / "best.policy").encoder == "gat"
    rows = (tmp_path / "results.csv").read_text().splitlines()
    assert sum("gat sample 4,1,cost" in row for row in rows) == 3  # graphs, with seed 1, too


def test_topoformer_decoders_smoke(tmp_path):
    output = launch_once("topoformer_decoders", tmp_path)
    assert "gnn_ar sample 4" in output
    assert "gnn_ar beam 4" in output
    assert "gnn_ar guided" not in output
    assert "topoformer_nar beam 4" in output
    config = config_of(tmp_path / "gnn_ar" / "best.policy")
    assert (config.encoder, config.decoder) == ("topoformer_edges", "ar")
