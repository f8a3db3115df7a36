"""Plots: files that parse, for ordinary and odd input; what they show is looked at by people."""

import builtins
import os

import numpy as np
import pytest

from regal_jax.errors import MissingDependencyError, OptionError, RegalError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import figures, memory_plot, op_colors, plots
from tests.reporting.cases import (
    SLOW_LINKS,
    hand_graph,
    hand_schedule,
    one_device_schedule,
    random_schedule,
)

image = pytest.importorskip("PIL.Image")
pytest.importorskip("matplotlib")


def check_png(path):
    """A readable picture that isn't blank, and nothing left beside it."""
    with image.open(path) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 200
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 20
    assert os.listdir(path.parent) == [path.name]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "plot.png"


def chain(num_ops):
    """Ops in a chain, of 15 kinds."""
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=np.arange(num_ops) % 97,
        consumers=[[i + 1] for i in range(num_ops - 1)] + [[]],
        op_kinds=tuple(f"kind{i % 15}" for i in range(num_ops)),
    )


def test_memory(path):
    one_device = random_schedule(hand_graph(), 0, 1)
    schedules = {"_default $x$": one_device, "ours": hand_schedule(), "third": hand_schedule()}
    plots.plot_memory(hand_graph(), schedules, path)
    check_png(path)


def test_memory_of_one_schedule_and_of_an_empty_graph(path):
    plots.plot_memory(hand_graph(), {"ours": hand_schedule()}, path, title="t", lower_bound=5)
    check_png(path)
    empty = ComputationGraph.create(num_ops=1, producer=[], size=[], consumers=[])
    plots.plot_memory(empty, {"a": random_schedule(empty, 0, 2)}, path)
    check_png(path)


def test_many_devices(path):
    graph = chain(30)
    schedule = random_schedule(graph, 0, 200)
    curves = memory_plot._curves(graph, {"x": schedule})
    devices = memory_plot._shown_devices(curves, 200)
    assert len(devices) == memory_plot.SHOWN_DEVICES
    assert curves[0].fullest in devices
    plots.plot_gantt(graph, schedule, path)
    check_png(path)


def test_what_fills_memory_adds_up_to_the_peak():
    for seed in range(5):
        graph = chain(40).replace(workspace=np.arange(40))
        schedule = random_schedule(graph, seed, 2)
        (curve,) = memory_plot._curves(graph, {"x": schedule})
        assert sum(size for _, size in memory_plot._at_peak(graph, curve)) == schedule.cost
    (curve,) = memory_plot._curves(hand_graph(), {"x": hand_schedule()})
    expected = [("persistent (1)", 100), ("a:1", 40), ("b:2", 8), ("workspace", 5)]
    assert memory_plot._at_peak(hand_graph(), curve) == expected


def test_the_title_says_the_change():
    graph = hand_graph()
    schedules = {"before": one_device_schedule(), "after": hand_schedule()}
    title = memory_plot._title(graph, memory_plot._curves(graph, schedules))
    assert title == "hand: peak memory 156 B → 153 B (−1.9 %)"


@pytest.mark.parametrize("num_ops", [1, 3000])
def test_gantt(path, num_ops):
    graph = chain(num_ops)
    plots.plot_gantt(graph, random_schedule(graph, 0, 2, "makespan"), path, SLOW_LINKS)
    check_png(path)


def test_few_kinds_are_shown_and_the_rest_are_other():
    kinds = op_colors.by_kind(chain(32))
    shown = [f"kind{i}" for i in (0, 1, 10, 11, 12, 13, 14, 2, 3)]
    assert list(kinds.color) == [*shown, op_colors.OTHER]
    assert list(kinds.color.values()) == [*figures.SERIES[:9], figures.GREY]
    assert kinds.label[4] == op_colors.OTHER
    assert kinds.label[15] == "kind0"


@pytest.mark.parametrize(
    ("suffix", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")]
)
def test_the_suffix_chooses_the_format(tmp_path, suffix, start):
    path = tmp_path / f"plot.{suffix}"
    plots.plot_memory(hand_graph(), {"ours": hand_schedule()}, path)
    assert path.read_bytes().startswith(start)


def draw_all(path):
    """Every plot as a function without arguments."""
    graph, schedule = hand_graph(), hand_schedule()
    return [
        lambda: plots.plot_memory(graph, {"ours": schedule}, path),
        lambda: plots.plot_gantt(graph, schedule, path),
    ]


def test_unknown_suffixes_and_places(tmp_path):
    for draw in draw_all(tmp_path / "plot.bmp"):
        with pytest.raises(OptionError, match=r"must end in \.png, \.svg, \.pdf"):
            draw()
    for draw in draw_all(tmp_path / "none" / "plot.svg"):
        with pytest.raises(RegalError, match="can't write there"):
            draw()


def test_nothing_to_draw(path):
    with pytest.raises(OptionError):
        plots.plot_memory(hand_graph(), {}, path)
    broken = hand_schedule().replace(steps=hand_schedule().steps[:-1])
    with pytest.raises(ScheduleError):
        plots.plot_memory(hand_graph(), {"x": broken}, path)


def test_without_matplotlib_the_remedy_is_named(path, monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    for draw in draw_all(path):
        with pytest.raises(MissingDependencyError, match=r"regal_jax\[plot\]"):
            draw()


def test_text_from_outside_is_made_safe():
    assert figures.plain("a$b$\n") == r"a\$b\$?"
    assert figures.plain("_hidden") == " _hidden"
    assert figures.plain("abcdefghijkl", 7) == "…ghijkl"


def test_equal_curves_take_turns():
    one, other = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    styles = figures.line_styles([one, other, one, one])
    assert styles[1] == "-"
    starts = [offset for offset, _ in styles[:1] + styles[2:]]
    assert {dashes for _, dashes in styles[:1] + styles[2:]} == {(figures.DASH, 2 * figures.DASH)}
    assert starts == [0.0, figures.DASH, 2 * figures.DASH]


def test_boxes_have_labels_where_they_fit():
    axes = figures.new_figure(10, 3).subplots()
    start, finish = np.array([0.0, 50.0, 55.0]), np.array([50.0, 55.0, 100.0])
    names = ["a/scope/op_1", "of_some_length", "x" * 99]
    figures.label_boxes(axes, start, finish, (np.zeros(3), np.ones(3)), names, 100.0)
    shown = [text.get_text() for text in axes.texts]
    assert shown[0] == "op_1"
    assert shown[1].startswith("…xxx")
    assert len(shown) == 2


@pytest.mark.parametrize("proven", [False, True])
def test_what_is_optimal_is_called_so(path, monkeypatch, proven):
    drawn = []
    monkeypatch.setattr(
        figures, "add_legend", lambda axes, handles, labels, **_: drawn.append(labels)
    )
    schedule = hand_schedule()
    bound = schedule.cost if proven else 0.0
    plots.plot_memory(hand_graph(), {"ours": schedule.replace(lower_bound=bound)}, path)
    assert ("optimal" in drawn[0][-1]) == proven
