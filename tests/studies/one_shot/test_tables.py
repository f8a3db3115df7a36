"""Tables of machine problems: means, gaps and shares by hand; published numbers beside."""

import numpy as np
import pytest

from regal_jax.datasets.task_graphs import task_graph
from regal_jax.studies.one_shot import tables


def chain(name, *durations):
    pairs = [(op, op + 1) for op in range(len(durations) - 1)]
    return task_graph(pairs, durations, capacity=[1], name=name)


GRAPHS = [chain("a", 30, 60), chain("b", 100)]


def rows_of(method, costs, bound=(90, 100), seconds=(1.0, 3.0), setting="s"):
    """Rows of one method; ``costs`` has for a and b the makespans of seeds 0, 1, ..."""
    return [
        {"setting": setting, "graph": graph, "method": method, "seed": seed}
        | {"metric": metric, "value": value}
        for place, (graph, by_seed) in enumerate(zip("ab", costs, strict=False))
        for seed, cost in enumerate(by_seed)
        for metric, value in (
            *(("cost", cost), ("seconds", seconds[place])),
            ("lower_bound", bound[place]),
        )
    ]


ROWS = [
    *rows_of("spt", [[180], [100]], bound=(45, 100)),
    *rows_of("one_shot S(16)", [[90, 108], [120, 120]]),
    *rows_of("lpt", [[90]]),
    *rows_of("lpt", [[7]], setting="other"),
]


def summary(methods=("one_shot S(16)", "spt", "mopnr", "lpt"), **options):
    return tables.summary(ROWS, "s", GRAPHS, methods, **options)


def test_makespans_speedups_and_gaps_are_means_over_seeds_then_graphs():
    policy, rule, other = summary()  # mopnr was not run
    assert [line.method for line in (policy, rule, other)] == ["one_shot S(16)", "spt", "lpt"]
    assert policy.makespan[::3] == pytest.approx(((99 + 120) / 2, 2))
    speedup = (90 / 90 + 90 / 108) / 2
    assert policy.speedup.mean == pytest.approx((speedup + 100 / 120) / 2)
    assert policy.gap.mean == pytest.approx((10 + 20) / 2)  # from 90 and 100, the best bounds
    assert rule.gap[::3] == pytest.approx((50, 2))
    assert (policy.reached, rule.reached, other.reached) == (0, 50, 100)
    assert (policy.seconds, policy.graphs, other.graphs) == (2.0, 2, 1)


def test_gaps_may_be_from_the_best_known():
    rule = summary(["spt"], best_known={"a": 120, "b": 100})[0]
    assert rule.gap.mean == pytest.approx(25.0)


def test_gaps_of_all_settings_are_from_the_best_known_or_the_best_of_the_rows():
    rule, policy, other = tables.gaps(ROWS, {"b": 80.0})
    gap = (100 * (99 / 90 - 1) + 50) / 2  # the best of a is 90
    assert policy == {"method": "`one_shot S(16)`", "s (2)": f"{gap:.1f} (n = 2)"}
    assert rule["s (2)"] == "62.5 (n = 2)"
    assert other == {"method": "`lpt`", "s (1)": "0.0 (n = 1)", "other (1)": "0.0 (n = 1)"}


def test_published_makespans_stand_below_ours():
    published = {"s": {"spt": 141.0, "PPO": 7.5}, "elsewhere": {"PPO": 1.0}}
    rule, policy, _, other = tables.makespans(ROWS, published)
    assert rule == {"method": "`spt`", "s (2)": "140 (n = 2)"}
    assert policy["s (2)"] == "109.5 (n = 2)"
    assert other == {"method": "PPO, published", "s (2)": "7.5"}


def test_published_gaps_stand_below_ours():
    *ours, other = tables.gaps(ROWS, {}, {"s": {"SLIM": 13.4}, "elsewhere": {"SLIM": 1.0}})
    assert ours == tables.gaps(ROWS, {})
    assert other == {"method": "SLIM, published", "s (2)": "13.4"}


def test_graphs_that_are_not_asked_for_do_not_count():
    line = tables.summary(ROWS, "s", GRAPHS[:1], ["spt"])[0]
    assert (line.makespan.mean, line.graphs) == (180, 1)


def test_the_best_of_several_methods_takes_all_their_time():
    rows = ROWS + tables.best_of(ROWS, ["spt", "lpt"], "best rule")
    best = tables.summary(rows, "s", GRAPHS, ["best rule"])[0]
    assert best.makespan.mean == pytest.approx((90 + 100) / 2)
    assert best.seconds == pytest.approx(np.median([2.0, 3.0]))
    assert best.reached == 100
    assert {row["setting"] for row in rows if row["method"] == "best rule"} == {"s", "other"}


def test_published_numbers_stand_beside_ours_or_alone():
    published = {"one_shot S(16)": 95.0, "PPO": 93.5}
    title, header, _, policy, rule, _, ppo = tables.text(
        "t", summary(), published=published
    ).splitlines()
    assert title == "t (2 graphs)"
    assert " ".join(header.split()) == "method makespan published gap % reached % seconds"
    assert policy.split()[2:7] == ["109.5", "(n", "=", "2)", "95"]
    assert rule.split()[:4] == ["spt", "140", "(n", "="]
    assert "95" not in rule
    assert ppo.split() == ["PPO", "93.5"]


def test_speedups():
    table = tables.text("t", summary(), speedup=True).splitlines()
    assert table[1].split()[1] == "speedup"


def test_the_published_table_of_tpch_is_whole():
    assert list(tables.PUBLISHED_TPCH) == ["tpch 50", "tpch 100", "tpch 150"]
    for means in tables.PUBLISHED_TPCH.values():
        assert len(means) == 6
        assert means["PPO-BiHyb"] == min(means.values())
