"""Table 3 and figures 7 and 8: numbers by hand."""

from regal_jax.reporting.statistics import MeanInterval
from regal_jax.studies.regal import ablation_tables


def row(placement, scheduling, metric, value):
    return {"placement": placement, "scheduling": scheduling, "metric": metric, "value": value}


USAGE = [
    row("a", "x", "ops", 3),
    row("a", "x", "relative memory", 0.6),
    row("b", "x", "ops", 0),
    row("b", "x", "relative memory", 0.0),
    row("a", "x", "ops", 1),
    row("a", "x", "relative memory", 1.0),
    row("b", "y", "ops", 4),
    row("b", "y", "relative memory", 1.0),
]


def test_usage_is_summed_over_graphs():
    found = ablation_tables.usage_by_group(USAGE)
    assert [tuple(group.values()) for group in found] == [
        ("a", "x", 50.0, 0.4),
        ("b", "x", 0.0, None),
        ("b", "y", 50.0, 0.25),
    ]


def test_table_3_has_the_paper_s_numbers_beside_ours():
    value = MeanInterval(1.0, -0.5, 2.5, 20)
    table = ablation_tables.table_3(
        {
            "scheduling": {"valid": value, "test": value, "XLA": value},
            "placement+elite_bias": {"valid": value, "test, 4 microbatches": value},
        }
    )
    header, _, first, second = (line.split() for line in table.splitlines())
    ours = ["1.00", "[-0.50,", "2.50]"]
    assert header.count("paper") == 3
    assert first == ["no", "yes", "no", *ours, "4.40", *ours, "3.65", *ours, "1.00"]
    assert second == ["yes", "no", "yes", *ours, "-1.53", *ours]


def test_table_3_of_the_paper_has_every_subset_but_two():
    names = {frozenset(name.split("+")) for name in ablation_tables.PAPER_TABLE_3["valid"]}
    assert len(names) == 6
    assert set.union(*map(set, names)) == set(ablation_tables.ACTIONS)


def test_spread():
    table = ablation_tables.spread_table({"0": [3.0, 1.0, 2.0, 0.0, 4.0], "16": [-1.5]}, "T")
    lines = [line.split() for line in table.splitlines()[2:]]
    assert lines[0] == ["0", "5", "4.00", "3.00", "2.00", "1.00", "0.00"]
    assert lines[1] == ["16", "1", *["-1.50"] * 5]
