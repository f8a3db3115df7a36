"""Tuning BRKGA: halving against a plain ranking, common seeds, resuming, the file it makes."""

import json

import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.methods import evolution
from regal_jax.reporting import results
from regal_jax.reporting.statistics import MeanInterval
from regal_jax.search.evolution import tuning_grid
from regal_jax.search.evolution.brkga import BRKGAConfig
from regal_jax.search.evolution.tuning_grid import DEFAULT, Setting
from regal_jax.studies.regal import tuning
from tests.policies.cases import random_graph

TASK = tuning.Task("peak_memory", 300, 2)
SETTINGS = [Setting(BRKGAConfig(100, 10, 80, bias)) for bias in (0.7, 0.0, 0.1, 0.2, 0.3, 0.4)]
GRAPHS = [random_graph(seed, 9) for seed in range(3)]


def tune(path, **changes):
    options = {"rungs": (1, 3), "path": path} | changes
    return tuning.tune(GRAPHS, SETTINGS, TASK, **options)


@pytest.fixture
def costs(monkeypatch):
    """Searches replaced by costs that are known: by (graph, elite bias, seed)."""
    table = {}

    def cost(problem, setting, seed, task):
        rng = np.random.default_rng((int(problem.graph.name[-1]), seed))
        key = (problem.graph.name, setting.config.elite_bias, seed)
        assert key not in table
        table[key] = 100 + int(rng.integers(50)) - 10 * setting.config.elite_bias
        return table[key]

    monkeypatch.setattr(tuning, "_cost", cost)
    return table


def test_halving_measures_the_best_third_on_more_graphs(tmp_path, costs):
    gains = tune(tmp_path / "r.csv")
    assert list(gains) == [SETTINGS[0], SETTINGS[5]]
    assert gains[DEFAULT].mean == 0
    expected = [
        100 * (1 - costs[graph.name, 0.4, seed] / costs[graph.name, 0.7, seed])
        for graph in GRAPHS
        for seed in range(2)
    ]
    assert gains[SETTINGS[5]].mean == pytest.approx(np.mean(expected))
    assert len(costs) == 6 * 1 * 2 + 2 * 2 * 2


def test_one_rung_is_a_grid_search(tmp_path, costs):
    gains = tune(tmp_path / "r.csv", rungs=(3,))
    assert list(gains) == [SETTINGS[i] for i in (0, 5, 4, 3, 2, 1)]
    assert len(costs) == 6 * 3 * 2


def test_what_is_measured_is_not_measured_again(tmp_path, costs):
    path = tmp_path / "r.csv"
    gains = tune(path)
    rows = results.read_results(path)
    results.write_results(path, rows[:9], tuning.EXTRA_COLUMNS)
    before = len(costs)
    for row in rows[9:]:
        bias = float(row["method"].split("rho ")[1].split(",")[0])
        del costs[row["graph"], bias, row["seed"]]
    assert tune(path) == gains
    assert len(costs) == before
    assert tune(path) == gains


def test_searches_are_those_of_the_method_with_common_seeds(tmp_path):
    gains = tuning.tune(GRAPHS, SETTINGS[:2], TASK, rungs=(1,), path=tmp_path / "r.csv")
    rows = results.read_results(tmp_path / "r.csv")
    assert [row["seed"] for row in rows] == [0, 1, 0, 1]
    assert set(gains) == set(SETTINGS[:2])
    with pytest.raises(OptionError, match="last rung"):
        tuning.tune(GRAPHS, SETTINGS, TASK, rungs=(4,), path=tmp_path / "r.csv")


def test_the_file_is_what_the_method_reads(tmp_path, costs, monkeypatch):
    gains = tune(tmp_path / "r.csv")
    folder = tmp_path / "package" / "pretrained"
    folder.mkdir(parents=True)
    document = tuning.document(gains, 6, TASK, (1, 3))
    (folder / "tuned_brkga_peak_memory.json").write_text(json.dumps(document))
    monkeypatch.setattr(evolution, "__file__", str(tmp_path / "package" / "methods" / "x.py"))
    config, alpha, beta = evolution.tuned_parameters("peak_memory")
    assert config == SETTINGS[0].config
    assert (alpha, beta) == (1.0, 1.0)
    assert document["graphs"] == 3
    with pytest.raises(OptionError, match="no tuned parameters"):
        evolution.tuned_parameters("makespan")


def test_the_shipped_files_are_points_of_the_grid():
    for objective in ("peak_memory", "makespan"):
        config, alpha, beta = evolution.tuned_parameters(objective)
        assert Setting(config, alpha, beta) in tuning_grid.grid()


def test_reports_end_with_the_default():
    gains = {setting: MeanInterval(-i, -i, -i, 64) for i, setting in enumerate(SETTINGS[1:])}
    lines = tuning.report(
        gains | {DEFAULT: MeanInterval(-9.0, -9.0, -9.0, 64)}, most=2
    ).splitlines()
    assert len(lines) == 2 + 3
    assert lines[-1].split()[:6] == ["100", "10", "80", "1", "0.7", "-9.00"]
