"""Plots of robust scheduling: files that parse, what is read from logs, numbers by hand."""

import numpy as np
import pytest

from regal_jax.errors import OptionError, RegalError
from regal_jax.reporting.curves import Curve, read_curve
from regal_jax.studies.gflownet import plots
from tests.reporting.test_plots import check_png

RNG = np.random.default_rng(0)
PROXY = RNG.uniform(1, 4, 200)
RUN = Curve(np.arange(1, 1001), np.linspace(1, 3, 1000) + 0.1 * RNG.normal(size=1000))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "figure.png"


def test_correlations_by_hand():
    proxy = [1.0, 2.0, 3.0]
    targets = {
        "same": proxy,
        "opposite": [3.0, 2.0, 1.0],
        "half": [1.0, 3.0, 2.0],
        "flat": [2.0] * 3,
    }
    found = plots.correlations(proxy, targets)
    assert list(found) == list(targets)
    assert list(found.values()) == pytest.approx([1.0, -1.0, 0.5, np.nan], nan_ok=True)


def test_targets_against_the_proxy(path):
    noisy = PROXY * RNG.uniform(0.8, 1, 200)
    targets = {"noisy": noisy, "latency $x$": 0.5 * PROXY, "flat": np.ones(200)}
    plots.plot_proxy_against_targets(PROXY, targets, path)
    check_png(path)
    plots.plot_proxy_against_targets([2.0], {"one": [1.0]}, path)
    check_png(path)


def test_histograms_by_temperature(path):
    samples = {0.005: PROXY + 1, 0.05: PROXY, 1.0: PROXY[:20]}
    plots.plot_speedups_by_temperature(samples, path)
    check_png(path)
    almost_equal = {float(number): [3.0, np.nextafter(3, 4)] for number in range(12)}
    plots.plot_speedups_by_temperature(almost_equal, path)
    check_png(path)


@pytest.mark.parametrize("plot", [plots.plot_training_speedup, plots.plot_generalisation])
def test_curves_of_training(path, plot):
    plot({"log-partition variance": [RUN, RUN], "trajectory balance": [Curve([1], [1.0])]}, path)
    check_png(path)
    plot({str(label): [RUN] for label in range(12)}, path)
    check_png(path)


def test_a_curve_is_read_where_its_column_has_numbers(tmp_path):
    log = tmp_path / "metrics.csv"
    log.write_text("step,seconds,speedup,best\n1,0.5,1.5,\n2,1.0,1.75,2.5\n3,1.5,,3\n")
    steps, values = read_curve(log)
    assert (steps.tolist(), values.tolist()) == ([1, 2], [1.5, 1.75])
    steps, values = read_curve(log, "best")
    assert (steps.tolist(), values.tolist()) == ([2, 3], [2.5, 3.0])


def test_a_log_of_a_training_is_drawn(tmp_path):
    log = tmp_path / "logs" / "metrics.csv"
    log.parent.mkdir()
    log.write_text("step,seconds,speedup\n" + "".join(f"{i},0.1,{i / 9}\n" for i in range(250)))
    drawn = tmp_path / "drawn" / "figure.png"
    drawn.parent.mkdir()
    plots.plot_training_speedup({"a loss": [read_curve(log)]}, drawn)
    check_png(drawn)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step,seconds\n1,2\n", "line 1: has no column 'speedup'"),
        ("", "line 1: has no column 'step'"),
        ("step,speedup\n1,2\n2,fast\n", "line 3: step or speedup"),
        ("step,speedup\none,2\n", "line 2: step or speedup"),
    ],
)
def test_a_bad_log_is_named_with_its_line(tmp_path, text, message):
    log = tmp_path / "metrics.csv"
    log.write_text(text)
    with pytest.raises(OptionError, match=rf"metrics\.csv, {message}"):
        read_curve(log)


def test_a_missing_log_is_named(tmp_path):
    with pytest.raises(RegalError, match=r"nowhere\.csv: no such file"):
        read_curve(tmp_path / "nowhere.csv")


@pytest.mark.parametrize(
    "call",
    [
        lambda path: plots.plot_proxy_against_targets([1.0], {}, path),
        lambda path: plots.plot_proxy_against_targets([1.0], {"a": [1.0, 2.0]}, path),
        lambda path: plots.plot_proxy_against_targets([], {"a": []}, path),
        lambda path: plots.plot_speedups_by_temperature({}, path),
        lambda path: plots.plot_speedups_by_temperature({0.1: []}, path),
        lambda path: plots.plot_speedups_by_temperature({0.1: [np.nan]}, path),
        lambda path: plots.plot_training_speedup({}, path),
        lambda path: plots.plot_training_speedup({"a": []}, path),
        lambda path: plots.plot_generalisation({"a": [Curve([], [])]}, path),
        lambda path: plots.plot_generalisation({"a": [RUN]}, path.with_suffix(".gif")),
    ],
)
def test_nothing_to_draw_is_an_option_error(path, call):
    with pytest.raises(OptionError):
        call(path)
    assert not path.exists()
