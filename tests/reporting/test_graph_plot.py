"""Pictures of graphs: files that parse, for ordinary and odd graphs, and the layout behind them."""

import builtins

import numpy as np
import pytest

from regal_jax.environments.placement import checker
from regal_jax.errors import MissingDependencyError, OptionError, RegalError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.kind_groups import GROUPS, group_of
from regal_jax.reporting import figures, graph_layout, graph_plot
from tests.policies.cases import random_graph
from tests.reporting.cases import hand_graph, one_device_schedule

pytest.importorskip("matplotlib")
image = pytest.importorskip("PIL.Image")


def chain(num_ops, **columns):
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=np.arange(num_ops),
        consumers=[[i + 1] for i in range(num_ops - 1)] + [[]],
        **columns,
    )


def wide(num_ops):
    """One op that all others wait for."""
    return ComputationGraph.create(
        num_ops=num_ops, producer=[0], size=[8], consumers=[list(range(1, num_ops))]
    )


def check_png(path):
    with image.open(path) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 200
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 20


ODD_GRAPHS = {
    "hand": hand_graph(),
    "random": random_graph(0),
    "one op, no tensors": ComputationGraph.create(num_ops=1, producer=[], size=[], consumers=[]),
    "no bytes, no time": chain(3, duration=[0.0] * 3).replace(size=np.zeros(3, np.int64)),
    "wide": wide(300),
    "hostile names": chain(2, name="$\\frac{ _", op_kinds=("$x$ ", "_\n"), op_names=("", "$")),
    "many kinds": chain(60, op_kinds=tuple(f"kind{i % 31}" for i in range(60))),
}


@pytest.mark.parametrize("name", ODD_GRAPHS)
def test_pictures(tmp_path, name):
    graph_plot.plot_graph(ODD_GRAPHS[name], tmp_path / "graph.png")
    check_png(tmp_path / "graph.png")


def test_a_large_graph_by_duration(tmp_path):
    graph_plot.plot_graph(chain(5000), tmp_path / "a.png", size_by="duration", title="large")
    check_png(tmp_path / "a.png")


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_suffix_chooses_the_format(tmp_path, suffix, start):
    path = tmp_path / f"graph.{suffix}"
    graph_plot.plot_graph(hand_graph(), path)
    assert path.read_bytes().startswith(start)


def test_what_cannot_be_drawn(tmp_path):
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    for graph, name, options, message in (
        (hand_graph(), "a.bmp", {}, "must end in"),
        (hand_graph(), "a.png", {"size_by": "colour"}, "size_by"),
        (empty, "a.png", {}, "at least one op"),
    ):
        with pytest.raises(OptionError, match=message):
            graph_plot.plot_graph(graph, tmp_path / name, **options)
    with pytest.raises(RegalError, match="can't write there"):
        graph_plot.plot_graph(hand_graph(), tmp_path / "none" / "a.png")


def test_without_matplotlib_the_remedy_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingDependencyError, match=r"regal_jax\[plot\]"):
        graph_plot.plot_graph(hand_graph(), tmp_path / "a.png")


def test_the_title_says_how_large_the_graph_is():
    graph = chain(1200).replace(name="model")
    assert graph_plot._title(graph) == "model: 1,200 ops, 1,200 tensors, 703 KiB, depth 1,200"


def test_the_memory_drawn_is_that_of_program_order():
    usage, row = graph_plot._memory_in_program_order(hand_graph())
    schedule = one_device_schedule()
    program = schedule.replace(steps=np.arange(hand_graph().num_ops))
    timeline = checker.memory_timeline(hand_graph(), program)
    np.testing.assert_array_equal(usage, timeline.usage[:, 0])
    assert usage[row] == usage.max()


@pytest.mark.parametrize("seed", range(5))
def test_layers_respect_edges_and_rows_do_not_collide(seed):
    graph = random_graph(seed)
    layout = graph_layout.layered(graph)
    pairs = graph.op_pairs
    assert np.all(layout.layer[pairs[:, 0]] < layout.layer[pairs[:, 1]])
    assert layout.layer.max() == precedence.levels(graph).max()
    for layer in np.unique(layout.layer):
        rows = np.sort(layout.row[layout.layer == layer])
        assert np.all(np.diff(rows) >= len(rows) ** -0.3 - 1e-9)
    np.testing.assert_array_equal(layout.row, graph_layout.layered(graph).row)


def test_a_chain_is_drawn_straight():
    layout = graph_layout.layered(chain(50))
    np.testing.assert_array_equal(layout.layer, np.arange(50))
    np.testing.assert_allclose(layout.row, 0.0)


def test_ops_that_only_wait_stand_next_to_their_consumers():
    graph = ComputationGraph.create(
        num_ops=5,
        producer=[0, 1, 2, 4],
        size=[1, 1, 1, 1],
        consumers=[[1], [2], [3], [3]],
    )
    np.testing.assert_array_equal(graph_layout.layered(graph).layer, [0, 1, 2, 3, 2])


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        ("convolution_backward", 0),
        ("dot_general", 0),
        ("MatMul", 0),
        ("addmm", 0),
        ("_scaled_dot_product_flash_attention_for_cpu", 0),
        ("native_batch_norm", 1),
        ("_softmax_backward_data", 1),
        ("convert_element_type", 2),
        ("constant_pad_nd", 2),
        ("broadcast_in_dim", 2),
        ("reduce_sum", 3),
        ("MaxPool", 3),
        ("random_normal", 4),
        ("zeros_like", 4),
        ("fusion", 5),
        ("while", 5),
        ("Relu", 6),
        ("mul", 6),
        ("", 6),
    ],
)
def test_groups_of_kinds(kind, group):
    assert GROUPS[group_of(kind)] == GROUPS[group]


def test_every_group_has_a_colour():
    assert len(set(graph_plot.GROUP_COLORS)) == len(GROUPS)
    assert graph_plot.GROUP_COLORS[-1] == figures.GREY
