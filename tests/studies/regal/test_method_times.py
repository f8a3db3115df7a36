"""Table 2: what is measured, and what is made of it."""

from regal_jax.reporting import results
from regal_jax.studies.regal import method_times
from tests.policies.cases import random_graph


def measure(path, methods, **options):
    settings = {"as traced": [random_graph(0), random_graph(1, 12)]}
    common = {"evaluations": 200, "objective": "peak_memory", "path": path}
    return method_times.measure(settings, methods, **common | options)


def test_each_method_is_timed_twice_on_each_graph_once(tmp_path):
    path = tmp_path / "times.csv"
    rows = measure(path, ["brkga", "local_search"])
    assert [(r["graph"], r["method"], r["metric"]) for r in rows] == [
        (graph, method, metric)
        for graph in ("random 0", "random 1")
        for method in ("brkga", "local_search")
        for metric in ("first", "seconds")
    ]
    assert all(float(row["value"]) > 0 for row in rows)
    kept = path.read_text()
    assert len(measure(path, ["brkga", "local_search"])) == len(rows)
    assert path.read_text() == kept
    assert len(results.read_results(path)) == len(rows)


def test_methods_that_cannot_run_are_left_out(tmp_path, capsys):
    rows = measure(tmp_path / "times.csv", ["regal_paper", "local_search"])
    assert {row["method"] for row in rows} == {"local_search"}
    told = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in told] == ["regal_paper is left out"]


def test_ratios_are_geometric_means_over_brkgas():
    seconds = {("brkga", "g"): 1.0, ("brkga", "h"): 2.0, ("auto", "g"): 4.0, ("auto", "h"): 2.0}
    rows = [
        {"setting": "XLA", "graph": graph, "method": method, "metric": metric, "value": value}
        for (method, graph), value in seconds.items()
        for metric in ("first", "seconds")
    ]
    brkga, auto = method_times.table(rows, "XLA")
    assert (brkga["seconds"], brkga["over brkga"], brkga["paper"]) == ("1.5", "1", "8.82")
    assert (auto["seconds"], auto["over brkga"], auto["paper"]) == ("3", "2", "")
    traced = [row | {"setting": "as traced"} for row in rows]
    assert method_times.table(traced, "as traced")[0]["paper"] == "0.89"
    title, table = method_times.page(traced).split("\n\n", 1)
    assert title == "As traced, 2 graphs, seconds a graph:"
    assert table.splitlines()[2].startswith("| brkga")
    assert method_times.table(rows, "as traced") == []
