"""Comparing methods: it resumes, and its numbers are those by hand."""

import jax
import numpy as np
import pytest

from regal_jax import api
from regal_jax.environments.execution import prices
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError, RegalError
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.reporting import results
from regal_jax.studies.comparison import searches as comparison_searches
from regal_jax.studies.comparison.searches import PlatformRule, Run
from regal_jax.training.checkpoints import save_policy
from tests.policies.cases import chain, inputs_of, random_graph, random_params

RUNS = [Run("random 30", "random_search", 30, limits=(10, 30)), Run("lpmf", "lpmf", 0)]
SETTINGS = {"small": [random_graph(0), random_graph(1)], "one": [random_graph(2)]}


def compare(path, **options):
    return comparison_searches.compare(SETTINGS, RUNS, seeds=2, path=path, **options)


@pytest.fixture
def searches(monkeypatch):
    """The (graph, method, seed) of the searches done."""
    done = []
    optimize = comparison_searches.api.optimize

    def counting(graph, options):
        done.append((graph.name, options.method, options.seed))
        return optimize(graph, options)

    monkeypatch.setattr(comparison_searches.api, "optimize", counting)
    return done


def test_rows_are_complete_and_a_second_call_runs_nothing(tmp_path, searches):
    path = tmp_path / "r.csv"
    rows = compare(path)
    assert len(searches) == len(set(searches)) == 12  # 3 graphs, 2 methods, 2 seeds
    assert sum(row["metric"] == "cost" for row in rows) == 12
    assert sum(row["metric"] == "cost@30" for row in rows) == 6
    for row in rows:
        if row["metric"] == "cost@30":
            assert row["value"] >= 0
    columns = ("setting", "graph", "method", "seed", "metric")
    keys = [tuple(row[column] for column in columns) for row in rows]
    assert len(set(keys)) == len(keys)
    again = compare(path)
    assert len(searches) == 12
    as_text = lambda rows: [{k: str(v) for k, v in row.items()} for row in rows]  # noqa: E731
    assert sorted(map(str, as_text(again))) == sorted(map(str, as_text(results.read_results(path))))


def cost(rows):
    return [row["value"] for row in rows if row["metric"] == "cost"]


def test_each_latency_has_its_own_rows_as_in_a_fresh_file(tmp_path):
    def run(file, latency):
        graphs, etf = {"s": [random_graph(3, 20)]}, [Run("etf", "etf", None)]
        rule = PlatformRule(2, latency=latency)
        path, objective = tmp_path / file, "makespan"
        return cost(
            comparison_searches.compare(
                graphs, etf, seeds=1, path=path, platform=rule, objective=objective
            )
        )

    without, fresh = run("r.csv", 0.0), run("fresh.csv", 500.0)
    assert run("r.csv", 500.0) == fresh != without
    assert run("r.csv", 0.0) == without
    rows = results.read_results(tmp_path / "r.csv")
    assert [row["latency"] for row in rows if row["metric"] == "cost"] == ["0.0", "500.0"]


@pytest.mark.parametrize(
    "change",
    [
        {"platform": PlatformRule(memory_share=0.5)},
        {"platform": PlatformRule(memory_capacity=2**34)},
        {"platform": PlatformRule(3)},
        {"objective": "makespan"},
        {"time_limit": 60.0},
    ],
)
def test_whatever_changes_a_result_runs_it_again(tmp_path, searches, change):
    path = tmp_path / "r.csv"
    compare(path)
    searches.clear()
    rows = compare(path, **change)
    assert len(searches) == len(cost(rows)) == 12
    compare(path, **change)
    compare(path)
    assert len(searches) == 12


def test_prices_of_transfers_are_shares_of_the_graphs_durations():
    graph = random_graph(3, 20)
    options = PlatformRule(4, latency=1.0, transfer_share=2.0).options(graph)
    dear = prices.at_price(graph, Platform(4, latency=1.0), (2.0, 2.0))
    assert (options["latency"], options["per_byte"]) == (dear.latency, dear.per_byte)
    assert options["latency"] == pytest.approx(1.0 + 2.0 * graph.duration.mean())
    assert PlatformRule(4, latency=1.0).options(graph)["latency"] == 1.0


def test_a_share_and_a_capacity_of_memory_are_refused():
    with pytest.raises(OptionError, match="give one of them"):
        PlatformRule(memory_share=0.5, memory_capacity=10).options(chain(3))


def test_another_budget_under_the_same_label_runs_again(tmp_path, searches):
    for evaluations in (30, 60, 30):
        run = Run("random", "random_search", evaluations)
        rows = comparison_searches.compare(SETTINGS, [run], seeds=1, path=tmp_path / "r.csv")
        assert {row["budget"] for row in rows} == {str(evaluations)}
    assert len(searches) == 2 * 3


def test_a_policy_file_counts_by_what_it_holds(tmp_path, searches):
    file, path = tmp_path / "p.policy", tmp_path / "r.csv"
    config = RegalConfig(size=4, rounds=1, feature_evaluations=100)
    run, graph = Run("regal_paper", "regal_paper", 200), random_graph(0)

    def compare_policy(seed):
        key, scale = jax.random.key(0), 0.5 + seed
        params = random_params(config.policy.init, key, inputs_of(graph), scale=scale)
        save_policy(file, params, config, about={})
        policies = {"regal_paper": str(file)}
        comparison_searches.compare({"s": [graph]}, [run], seeds=1, path=path, policies=policies)
        return len(searches)

    assert [compare_policy(seed) for seed in (0, 1, 1)] == [1, 2, 2]


def test_evaluations_are_those_spent_where_a_search_ends_at_its_bound(tmp_path):
    graph = chain(3)
    run = Run("auto", "auto", 5000)
    rows = comparison_searches.compare({"s": [graph]}, [run], seeds=1, path=tmp_path / "r.csv")
    value = {row["metric"]: row["value"] for row in rows}
    assert value["cost"] == value["lower_bound"]
    assert {int(row["evaluations"]) for row in rows} == {api.optimize(graph).evaluations}
    assert int(rows[0]["evaluations"]) < 5000
    assert rows[0]["budget"] == "5000"


def test_a_file_without_keys_is_refused(tmp_path):
    results.write_results(tmp_path / "r.csv", [], ["setting", "ops", "evaluations"])
    with pytest.raises(RegalError, match=r"r\.csv: has no column 'key'"):
        compare(tmp_path / "r.csv")


def test_a_limit_before_the_first_report_has_no_row(tmp_path):
    """The first report of a search of 30 is at 30."""
    rows = compare(tmp_path / "r.csv")
    assert not any(row["metric"] == "cost@10" for row in rows)


@pytest.mark.filterwarnings("ignore:.*cut off")
@pytest.mark.parametrize("keep", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_file_cut_off_anywhere_is_completed(tmp_path, searches, keep):
    path = tmp_path / "r.csv"
    compare(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole))])
    searches.clear()
    rows = compare(path)
    assert 0 < len(searches) <= 12
    timeless = lambda rows: {  # noqa: E731
        (r["setting"], r["graph"], r["method"], r["seed"], r["metric"]): float(r["value"])
        for r in rows
        if r["metric"] != "seconds"
    }
    full = tmp_path / "full.csv"
    full.write_bytes(whole)
    assert timeless(rows) == timeless(results.read_results(full))
    assert timeless(results.read_results(path)) == timeless(rows)
    searches.clear()
    compare(path)
    assert searches == []


def test_cost_after():
    history = ((100, 9.0), (190, 7.0), (280, 7.0))
    costs = [comparison_searches._cost_after(history, limit) for limit in (99, 100, 189, 190, 1000)]
    assert costs == [np.inf, 9.0, 9.0, 7.0, 7.0]


def rows_of(costs):
    """Rows from {method: {graph: [cost by seed]}}."""
    return [
        {"setting": "s", "graph": g, "method": m, "seed": seed, "metric": "cost", "value": cost}
        for m, graphs in costs.items()
        for g, values in graphs.items()
        for seed, cost in enumerate(values)
    ]


COSTS = {
    "brkga": {"a": [100, 200], "b": [50, 50]},
    "regal": {"a": [90, 200], "b": [40, 60]},
    "rule": {"a": [80], "b": [100]},
}


def test_an_interval_over_graphs_has_their_mean():
    costs = {
        method: {f"{graph}{i}": seeds for graph, seeds in graphs.items() for i in range(6)}
        for method, graphs in COSTS.items()
    }
    lines = comparison_searches.summary(rows_of(costs), "s", "brkga")
    regal = next(line for line in lines if line.method == "regal")
    assert regal.improvement.mean == pytest.approx(2.5)
    assert regal.improvement.low <= 2.5 <= regal.improvement.high


def test_summary_by_hand():
    lines = {
        line.method: line for line in comparison_searches.summary(rows_of(COSTS), "s", "brkga")
    }
    regal = lines["regal"]
    assert regal.gains == {"a": pytest.approx(5.0), "b": pytest.approx(0.0)}
    assert regal.improvement.mean == pytest.approx(2.5)
    assert regal.win_or_tie == pytest.approx(75.0)  # of pairs: win, tie, win, loss
    # Best known: a 80, b 40. Gaps: a (12.5 + 150) / 2, b (0 + 50) / 2.
    assert regal.gap.mean == pytest.approx((81.25 + 25) / 2)
    assert regal.geometric_gap == pytest.approx(100 * (1.8125 * 1.25) ** 0.5 - 100)
    reference = lines["brkga"]
    assert (reference.improvement.mean, reference.win_or_tie) == (0.0, 100.0)
    # A rule run once is held against both seeds: a 20% and 60%, b -100%.
    assert lines["rule"].gains == {"a": pytest.approx(40.0), "b": pytest.approx(-100.0)}
    assert lines["rule"].win_or_tie == pytest.approx(50.0)


def test_summary_of_a_subset():
    lines = comparison_searches.summary(rows_of(COSTS), "s", "brkga", subset={"a"})
    assert [set(line.gains) for line in lines] == [{"a"}] * 3
    assert comparison_searches.summary(rows_of(COSTS), "other", "brkga") == []


def test_costs_by_graph_sorts_by_seed():
    rows = rows_of(COSTS)[::-1]
    assert comparison_searches.costs_by_graph(rows, "s") == {m: COSTS[m] for m in COSTS}


def test_programs_are_dropped_where_mappings_run_out():
    double = jax.jit(lambda x: 2 * x)
    double(1.0)
    assert not comparison_searches.make_room()
    assert double._cache_size() == 1
    if comparison_searches.make_room(most=0):  # on Linux
        assert double._cache_size() == 0
    assert double(1.0) == 2.0
