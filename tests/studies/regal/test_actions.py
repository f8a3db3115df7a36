"""The study of actions: subsets, sets of graphs, and what is counted of the actions."""

import jax
import numpy as np
import pytest

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods import regal_paper
from regal_jax.options import Budget, Options
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.reporting import results
from regal_jax.studies.regal import ablation_tables
from regal_jax.studies.regal import actions as regal_actions
from regal_jax.training.checkpoints import save_policy
from tests.policies.cases import chain, inputs_of, random_graph, random_params

REGAL = RegalConfig(size=4, rounds=1, feature_evaluations=100)


def params_for(graph):
    return random_params(REGAL.policy.init, jax.random.key(0), inputs_of(graph))


def test_subsets_of_actions():
    configs = [regal_actions.with_actions(REGAL, subset) for subset in regal_actions.SUBSETS]
    assert len(set(configs)) == 6
    first = configs[0]
    assert (first.placement, first.scheduling, first.elite_bias) == (True, False, False)
    assert all((c.size, c.rounds) == (4, 1) for c in configs)
    with pytest.raises(OptionError, match="is none of placement, scheduling"):
        regal_actions.with_actions(REGAL, "elite_bias")


def test_sets_of_graphs():
    plain, compiled = chain(3), chain(4).replace(source="xla/jax-0.10.2/training")
    test = {"as traced": [plain, compiled], "4 microbatches": [plain], "2 microbatches": [compiled]}
    sets = regal_actions.graph_sets([plain], test, [compiled])
    assert sets == {
        "valid": [plain],
        "test": [plain],
        "test, 4 microbatches": [plain],
        "XLA": [compiled],
    }


def test_improvements_are_by_subset_and_set():
    rows = [
        {"setting": s, "graph": "g", "method": m, "seed": 0, "metric": "cost", "value": value}
        for s, m, value in [
            ("valid", "brkga", 200),
            ("valid", "scheduling", 190),
            ("XLA", "brkga", 100),
            ("XLA", "scheduling", 110),
            ("XLA", "placement", 100),
        ]
    ]
    found = regal_actions.improvements(rows, ["valid", "XLA"], ["scheduling"])
    means = {name: value[::3] for name, value in found["scheduling"].items()}
    assert (list(found), means) == (["scheduling"], {"valid": (5.0, 1), "XLA": (-10.0, 1)})


def test_the_actions_are_those_that_regal_takes(tmp_path, monkeypatch):
    graph = random_graph(0, 7)
    params, seen = params_for(graph), []
    save_policy(tmp_path / "p.policy", params, REGAL, about={})
    take = regal_paper._steering
    monkeypatch.setattr(
        regal_paper, "_steering", lambda *arguments: seen.append(take(*arguments)) or seen[-1]
    )
    budget = Budget(200, seed=5, options=Options(policy=tmp_path / "p.policy"))
    regal_paper.run_regal_paper(PlacementProblem(graph), budget)
    chosen = regal_actions.chosen_actions(graph, params, REGAL, objective="peak_memory", seed=5)
    assert chosen.shape == (7, 6)
    assert chosen.tolist() == np.asarray(seen[0].mutants[0])[:7].tolist()


def test_usage_by_hand():
    """A chain with tensors of 1, 2 and 3 bytes: ops with 1, 3 and 5 bytes around them."""
    actions = np.array([[0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0]])
    rows = regal_actions.usage_rows(chain(3), actions, REGAL)
    assert len(rows) == 12
    found = {
        (group["placement"], group["scheduling"]): (group["frequency %"], group["relative memory"])
        for group in ablation_tables.usage_by_group(rows)
        if group["frequency %"]
    }
    assert found == {
        ("no preference", "higher priority"): (pytest.approx(100 / 3), 1 / 5),
        ("prefers device 1", "higher priority"): (pytest.approx(100 / 3), 3 / 5),
        ("no preference", "lower priority"): (pytest.approx(100 / 3), 1.0),
    }


def test_usage_is_measured_once(tmp_path, monkeypatch):
    graphs = [random_graph(seed, 7) for seed in range(2)]
    params, path = params_for(graphs[0]), tmp_path / "actions.csv"
    options = {"objective": "peak_memory", "path": path}
    rows = regal_actions.measure_usage(graphs, params, REGAL, **options)
    assert sum(row["value"] for row in rows if row["metric"] == "ops") == 14
    monkeypatch.setattr(regal_actions, "chosen_actions", None)
    assert regal_actions.measure_usage(graphs, params, REGAL, **options) == rows
    assert results.read_results(path) == rows


def test_usage_is_measured_again_for_another_policy_of_the_same_name(tmp_path):
    graph, path = random_graph(0, 7), tmp_path / "actions.csv"
    one = params_for(graph)
    two = jax.tree.map(lambda leaf: -leaf, one)
    values = {}
    for name, params in (("one", one), ("two", two), ("one", one)):
        options = {"objective": "peak_memory", "path": path}
        rows = regal_actions.measure_usage([graph], params, REGAL, **options)
        fresh = options | {"path": tmp_path / f"{name}.csv"}
        assert regal_actions.measure_usage([graph], params, REGAL, **fresh) == rows
        values[name] = [row["value"] for row in rows]
    assert values["one"] != values["two"]
    assert len(results.read_results(path)) == len(values["one"]) * 2
