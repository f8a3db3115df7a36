"""What comparisons of candidates measure, with which seeds, and that they resume."""

import dataclasses

import numpy as np
import pytest

from regal_jax import registry
from regal_jax.datasets.makespan_graphs import makespan_graph
from regal_jax.environments.execution import targets
from regal_jax.environments.execution.targets import TargetModel
from regal_jax.environments.placement import checker
from regal_jax.environments.platform import Platform
from regal_jax.methods import samplers, trials
from regal_jax.options import Budget, Options
from regal_jax.registry import Entry
from regal_jax.reporting import results
from regal_jax.search.placements import candidates
from regal_jax.studies.comparison import candidates as comparison_candidates
from regal_jax.studies.comparison.candidates import Search, Trial

GRAPH = makespan_graph("erdos_renyi", 5, 14)
SLOW = TargetModel(name="slow", latency_share=2.0)
LISTS = Search("lists", "list_sampling", samples=30)


def by_metric(rows, method):
    return {row["metric"]: row["value"] for row in rows if row["method"] == method}


def test_metrics_are_those_of_the_best_samples_by_a_plain_recomputation():
    budget = Budget(30, 3)
    sampled = samplers.sample_lists(comparison_candidates.proxy(GRAPH, 3), budget)
    trial = Trial(num_devices=3, candidates=5, targets={"slow": SLOW})
    values = comparison_candidates.metrics(GRAPH, sampled, trial)
    schedules = candidates.best_schedules(comparison_candidates.proxy(GRAPH, 3), sampled, 5)
    work, platform = GRAPH.duration.sum(), Platform(3, latency=2 * GRAPH.duration.mean())
    proxy = [work / checker.evaluate(GRAPH, s, Platform(3)).makespan for s in schedules]
    real = [work / checker.evaluate(GRAPH, s, platform).makespan for s in schedules]
    assert values["proxy_1"] == pytest.approx(max(proxy))
    assert values["proxy_100"] == pytest.approx(np.mean(proxy))
    assert values["slow"] == pytest.approx(max(real))
    assert values["candidates"] == 5
    assert 0 < values["ged"] <= 100
    assert values["d_sen"] >= values["d_inv"] >= 0


def test_a_comparison_has_each_seed_of_what_is_random_and_resumes(tmp_path, monkeypatch):
    path, trial = tmp_path / "results.csv", Trial(2, 4, {"slow": SLOW})
    searches, graphs = [Search("rule", "critical_path"), LISTS], {"random": [GRAPH]}
    rows = comparison_candidates.compare(graphs, searches, trial, seeds=2, path=path)
    assert {(row["method"], row["seed"]) for row in rows} == {
        ("rule", 0),
        ("lists", 0),
        ("lists", 1),
    }
    assert by_metric(rows, "lists")["slow"] > 0
    assert by_metric(rows, "rule")["ged"] == 0
    assert all(row["seconds"] > 0 for row in [by_metric(rows, "rule"), by_metric(rows, "lists")])
    assert results.read_results(path) == rows

    kept = [row for row in rows if (row["method"], row["seed"]) != ("lists", 1)]
    torn = [
        row for row in rows if (row["method"], row["seed"], row["metric"]) == ("lists", 1, "ged")
    ]
    results.write_results(path, kept + torn, comparison_candidates.COLUMNS)
    asked = []

    def counted(problem, budget):
        asked.append(budget.seed)
        return samplers.sample_lists(problem, budget)

    take_in_place_of("list_sampling", counted, monkeypatch)
    again = comparison_candidates.compare(graphs, searches, trial, seeds=2, path=path)
    assert asked == [1, 1]  # the first is the warm-up
    timeless = [row for row in again if row["metric"] != "seconds"]
    assert [row for row in timeless if row not in torn] == [
        row for row in rows if row["metric"] != "seconds" and row not in torn
    ]


def take_in_place_of(name, sampler, monkeypatch):
    entry = Entry(name, sampler, {"searches": False})
    monkeypatch.setitem(registry._ENTRIES["sampler"], name, entry)


def count_samples(graph, sampled, seed):
    return {"samples": len(sampled.sequence) + 100 * seed}


def test_rows_of_several_processes_are_those_of_one(tmp_path):
    searches, graphs = [Search("rule", "critical_path"), LISTS], {"random": [GRAPH]}
    trial, timeless = Trial(2, 4, {"slow": SLOW}), []
    for where in ("here", "processes:2"):
        path = tmp_path / f"{where}.csv"
        comparison_candidates.compare(graphs, searches, trial, seeds=2, path=path, executor=where)
        rows = results.read_results(path)
        timeless.append([row for row in rows if row["metric"] != "seconds"])
    assert timeless[0] == timeless[1]


def test_another_measure_has_every_seed_of_rules_too(tmp_path):
    path, searches = tmp_path / "results.csv", [Search("rule", "critical_path"), LISTS]
    graphs, trial = {"random": [GRAPH]}, Trial(2, 4)
    rows = comparison_candidates.compare(
        graphs, searches, trial, seeds=2, path=path, measure=count_samples
    )
    found = {(r["method"], r["seed"]): r["value"] for r in rows if r["metric"] != "seconds"}
    assert found == {("rule", 0): 1, ("rule", 1): 101, ("lists", 0): 30, ("lists", 1): 130}


def test_the_best_on_each_target_counts():
    problem = comparison_candidates.proxy(GRAPH, 2)
    best = candidates.best_schedules(problem, samplers.sample_lists(problem, Budget(20)), 5)
    trial = Trial(2, 4, {"same": TargetModel(), "slow": SLOW})
    found = comparison_candidates.on_targets(GRAPH, best, trial)
    assert found["same"] == pytest.approx(GRAPH.duration.sum() / best[0].makespan)
    assert found["slow"] < found["same"]
    slow = Platform(2, latency=2 * GRAPH.duration.mean())
    every = [checker.evaluate(GRAPH, schedule, slow).makespan for schedule in best]
    assert found["slow"] == pytest.approx(GRAPH.duration.sum() / min(every))


def test_searches_have_their_policy_seed_and_temperature(monkeypatch, tmp_path):
    seen = []

    def sampler(problem, budget):
        options = budget.options
        seen.append((budget.seed, options.policy, options.temperature, budget.evaluations))
        return samplers.sample_lists(problem, budget._replace(options=Options()))

    take_in_place_of("gflownet", sampler, monkeypatch)
    (tmp_path / "a").write_text("a policy")
    trial = Trial(2, 4, {}, {("gflownet", 0): tmp_path / "a", ("gflownet", 1): None})
    search = Search("flow", "gflownet", samples=6, temperature=0.3)
    path = tmp_path / "results.csv"
    comparison_candidates.compare({"s": [GRAPH]}, [search], trial, seeds=2, path=path)
    given = (0, tmp_path / "a", 0.3, 6)
    assert seen == [given, given, (1, None, 0.3, 6)]


@pytest.mark.parametrize(
    "change",
    [
        {"trial": Trial(3, 4, {"slow": SLOW})},
        {"trial": Trial(2, 5, {"slow": SLOW})},
        {"trial": Trial(2, 4, {"slow": TargetModel(name="slow", latency_share=3.0)})},
        {"search": LISTS._replace(samples=31)},
        {"search": LISTS._replace(temperature=0.2)},
        {"measure": count_samples},
    ],
)
def test_whatever_changes_a_search_samples_again(tmp_path, change):
    path = tmp_path / "results.csv"

    def timeless(path, *, search=LISTS, trial=Trial(2, 4, {"slow": SLOW}), measure=None):  # noqa: B008
        rows = comparison_candidates.compare(
            {"s": [GRAPH]}, [search], trial, seeds=1, path=path, measure=measure
        )
        return [row for row in rows if row["metric"] != "seconds"]

    before, fresh = timeless(path), timeless(tmp_path / "fresh.csv", **change)
    assert timeless(path, **change) == fresh
    assert timeless(path) == before
    assert len(results.read_results(path)) == len(before) + len(fresh) + 2


def test_a_policy_file_counts_by_what_it_holds(tmp_path, monkeypatch):
    file, asked = tmp_path / "p", []

    def sampler(problem, budget):
        asked.append(budget.options.policy.read_text())
        return samplers.sample_lists(problem, budget._replace(options=Options()))

    take_in_place_of("gflownet", sampler, monkeypatch)
    trial, search = Trial(2, 4, {}, {("gflownet", 0): file}), Search("flow", "gflownet", 6)
    path = tmp_path / "results.csv"
    for text in ("one", "two", "two"):
        file.write_text(text)
        comparison_candidates.compare({"s": [GRAPH]}, [search], trial, seeds=1, path=path)
    assert asked == ["one", "one", "two", "two"]  # the first of each is the warm-up


def test_speedups_are_of_all_samples_in_their_order():
    sampled = samplers.sample_lists(comparison_candidates.proxy(GRAPH, 2), Budget(20))
    found = comparison_candidates.speedups(GRAPH, sampled, 2)
    best = candidates.best_schedules(comparison_candidates.proxy(GRAPH, 2), sampled, 1)[0]
    assert found.shape == (20,)
    assert found.max() == pytest.approx(GRAPH.duration.sum() / best.makespan)


def test_noise_is_drawn_and_all_candidates_count():
    noisy = TargetModel(name="noisy", noise=0.4, seed=5)
    straggler = TargetModel(name="straggler", straggler=1.0, links="shared", latency_share=1.0)
    trial = Trial(2, 4, {"noisy": noisy, "straggler": straggler}, noise_draws=3)
    problem = comparison_candidates.proxy(GRAPH, 2)
    best = candidates.best_schedules(problem, samplers.sample_lists(problem, Budget(40)), 8)
    found = comparison_candidates.on_targets(GRAPH, best, trial)
    work = GRAPH.duration.sum()
    for name, models in {
        "noisy": [dataclasses.replace(noisy, seed=5 + draw) for draw in range(3)],
        "straggler": [straggler],
    }.items():
        times = [list(map(targets.simulated(GRAPH, model), best)) for model in models]
        speedup = work / np.array(times)
        assert found[name] == pytest.approx(speedup.max(axis=1).mean())
        assert found[f"{name} mean"] == pytest.approx(speedup.mean())
        assert found[f"{name} q95"] == pytest.approx(np.quantile(speedup, 0.95, axis=1).mean())


def test_trials_have_a_line_of_their_own(tmp_path):
    path, trial = tmp_path / "results.csv", Trial(2, 12, {"slow": SLOW})
    searches = [LISTS, LISTS._replace(label="lists trials", trials=True)]
    rows = comparison_candidates.compare({"random": [GRAPH]}, searches, trial, seeds=1, path=path)
    learned = by_metric(rows, "lists trials")
    assert set(learned) == {"slow", "seconds"}
    problem = comparison_candidates.proxy(GRAPH, 2)
    sampled = samplers.sample_lists(problem, Budget(LISTS.budget, 0))
    ranked = candidates.best_schedules(problem, sampled, 12)
    tried = trials.run(problem, ranked, targets.simulated(GRAPH, SLOW), 12, 0)
    least = min(one.time for one in tried)
    assert learned["slow"] == pytest.approx(GRAPH.duration.sum() / least)
