"""Paired comparisons: the method against each other one of its budget, by setting."""

import numpy as np
import pytest

from regal_jax.studies.comparison.paired import paired_table


def rows_of(costs, setting="as traced"):
    """Rows from {label: {graph: costs by seed}}."""
    return [
        {
            "setting": setting,
            "graph": graph,
            "method": label,
            "seed": str(seed),
            "metric": "cost",
            "value": str(value),
        }
        for label, graphs in costs.items()
        for graph, values in graphs.items()
        for seed, value in enumerate(values)
    ]


def test_costs_are_compared_at_equal_budgets_by_graph():
    rows = rows_of(
        {
            "regal 5000": {"a": [1.0, 3.0], "b": [5.0, 5.0], "c": [1.0, 1.0]},
            "brkga 5000": {"a": [4.0, 4.0], "b": [4.0, 6.0], "c": [0.5, 0.5]},
            "regal 1": {"a": [8.0, 8.0], "b": [1.0, 1.0]},
            "etf": {"a": [8.0, 8.0]},
        }
    ) + rows_of({"regal 20": {"a": [1.0]}, "auto 20": {"a": [2.0]}}, "2 microbatches")
    first, full, other = paired_table(rows, "regal")
    assert (first["over"], first["evaluations"]) == ("`etf`", "1")
    assert first["better, worse, of"] == "0, 0, 1"
    assert (full["over"], full["evaluations"]) == ("`brkga`", "5,000")
    assert full["better, worse, of"] == "1, 1, 3"
    mean = 100.0 * (np.log(2.0) + 0.0 + np.log(0.5)) / 3.0
    assert float(full["less, %"].split()[0]) == pytest.approx(mean, abs=0.01)
    assert other["setting"] == "2 microbatches"
    assert other["less, %"] == f"{100.0 * np.log(2.0):.2f} (n = 1)"


def test_samples_are_compared_with_as_many_and_greedy_schedules_with_rules():
    labels = ("one_shot S(16)", "one_shot greedy", "other S(16)", "other greedy", "spt")
    rows = rows_of({label: {"a": [float(2 + at)]} for at, label in enumerate(labels)})
    found = [(line["evaluations"], line["over"]) for line in paired_table(rows, "one_shot")]
    assert found == [("1", "`other`"), ("1", "`spt`"), ("16", "`other`")]


def test_a_method_keeps_what_stands_before_its_decoding_and_budget():
    labels = ("one_shot S(16)", "rule S(16)", "rule backwards S(16)", "regal 16 trials")
    rows = rows_of({label: {"a": [float(2 + at)]} for at, label in enumerate(labels)})
    found = [line["over"] for line in paired_table(rows, "one_shot")]
    assert found == ["`rule`", "`rule backwards`", "`regal`"]


def test_a_method_without_rows_has_no_table():
    assert paired_table(rows_of({"brkga 10": {"a": [1.0]}}), "regal") == []


def test_kin_count_as_one():
    ours = {"a/1": [1.0], "a/2": [1.0], "b/1": [1.0]}
    theirs = {"a/1": [4.0], "a/2": [1.0], "b/1": [4.0]}
    rows = rows_of({"regal 5000": ours, "brkga 5000": theirs})
    (line,) = paired_table(rows, "regal", kin=lambda graph: graph.split("/")[0])
    mean = 100.0 * (np.log(2.0) + np.log(4.0)) / 2.0
    assert line["less, %"] == f"{mean:.2f} (n = 2)"
    assert line["better, worse, of"] == "2, 0, 3"
