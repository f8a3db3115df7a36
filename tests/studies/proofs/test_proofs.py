"""Proofs of a corpus: what is counted, what is open, and what a claim is worth."""

import pytest

import regal_jax as rj
from regal_jax.errors import OptionError, RegalError
from regal_jax.graphs.files import save_graphs
from regal_jax.studies.proofs import claims, report, runs
from regal_jax.studies.proofs.runs import Settings
from tests.policies.cases import random_graph


def row(graph, metric, value, setting="1 device", method="auto"):
    return {
        "graph": graph,
        "method": method,
        "seed": 0,
        "metric": metric,
        "value": value,
        "setting": setting,
        "ops": "7",
    }


def rows_of(graph, cost, bound, **where):
    values = {"cost": cost, "seconds": 2.0, "lower_bound": bound}
    return [row(graph, metric, value, **where) for metric, value in values.items()]


def test_shares_and_gaps_by_hand():
    rows = [*rows_of("a", 100, 100), *rows_of("b", 130, 100), *rows_of("c", 220, 200)]
    line = report.proven(rows).splitlines()[2]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:5] == ["1 device", "`auto`", "all", "3", "33.3"]
    assert cells[5].startswith("13.33")
    assert cells[6] == "10.00"


def test_open_graphs_by_the_best_of_all_methods_hardest_first():
    rows = [*rows_of("a", 120, 100), *rows_of("a", 110, 90, method="cp_sat")]
    rows += [*rows_of("b", 150, 100), *rows_of("c", 90, 80), *rows_of("c", 90, 90, method="cp_sat")]
    lines = report.still_open(rows).splitlines()[2:]
    assert [line.split("|")[2].strip() for line in lines] == ["`b`", "`a`"]
    assert "110" in lines[1]
    assert report.still_open(rows_of("a", 1, 1)) == "None.\n"


def test_runs_resume_and_are_bounds(tmp_path):
    graphs = [random_graph(seed, 12).replace(name=f"g{seed}") for seed in range(3)]
    save_graphs(graphs, tmp_path / "graphs.jsonl")
    settings = Settings(folder=str(tmp_path), devices=(1, 2), parts=(1,), seconds=3.0)
    some = runs.corpora(settings)
    assert sorted(graph.name for graph in some[""]) == ["g0", "g1", "g2"]
    rows = runs.run(some, settings, tmp_path / "results.csv")
    assert runs.run(some, settings, tmp_path / "results.csv") == rows
    for setting in ("1 device", "2 devices"):
        for answer in report.best_known(rows, setting).values():
            assert 0 < answer.bound <= answer.cost
    assert all(answer.gap == 0 for answer in report.best_known(rows, "1 device").values())


def test_claims(tmp_path):
    graph = min(rj.datasets.model_zoo(split="valid"), key=lambda graph: graph.num_ops)
    best = rj.optimize(graph, num_devices=1)
    rj.save_schedule(best, tmp_path / "s.json")
    path, peak = tmp_path / "s.json", int(best.cost)
    assert "the best known schedule needs" in claims.judged([path], rows_of(graph.name, peak, 1))[0]
    better = claims.judged([path], rows_of(graph.name, 2 * peak, peak))[0]
    assert "an improvement by 50 %" in better
    assert "which is optimal" in better
    assert "no less than 1 will do" in claims.judged([path], rows_of(graph.name, 2 * peak, 1))[0]
    with pytest.raises(OptionError, match=r"s\.json: graph: nothing is known"):
        claims.judged([path], rows_of("another", peak, 1))
    wrong = best.replace(peak_memory=(peak - 1,))
    rj.save_schedule(wrong, path)
    with pytest.raises(RegalError, match=r"s\.json: peak_memory: claims"):
        claims.judged([path], rows_of(graph.name, 2 * peak, 1))
    rj.save_schedule(rj.optimize(graph, objective="makespan"), path)
    with pytest.raises(OptionError, match=r"s\.json: objective: must be peak_memory"):
        claims.judged([path], [])


def test_microbatches_have_names_of_their_own():
    graph = random_graph(1, 6).replace(name="a")
    assert runs.in_parts(graph, 1).name == "a"
    assert runs.in_parts(graph, 2).name == "a@2"
    assert runs.in_parts(graph, 2).num_ops == 12


def test_layered_graphs_have_settings_of_their_sizes(tmp_path):
    settings = Settings(layered=(20, 30), max_graphs=2, seconds=0.3)
    some = runs.corpora(settings)
    assert {name: len(graphs) for name, graphs in some.items()} == {
        "20 layered ops": 2,
        "30 layered ops": 2,
    }
    rows = runs.run(some, settings, tmp_path / "results.csv")
    answers = report.best_known(rows, "1 device, 30 layered ops")
    assert {answer.ops for answer in answers.values()} == {30}
