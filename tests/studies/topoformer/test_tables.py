"""Topoformer's tables: gaps by hand, the paper's numbers beside them, a picture that parses."""

import math

import pytest

from regal_jax.errors import RegalError
from regal_jax.studies.paper_numbers import Number
from regal_jax.studies.topoformer import tables

DP = "approximate_dp 10"


def rows_of(method, costs, seconds=1.0, setting="500 nodes"):
    """Rows of one method; ``costs`` has by graph the cost of seeds 0, 1, ..."""
    return [
        {"setting": setting, "graph": graph, "method": method, "seed": seed}
        | {"metric": metric, "value": value}
        for graph, by_seed in costs.items()
        for seed, cost in enumerate(by_seed)
        for metric, value in (("cost", cost), ("seconds", seconds))
    ]


ROWS = [
    *rows_of("topoformer beam 4", {"a": [110, 130], "b": [190, 190], "c": [50]}, seconds=0.25),
    *rows_of(DP, {"a": [100], "b": [200]}, seconds=8),
    *rows_of("lpmf", {"a": [150], "b": [203]}),
    *rows_of("lpmf", {"a": [7]}, setting="1000 nodes"),
]


def summary(**options):
    return tables.summary(ROWS, "500 nodes", [DP, "topoformer beam 4"], DP, **options)


def test_gaps_are_means_over_seeds_then_graphs_with_the_reference():
    reference, beam = summary()
    assert (reference.gap.mean, reference.gap.graphs) == (0.0, 2)
    assert beam.gap.mean == pytest.approx((20.0 - 5.0) / 2)
    assert beam.gap.text() == "7.50 (n = 2)"
    assert (reference.seconds.mean, beam.seconds.mean) == (8.0, 0.25)
    assert (reference.graphs, beam.graphs) == (2, 2)  # the reference has no c


def test_a_subset_has_those_graphs_only():
    assert [line.gap.mean for line in summary(subset={"b"})] == pytest.approx([0.0, -5.0])


def test_methods_without_rows_have_no_line():
    lines = tables.summary(ROWS, "500 nodes", ["xla_dfs", "lpmf"], DP)
    assert [line.method for line in lines] == ["lpmf"]


def test_headroom_is_between_the_worst_and_the_best_of_any_method():
    assert tables.with_headroom(ROWS, "500 nodes") == {"a", "b"}
    narrow = rows_of(DP, {"a": [100], "b": [100]}) + rows_of("lpmf", {"a": [102], "b": [101]})
    assert tables.with_headroom(narrow, "500 nodes") == {"a"}


def test_the_paper_s_numbers_stand_beside_ours():
    paper = {
        "topoformer beam": {"gap": Number(3.08, 0.51), "seconds": Number(4.15)},
        "approximate_dp": {"gap": Number(0), "seconds": Number(265)},
    }
    title, header, _, first, second = tables.text("t", summary(), paper).splitlines()
    assert title == "t (2 graphs)"
    assert header.split() == ["method", "gap", "%", "paper", "seconds", "paper", "s"]
    assert first.split()[2:] == ["0.00", "(n", "=", "2)", "0.00", "8", "(n", "=", "2)", "265.00"]
    ours = "7.50 (n = 2) 3.08 ± 0.51 0.25 (n = 2) 4.15"
    assert second.split()[3:] == ours.split()


@pytest.mark.parametrize(
    ("label", "key"),
    [
        ("approximate_dp 100000", "approximate_dp"),
        ("depth_first_dp 0.5s", "depth_first_dp"),
        ("topoformer_ar sample 16", "topoformer_ar sample"),
        ("lpmf", "lpmf"),
    ],
)
def test_labels_are_looked_up_without_their_budgets(label, key):
    assert tables.paper_key(label) == key


@pytest.mark.parametrize(
    ("table", "shape"),
    [
        (tables.PAPER_TABLE_1, (3, 8)),
        (tables.PAPER_TABLE_2, (3, 8)),
        (tables.PAPER_TABLE_3, (2, 18)),
        (tables.PAPER_TABLE_4, (2, 9)),
    ],
)
def test_the_paper_s_tables_are_whole(table, shape):
    assert len(table) == shape[0]
    assert all(len(cells) == shape[1] for cells in table.values())


def test_tables_1_3_and_4_of_the_paper_agree_at_500_nodes():
    """The same policy, but for the runs that they are means of."""
    for decoding in ("greedy", "sample", "beam"):
        gaps = [
            table["500 nodes"][f"{name} {decoding}"]["gap"].value
            for table, name in (
                (tables.PAPER_TABLE_1, "topoformer"),
                (tables.PAPER_TABLE_3, "topoformer"),
                (tables.PAPER_TABLE_4, "topoformer_nar"),
            )
        ]
        assert max(gaps) - min(gaps) < 0.15
        assert gaps[1] == gaps[2]


def test_a_page_has_gaps_of_graphs_with_headroom_and_the_paper_s():
    rows = [
        *ROWS,
        *rows_of(DP, {"a": [100]}, setting="1000 nodes"),
        *rows_of("topoformer beam 4", {"a": [90]}, setting="1000 nodes"),
        *rows_of("lpmf", {"d": [100]}),
        *rows_of(DP, {"d": [99]}),
    ]
    paper = {"500 nodes": {"topoformer beam": {"gap": Number(3.08, 0.51)}}}
    page = tables.page(paper, rows)
    assert "Percent above `approximate_dp 10`" in page
    lines = {line.split("|")[1].strip(): line for line in page.splitlines() if "| `" in line}
    assert "7.5 (n = 2) (3.08 ± 0.51)" in lines["`topoformer beam 4`"]
    assert "-10.0 (n = 1)" in lines["`topoformer beam 4`"]
    assert "500 nodes (2)" in page  # d has no headroom; the reference has no c
    assert " 0.25 |" in lines["`topoformer beam 4`"]


def test_pairs_are_of_as_many_orders_without_beams():
    rows = [
        *rows_of("next_op sample 4", {"a": [100], "b": [100]}),
        *rows_of("lookahead sample 4", {"a": [110], "b": [121]}),
        *rows_of("topoformer beam 4", {"a": [1], "b": [1]}),
    ]
    page = tables.page_of_pairs(rows)
    assert f"{100 * math.log(1.1) * 1.5:.2f}" in page
    assert "| `lookahead` |" in page
    assert "topoformer" not in page


def test_a_page_has_one_reference():
    with pytest.raises(RegalError, match="rows of 0 approximate_dp; gaps are from one"):
        tables.page({}, rows_of("lpmf", {"a": [1]}))
