"""Tables of robust scheduling: means and spreads by hand, the paper's numbers beside them."""

import itertools

import pytest

from regal_jax.errors import OptionError
from regal_jax.reporting import results
from regal_jax.studies.gflownet import tables
from regal_jax.studies.gflownet.tables import Paired
from regal_jax.studies.paper_numbers import Number

TABLES = (tables.PAPER_TABLE_1, tables.PAPER_TABLE_2, tables.PAPER_TABLE_3)


def rows_of(method, metric, by_graph, setting="real"):
    """Rows of one metric; ``by_graph`` has the value of seeds 0, 1, ..."""
    return [
        {"graph": graph, "method": method, "seed": seed, "metric": metric, "value": value}
        | {"setting": setting, "ops": "50"}
        for graph, by_seed in by_graph.items()
        for seed, value in enumerate(by_seed)
    ]


ONE_GRAPH = [
    *rows_of("gflownet", "noisy", {"a": [3.0, 2.0, 4.0]}),
    *rows_of("gflownet", "ged", {"a": [90.0, 91.0, 92.0]}),
    *rows_of("gflownet", "proxy_1", {"a": [3.0, 3.0, 3.0]}),
    *rows_of("gflownet", "seconds", {"a": [1.0, 1.0, 1.0]}),
    *rows_of("critical_path", "noisy", {"a": [2.5]}),
    *rows_of("critical_path", "noisy", {"a": [9.0], "b": [9.0]}, setting="random"),
]

MANY_GRAPHS = [
    *rows_of("gflownet", "bandwidth", {"a": [1.0, 2.0], "b": [3.0, 3.0], "c": [9.0, 9.0]}),
    *rows_of("brkga", "bandwidth", {"a": [1.0, 1.0], "b": [4.0, 2.0]}),
    *rows_of("critical_path", "bandwidth", {"a": [2.0], "b": [1.0]}),
    *rows_of("brkga", "my_target", {"a": [1.0, 1.0]}),
    *rows_of("brkga", "proxy_100", {"a": [2.0, 2.0], "b": [3.0, 4.0]}),
]


def words(line):
    return " ".join(line.split())


def test_one_graph_has_means_and_deviations_over_seeds():
    flow, rule = tables.over_seeds(ONE_GRAPH, "real")
    assert (flow.method, flow.size, rule.method, rule.size) == ("gflownet", 3, "critical_path", 1)
    assert flow.cells["noisy"] == Number(3.0, 1.0)
    assert flow.cells["ged"] == Number(91.0, 1.0)
    assert rule.cells == {"noisy": Number(2.5, 0.0)}


def test_a_spread_over_seeds_is_of_one_graph():
    with pytest.raises(OptionError, match="random: has 2 graphs"):
        tables.over_seeds(ONE_GRAPH, "random")


def test_many_graphs_have_means_over_seeds_then_graphs_with_intervals_over_graphs():
    flow, brkga, rule = tables.over_graphs(MANY_GRAPHS, "real")
    assert [line.size for line in (flow, brkga, rule)] == [3, 2, 2]
    assert flow.cells["bandwidth"].mean == pytest.approx((1.5 + 3 + 9) / 3)
    assert brkga.cells["bandwidth"][::3] == pytest.approx((2.0, 2))
    assert brkga.cells["proxy_100"].mean == pytest.approx((2 + 3.5) / 2)


def test_unknown_settings_have_no_lines():
    assert tables.over_graphs(ONE_GRAPH, "elsewhere") == []
    assert tables.over_seeds(ONE_GRAPH, "elsewhere") == []


def test_targets_are_the_metrics_that_no_method_has_of_its_own():
    assert tables.targets(ONE_GRAPH) == ["noisy"]
    assert tables.targets(MANY_GRAPHS) == ["bandwidth", "my_target"]


def test_pairs_are_graph_by_graph_and_seed_by_seed():
    brkga, rule = tables.paired(MANY_GRAPHS, "real", "gflownet")
    assert (brkga.other, brkga.metric, brkga.pairs) == ("brkga", "bandwidth", 4)
    # a: 0, 1; b: -1, 1
    assert brkga.difference[::3] == pytest.approx((0.25, 2))
    assert (brkga.wins, brkga.ties) == (50.0, 25.0)
    # The rule's one run stands against both seeds; a: -1, 0; b: 2, 2
    assert (rule.other, rule.pairs, rule.wins, rule.ties) == ("critical_path", 4, 50.0, 25.0)
    assert rule.difference[::3] == pytest.approx((0.75, 2))


def test_pairs_turn_round():
    for line in tables.paired(MANY_GRAPHS, "real", "gflownet"):
        (back,) = [
            other
            for other in tables.paired(MANY_GRAPHS, "real", line.other, [line.metric])
            if other.other == "gflownet"
        ]
        assert back.difference.mean == pytest.approx(-line.difference.mean)
        assert (back.wins, back.ties) == (100 - line.wins - line.ties, line.ties)


def test_pairs_on_one_graph_have_an_interval_over_seeds():
    (line,) = tables.paired(ONE_GRAPH, "real", "gflownet")
    assert line.difference[::3] == pytest.approx((0.5, 3))
    assert (line.wins, line.pairs) == (pytest.approx(200 / 3), 3)


def test_runs_without_a_seed_in_common_are_no_pairs():
    rows = rows_of("gflownet", "noisy", {"a": [1, 2]})
    later = [row | {"seed": row["seed"] + 5} for row in rows_of("ppo", "noisy", {"a": [1, 2]})]
    assert tables.paired(rows + later, "real", "gflownet") == []
    assert tables.paired(rows, "real", "nobody") == []


def test_the_paper_s_numbers_stand_below_ours():
    lines = tables.over_seeds(ONE_GRAPH, "real")
    drawn = tables.text("t", lines, tables.PAPER_TABLE_1).splitlines()
    title, header, _, flow, flow_paper, rule, rule_paper, *others = drawn
    assert title == "t"
    assert words(header) == "method seeds Proxy 1 Noisy GED [%]"
    assert words(flow) == "gflownet 3 3.00 ± 0.00 3.00 ± 1.00 91.00 ± 1.00"
    assert words(flow_paper) == "gflownet (paper) 3.21 ± 0.02 3.05 ± 0.04 94.79 ± 0.15"
    assert words(rule) == "critical_path 1 2.50 ± 0.00"
    assert words(rule_paper) == "critical_path (paper) 3.23 ± 0.00 2.75 ± 0.00 0.00"
    assert [line.split()[0] for line in others] == ["brkga", "ppo"]


def test_columns_are_in_the_paper_s_order_and_targets_of_any_name_among_them():
    lines = tables.over_graphs(MANY_GRAPHS, "real")
    _, header, _, flow, *_ = tables.text("t", lines).splitlines()
    assert words(header) == "method graphs Proxy 100 Bandwidth My target"
    assert words(flow) == "gflownet 3 4.50 (n = 3)"


def test_comparisons_are_drawn():
    lines = tables.paired(MANY_GRAPHS, "real", "gflownet")
    title, header, _, brkga, _ = tables.paired_text("t", lines).splitlines()
    assert title == "t"
    assert words(header) == "against on difference wins % ties % pairs"
    assert words(brkga) == "brkga Bandwidth +0.250 (n = 2) 50 25 4"


def test_rows_may_come_from_a_file(tmp_path):
    path = tmp_path / "results.csv"
    results.write_results(path, MANY_GRAPHS, ("setting", "ops"))
    read = results.read_results(path)
    assert tables.over_graphs(read, "real") == tables.over_graphs(MANY_GRAPHS, "real")
    assert isinstance(tables.paired(read, "real", "brkga")[0], Paired)


def test_the_paper_s_tables_are_whole():
    methods = ["critical_path", "brkga", "ppo", "gflownet"]
    assert [list(table) for table in TABLES] == [methods] * 3
    assert [{len(line) for line in table.values()} for table in TABLES] == [{7}, {5}, {8}]


def test_what_the_paper_says_of_its_tables_holds_for_ours():
    for table in TABLES:
        assert all(table["critical_path"][metric].value == 0 for metric in tables.DIVERSITY)
        ours = table["gflownet"]
        for metric in (*tables.targets(_as_rows(table)), "ged", "d_sen"):
            best = max(table, key=lambda method, m=metric, t=table: t[method][m].value)
            assert best == "gflownet" or (metric, ours[metric].value) == ("noisy", 3.05)
        for line in table.values():
            assert line["d_inv"].value <= line["d_sen"].value
    for table, line in itertools.product(TABLES[1:], ("brkga", "ppo", "gflownet")):
        assert table[line]["proxy_1"].value > table[line]["proxy_100"].value


def _as_rows(table):
    return [{"metric": metric} for line in table.values() for metric in line]


def test_pages_by_hand():
    common = {"candidates": "100", "devices": "4", "noise_draws": "20"}
    values = {"a": [1.0], "b": [2.0]}
    ours = [
        *rows_of("lists", "noisy", values),
        *rows_of("lists", "noisy mean", {"a": [0.5], "b": [1.0]}),
        *rows_of("lists", "noisy q95", {"a": [0.75], "b": [1.5]}),
        *rows_of("lists", "ged", {"a": [50.0], "b": [70.0]}),
        *rows_of("lists trials", "noisy", {"a": [1.5], "b": [2.25]}),
    ]
    rows = [row | common for row in ours]
    header, _, first, second, *paper = tables.page(rows).split("\n\n")[1].splitlines()
    assert words(header) == "| method | Proxy 1 | Noisy | GED [%] |"
    assert words(first) == "| lists | | 1.50 (n = 2) | 60.00 (n = 2) |"
    assert words(second) == "| lists trials | | 1.88 (n = 2) | |"
    assert words(paper[-1]).startswith("| gflownet (paper) | 2.71")
    spread = tables.page_of_spread(rows)
    assert "2 graphs, 100 candidates of each, 4 devices, 20 draws of the noise" in spread
    assert words(spread.splitlines()[-1]) == "| lists | 0.75; 1.12 |"
    pairs = tables.page_of_pairs("lists trials", rows).splitlines()
    assert words(pairs[-1]) == "| lists | +0.38 (n = 2) |"
    assert tables.page_of_pairs("lists trials", rows, ["lists"]).splitlines() == pairs
    both = [*rows, *(row | {"method": "other"} for row in rows if row["method"] == "lists")]
    assert "other" in tables.page_of_pairs("lists trials", both)
    assert tables.page_of_pairs("lists trials", both, ["lists"]).splitlines() == pairs


def test_the_page_of_sizes_has_a_table_a_setting_and_the_difference_from_the_control():
    common = {"candidates": "9", "devices": "4", "noise_draws": "1"}
    rows = [
        row | common | {"setting": setting}
        for setting, graphs in (("one graph", {"a": 0}), ("unseen graphs", {"a": 0, "b": 1}))
        for method, more in (("lists", 0.0), ("flow", 0.5))
        for spread in ("0", "2")
        for row in rows_of(
            method,
            f"bandwidth {spread}",
            {g: [1.0 + more + n, 1.0 + more] for g, n in graphs.items()},
        )
    ]
    found = tables.page_of_sizes(rows, "flow", "lists").splitlines()
    assert (
        found[0]
        == "One graph: 1 graph, 9 candidates of each, 4 devices, 1 draw of the noise, 2 seeds."
    )
    assert words(found[2]) == "| method | Bandwidth 0 | Bandwidth 2 |"
    assert words(found[4]) == "| lists | 1.00 ± 0.00 | 1.00 ± 0.00 |"
    assert words(found[6]) == "| flow less lists | +0.50 (n = 2) | +0.50 (n = 2) |"
    assert found[8].startswith("Unseen graphs: 2 graphs")
    assert words(found[-2]) == "| flow | 1.75 (n = 2) | 1.75 (n = 2) |"
    assert words(found[-1]) == "| flow less lists | +0.50 (n = 2) | +0.50 (n = 2) |"


def test_the_page_of_trainings_has_all_that_they_say():
    rows = [*rows_of("a", "quarter_1", {"losses": [1.0, 3.0]}, "losses")]
    rows += rows_of("b", "quarter_1", {"losses": [1.5, 1.5]}, "losses")
    rows += rows_of("b", "top", {"losses": [9.0, 9.0]}, "losses")
    caption, _, header, _, *lines = tables.page_of_means(rows).splitlines()
    assert caption == "Losses; mean and standard deviation over 2 seeds."
    assert words(header) == "| method | Quarter 1 | Top |"
    assert [words(line) for line in lines] == [
        "| a | 2.00 ± 1.41 | |",
        "| b | 1.50 ± 0.00 | 9.00 ± 0.00 |",
    ]
    assert tables.page_of_means([row for row in rows if row["seed"] == 0]).startswith(
        "Losses; losses."
    )


def test_the_page_of_one_graph_is_over_seeds_beside_table_1():
    common = {"candidates": "100", "devices": "4", "noise_draws": "20"}
    rows = [row | common for row in ONE_GRAPH if row["setting"] == "real"]
    caption, table = tables.page(rows).split("\n\n", 1)
    assert caption.startswith(
        "1 graph, 100 candidates of each, 4 devices, 20 draws of the noise, 3"
    )
    assert "standard deviation over seeds" in caption
    header, _, flow, *_, paper = table.splitlines()
    assert words(header) == "| method | Proxy 1 | Proxy 100 | Noisy | GED [%] |"
    assert words(flow) == "| gflownet | 3.00 ± 0.00 | | 3.00 ± 1.00 | 91.00 ± 1.00 |"
    assert words(paper).startswith("| gflownet (paper) | 3.21 ± 0.02 | | 3.05 ± 0.04")


def test_the_page_of_random_graphs_puts_families_together_beside_table_2():
    common = {"candidates": "9", "devices": "4", "noise_draws": "1"}
    rows = [
        row | common | {"setting": f"family {graph}"}
        for method, more in (("list_sampling", 0.0), ("gflownet", 0.5))
        for metric in ("proxy_1", "proxy_100", "ged", "d_inv", "d_sen")
        for graph in ("a", "b")
        for row in rows_of(method, metric, {graph: [1.0 + more]})
    ]
    caption, table, _, pairs = tables.page_of_random(rows).split("\n\n")
    assert caption.startswith("2 graphs, 9 candidates of each")
    header, _, _, flow, *paper = table.splitlines()
    assert words(header) == "| method | Proxy 1 | Proxy 100 | GED [%] | d_inv | d_sen |"
    assert words(flow).startswith("| gflownet | 1.50 (n = 2) | 1.50 (n = 2) |")
    assert any(words(line).startswith("| gflownet (paper) | 3.46") for line in paper)
    assert words(pairs.splitlines()[-1]) == "| list_sampling | +0.50 (n = 2) | +0.50 (n = 2) |"
