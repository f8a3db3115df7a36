"""Comparisons on machine types: budgets, seeds, and results too good to be true."""

import numpy as np
import pytest

from regal_jax import registry
from regal_jax.datasets.job_shop import uniform_job_shops
from regal_jax.datasets.task_graphs import Bounds
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError, RegalError
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import PlatformRule, Run
from regal_jax.studies.one_shot import comparison, runs
from regal_jax.studies.one_shot.settings import Comparison

GRAPHS = uniform_job_shops(3, 2, count=2, seed=5)
RULE = Run("spt", "spt", 1, warm_up=1)


def compare(path, runs, seeds=1):
    rule = PlatformRule(num_devices=None)
    return searches.compare(
        {"s": GRAPHS}, runs, seeds=seeds, path=path, objective="makespan", platform=rule
    )


def values(rows, metric):
    return [row["value"] for row in rows if row["metric"] == metric]


def test_rows_have_exact_makespans_and_lower_bounds(tmp_path):
    rows = compare(tmp_path / "r.csv", [RULE])
    problems = [MachineProblem(graph) for graph in GRAPHS]
    priorities = [-problem.graph.duration.astype(np.float32)[None] for problem in problems]
    assert values(rows, "cost") == [
        float(problem.makespans(rows)[0])
        for problem, rows in zip(problems, priorities, strict=True)
    ]
    assert values(rows, "lower_bound") == [problem.lower_bound for problem in problems]


def test_without_a_budget_a_method_has_its_own_and_rows_tell_what_it_spent(tmp_path):
    rows = compare(tmp_path / "r.csv", [Run("random", "random_search", None)])
    own = registry.find_method("random_search", "rcpsp").evaluations
    assert {row["evaluations"] for row in rows} == {str(own)}


def test_a_makespan_below_a_known_bound_is_an_error(tmp_path):
    rows = compare(tmp_path / "r.csv", [RULE])
    cost = dict(zip([graph.name for graph in GRAPHS], values(rows, "cost"), strict=True))
    comparison.check(rows, {name: Bounds(c, c) for name, c in cost.items()})
    name = GRAPHS[1].name
    with pytest.raises(RegalError, match=f"spt on {name}: makespan .* is below the known bound"):
        comparison.check(rows, {name: Bounds(cost[name] + 1, cost[name] + 1)})


BUDGETS = Comparison(search_evaluations=300, random_samples=7, cp_seconds=2.5, test_samples=(2, 4))


def test_runs_are_named_by_their_options_and_budgets():
    serial = {"generation": "serial"}
    labels = {
        name: runs.baseline(name, BUDGETS, serial).label
        for name in ("spt", "random_search", "brkga", "auto", "cp_sat")
    }
    assert labels == {
        "spt": "spt serial",
        "random_search": "random_search serial 7",
        "brkga": "brkga serial 300",
        "auto": "auto serial",
        "cp_sat": "cp_sat serial 2.5s",
    }
    assert runs.baseline("cp_sat", BUDGETS).options["time_limit"] == 2.5
    learned = runs.sampled("p", "one_shot", None, BUDGETS)
    assert [run.label for run in learned] == ["p greedy", "p S(2)", "p S(4)"]
    assert [run.evaluations for run in learned] == [1, 2, 4]


def test_no_graphs_to_test_on_are_told(tmp_path):
    for graphs, by_setting in (({}, {}), ({"s": []}, {"s": [RULE]})):
        with pytest.raises(OptionError, match="a setting has no graph to test on"):
            comparison.compare(graphs, by_setting, tmp_path, Comparison(seeds=1))
