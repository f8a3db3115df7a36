"""What the launchers of robust scheduling share: flags, budgets, and what a comparison measures."""

import numpy as np
import pytest
from absl import flags

from regal_jax import registry
from regal_jax.datasets.makespan_graphs import makespan_graph
from regal_jax.environments.execution.targets import TargetModel
from regal_jax.environments.placement import checker
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.methods import samplers
from regal_jax.options import Budget, Options
from regal_jax.policies.gflownet.policy import FlowConfig
from regal_jax.registry import Entry
from regal_jax.reporting import results
from regal_jax.search.placements import candidates
from regal_jax.studies import flags as config_flags
from regal_jax.studies.comparison import candidates as comparison_candidates
from regal_jax.studies.comparison.candidates import Search, Trial
from regal_jax.studies.gflownet import experiment
from regal_jax.studies.gflownet.experiment import Corpus
from regal_jax.training.gflownet import FlowTraining
from regal_jax.training.ppo import PPOTraining

GRAPH = makespan_graph("erdos_renyi", 5, 14)
SLOW = TargetModel(name="slow", latency_share=2.0)
LISTS = Search("lists", "list_sampling", samples=30)


@pytest.fixture
def define(monkeypatch):
    """Flags of a launcher of its own: (what to define, arguments) -> None."""
    found = flags.FlagValues()
    monkeypatch.setattr(experiment, "FLAGS", found)
    for kind in ("integer", "float", "boolean", "string", "list", "enum"):
        original = getattr(flags, f"DEFINE_{kind}")

        def into_found(*arguments, original=original, **options):
            return original(*arguments, flag_values=found, **options)

        monkeypatch.setattr(flags, f"DEFINE_{kind}", into_found)

    def parse(*arguments):
        experiment.define_comparison(targets=[])
        experiment.define_policies(retrain=True)
        found(["test", *arguments])
        return found

    return parse


def by_metric(rows, method):
    return {row["metric"]: row["value"] for row in rows if row["method"] == method}


def test_flags_are_those_of_both_trainings_with_what_they_share_once(define):
    found = define("--steps=7", "--ppo_steps=3", "--num_devices=2", "--seed=4", "--ppo_passes=1")
    plan = config_flags.read(FlowTraining, found)
    ppo = config_flags.read(PPOTraining, found, prefix=experiment.PPO, shared=experiment.SHARED)
    policy = config_flags.read(FlowConfig, found)
    assert (plan.steps, plan.num_devices, plan.seed) == (7, 2, 4)
    assert (ppo.steps, ppo.num_devices, ppo.seed, ppo.passes) == (3, 2, 4, 1)
    assert policy.num_devices == 2
    assert ppo.temperature == PPOTraining().temperature
    assert "ppo_num_devices" not in found


def test_a_method_may_have_a_budget_of_its_own(define):
    define(
        *("--methods=brkga,brkga 900,list_sampling 7,gflownet,ppo", "--samples=40"),
        *("--evaluations=600", "--test_temperature=0.02", "--ppo_temperature=0.5"),
    )
    assert experiment.searches() == [
        Search("brkga", "brkga", 40, 600),
        Search("brkga 900", "brkga", 900, 900),
        Search("list_sampling 7", "list_sampling", 7, 7),
        Search("gflownet", "gflownet", 40, 600, 0.02),
        Search("ppo", "ppo", 40, 600, 0.5),
    ]


@pytest.mark.parametrize("label", ["auto", "brkga x", "brkga -5", ""])
def test_what_is_no_sampler_is_told(label, define):
    define("--methods=critical_path")
    experiment.FLAGS.methods = [label]
    with pytest.raises(OptionError, match=r"methods: .* is none of critical_path, brkga"):
        experiment.searches()


def test_targets_are_read_by_name_and_names_are_unique(define, tmp_path):
    for stem in ("one", "two", "ged"):
        (tmp_path / f"{stem}.toml").write_text("[transfers]\nlatency = 1\n")
    one, two, ged = (str(tmp_path / f"{stem}.toml") for stem in ("one", "two", "ged"))
    define(f"--targets={one},{two}")
    assert experiment.target_models() == {
        name: TargetModel(name=name, latency=1) for name in ("one", "two")
    }
    for some in ([one, two, one], [one, ged]):
        experiment.FLAGS.targets = some
        with pytest.raises(OptionError, match=r"targets: the name '(one|ged)' is taken"):
            experiment.target_models()


def test_given_policies_are_for_every_seed_and_train_nothing(define, tmp_path):
    define("--methods=gflownet,ppo 9,brkga", "--policy=a.policy", "--ppo_policy=shipped")
    experiment.FLAGS.seeds = 2
    found = experiment.policies(Corpus("nothing", [], []), tmp_path)
    assert {key: file and file.name for key, file in found.items()} == {
        ("gflownet", 0): "a.policy",
        ("gflownet", 1): "a.policy",
        ("ppo", 0): None,
        ("ppo", 1): None,
    }
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("retrain", "trainings"), [(True, [0, 1, 2]), (False, [0])])
def test_each_seed_has_its_own_training_or_all_share_one(
    define, retrain, trainings, tmp_path, monkeypatch
):
    define("--methods=gflownet", "--seeds=3", f"--retrain={retrain}".lower())
    seen = []

    def train(system, corpus, folder, seed):
        seen.append(seed)
        return folder / f"{system}_{seed}"

    monkeypatch.setattr(experiment, "train", train)
    found = experiment.policies(Corpus("nothing", [], []), tmp_path)
    assert seen == trainings
    names = [found["gflownet", seed].name for seed in range(3)]
    assert names == [f"gflownet_{seed if retrain else 0}" for seed in range(3)]


def test_regimes_are_a_temperature_or_a_range():
    fixed, wide = experiment.regime("0.03"), experiment.regime("0.01:1")
    assert tuple(fixed.values()) == (0.03, 0.03, 0.03)
    assert wide == {"min_temperature": 0.01, "max_temperature": 1.0, "test_temperature": 0.01}
    for wrong in ("", "warm", "0.1:", "0.1-1"):
        with pytest.raises(OptionError, match=f"regimes: '{wrong}' is neither"):
            experiment.regime(wrong)


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
    monkeypatch.setitem(registry.entries("sampler"), name, entry)


def test_another_measure_has_every_seed_of_rules_too(tmp_path):
    path, searches = tmp_path / "results.csv", [Search("rule", "critical_path"), LISTS]

    def measure(graph, sampled, seed):
        return {"samples": len(sampled.sequence) + 100 * seed}

    graphs, trial = {"random": [GRAPH]}, Trial(2, 4)
    rows = comparison_candidates.compare(
        graphs, searches, trial, seeds=2, path=path, measure=measure
    )
    found = {(r["method"], r["seed"]): r["value"] for r in rows if r["metric"] != "seconds"}
    assert found == {("rule", 0): 1, ("rule", 1): 101, ("lists", 0): 30, ("lists", 1): 130}


def test_the_best_on_each_target_counts():
    problem = comparison_candidates.proxy(GRAPH, 2)
    best = candidates.best_schedules(problem, samplers.sample_lists(problem, Budget(20)), 5)
    found = comparison_candidates.on_targets(GRAPH, best, {"same": TargetModel(), "slow": SLOW})
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
    trial = Trial(2, 4, {}, {("gflownet", 0): "a", ("gflownet", 1): None})
    search = Search("flow", "gflownet", samples=6, temperature=0.3)
    path = tmp_path / "results.csv"
    comparison_candidates.compare({"s": [GRAPH]}, [search], trial, seeds=2, path=path)
    assert seen == [(0, "a", 0.3, 6), (0, "a", 0.3, 6), (1, None, 0.3, 6)]


def test_a_scatter_has_every_different_sample_on_proxy_and_targets():
    sampled = samplers.sample_lists(comparison_candidates.proxy(GRAPH, 2), Budget(20))
    trial = Trial(2, 1, {"same": TargetModel(), "slow": SLOW})
    rows = comparison_candidates.scatter(GRAPH, {"0.1": sampled}, trial)
    values = {
        metric: [row["value"] for row in rows if row["metric"] == metric]
        for metric in ("proxy", "same", "slow")
    }
    different = len(np.unique(candidates.chains(sampled), axis=0))
    assert {len(some) for some in values.values()} == {different}
    assert values["same"] == pytest.approx(values["proxy"])
    assert all(np.array(values["slow"]) <= np.array(values["proxy"]) + 1e-9)


def test_speedups_are_of_all_samples_in_their_order():
    sampled = samplers.sample_lists(comparison_candidates.proxy(GRAPH, 2), Budget(20))
    found = comparison_candidates.speedups(GRAPH, sampled, 2)
    best = candidates.best_schedules(comparison_candidates.proxy(GRAPH, 2), sampled, 1)[0]
    assert found.shape == (20,)
    assert found.max() == pytest.approx(GRAPH.duration.sum() / best.makespan)


def test_rows_are_chosen_by_flags_and_may_be_put_together(define):
    define("--methods=ppo,brkga")
    rows = [
        {"setting": setting, "method": method}
        for setting in ("a", "b", "c")
        for method in ("brkga", "gflownet", "ppo")
    ]
    assert experiment.chosen(rows, ["a", "c"], "all") == [
        *({"setting": "all", "method": "ppo"},) * 2,
        *({"setting": "all", "method": "brkga"},) * 2,
    ]


def test_variants_are_reported_by_quarters_of_their_steps(tmp_path, capsys):
    files = {"one": [tmp_path / "one" / "last.policy"], "two": [tmp_path / "two" / "last.policy"]}
    for slope, (file,) in enumerate(files.values(), 1):
        file.parent.mkdir()
        lines = [f"{n},{slope * n},{slope if n == 8 else ''}," for n in range(1, 9)]
        text = "\n".join(["step,speedup,validation_top_1,validation_top", *lines, ""])
        (file.parent / "metrics.csv").write_text(text)
    rows = experiment.report_variants(files, "losses", tmp_path)
    quarters = {f"quarter_{n}": value for n, value in enumerate((3.0, 7.0, 11.0, 15.0), 1)}
    assert by_metric(rows, "two") == quarters | {"validation_top_1": 2.0}
    assert results.read_results(tmp_path / "results.csv") == rows
    assert "losses: speedups of schedules during training" in capsys.readouterr().out
    assert [len(curve.steps) for curve in experiment.curves(files)["one"]] == [8]
    assert experiment.curves(files, "validation_top") == {}
