"""Statistics against values worked out by hand."""

import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.reporting import statistics


def test_improvement_and_gap_by_hand():
    assert statistics.improvement_percent(75, 100) == 25
    assert statistics.improvement_percent([120, 100], 100).tolist() == [-20, 0]
    assert statistics.gap_percent([100, 150], [100, 120]).tolist() == [0, 25]


def test_a_reference_of_zero():
    assert statistics.improvement_percent([0, 5], 0).tolist() == [0, -np.inf]
    assert statistics.gap_percent([0, 5], 0).tolist() == [0, np.inf]


def test_seeds_are_averaged_within_a_graph_first():
    few = statistics.mean_interval({"a": [0, 0, 0, 0], "b": [10, 20]})
    assert (few.mean, few.graphs) == (7.5, 2)
    many = statistics.mean_interval(
        {f"a{i}": [0, 0, 0, 0] for i in range(5)} | {f"b{i}": [10, 20] for i in range(5)}
    )
    assert (many.mean, many.graphs) == (7.5, 10)
    assert 0 < many.low < 7.5 < many.high < 15


def test_interval_is_reproducible_and_close_to_the_normal_one():
    values = np.random.default_rng(1).normal(5, 2, 400)
    by_graph = {str(i): [value] for i, value in enumerate(values)}
    interval = statistics.mean_interval(by_graph)
    assert interval == statistics.mean_interval(by_graph)
    half = 1.96 * values.std() / 20
    np.testing.assert_allclose(interval[:3], values.mean() + np.array([0, -half, half]), atol=0.03)


def test_of_few_graphs_their_number_is_told_instead_of_an_interval():
    nine = statistics.mean_interval({str(i): [i] for i in range(9)})
    assert np.isnan([nine.low, nine.high]).all()
    assert nine.text() == "4.00 (n = 9)"
    ten = statistics.mean_interval({str(i): [i] for i in range(10)})
    assert ten.low < ten.mean < ten.high
    assert ten.text("+.1f") == f"+4.5 [{ten.low:+.1f}, {ten.high:+.1f}]"


def test_equal_graphs_have_an_interval_of_no_width():
    equal = statistics.mean_interval({str(i): [1, 2] for i in range(10)})
    assert equal == (1.5, 1.5, 1.5, 10)


def test_an_infinite_value_has_no_interval():
    infinite = statistics.mean_interval({str(i): [np.inf if i == 3 else 1] for i in range(12)})
    assert infinite.text() == "inf (n = 12)"


def test_a_skewed_sample_has_a_skewed_interval():
    """BCa follows the tail: the upper half is longer, and more so than a percentile interval's."""
    values = np.random.default_rng(0).exponential(1, 60)
    mean, low, high, _ = statistics.mean_interval({str(i): [v] for i, v in enumerate(values)})
    means = np.random.default_rng(1).choice(values, (4000, 60)).mean(axis=1)
    percentile = np.percentile(means, [2.5, 97.5])
    assert high - mean > mean - low
    assert (high + low) / 2 > percentile.mean()


def test_shares_and_geometric_mean_by_hand():
    assert statistics.win_or_tie_share([1, 2, 3, 4], [1, 3, 2, 5]) == 0.75
    assert statistics.geometric_mean([1, 4, 16]) == pytest.approx(4)
    assert statistics.geometric_mean([0, 5]) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: statistics.mean_interval({}),
        lambda: statistics.mean_interval({"a": []}),
        lambda: statistics.win_or_tie_share([], []),
        lambda: statistics.geometric_mean([]),
        lambda: statistics.geometric_mean([-1]),
    ],
)
def test_nothing_to_summarise_is_an_option_error(call):
    with pytest.raises(OptionError):
        call()
