"""Pictures of schedules on machine types: lanes, units in use, colours, and what is drawn."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import figures, gantt, lanes, op_colors, plots
from tests.environments.rcpsp.cases import genes, graph_of, machine_graphs, random_graph
from tests.reporting.test_plots import check_png

pytest.importorskip("matplotlib")

SHOP = graph_of([(0, 1), (2, 3)], capacity=[1, 1], machine_type=[0, 1, 1, 0], duration=[3, 2, 4, 1])


def decoded(graph, seed=0):
    problem = MachineProblem(graph)
    return problem.decode(np.random.default_rng(seed).random(problem.num_genes, np.float32))


@st.composite
def cases(draw):
    """A graph and a schedule of it, in which ops of no duration run at once, whatever the units."""
    problem = MachineProblem(draw(machine_graphs()), generation="serial")
    return problem.graph, problem.decode(draw(genes(problem.num_genes))[0])


@settings(max_examples=100)
@given(cases())
def test_lanes_never_overlap_and_units_are_those_demanded(case):
    graph, schedule = case
    for machine, capacity in enumerate(graph.capacity.tolist()):
        ops = lanes.ops_of_type(graph, schedule, machine)
        mine = np.flatnonzero(graph.machine_type == machine)
        assert sorted([*ops.busy, *ops.unitless]) == mine.tolist()
        units = lanes.units_of(graph, schedule, ops.busy)
        assert units.num_lanes <= capacity
        expected = np.where(np.isin(np.arange(graph.num_ops), ops.busy), graph.demand, 0)
        assert np.bincount(units.op, minlength=graph.num_ops).tolist() == expected.tolist()
        for some in ops:
            rows = lanes.rows_of(graph, schedule, some)
            assert sorted(rows.op) == some.tolist()
            check_apart(graph, schedule, rows)
        check_apart(graph, schedule, units)


def check_apart(graph, schedule, some):
    """On each lane, an op starts when those before it have ended."""
    start, finish = lanes.op_times(graph, schedule)
    for lane in set(some.lane.tolist()):
        ops = some.op[some.lane == lane]
        assert len(set(ops.tolist())) == len(ops)
        ops = ops[np.lexsort((finish[ops], start[ops]))]
        assert np.all(start[ops[1:]] >= finish[ops[:-1]])


def test_lanes_are_the_lowest_free_ones():
    start, finish = np.array([0.0, 0, 1, 2, 2]), np.array([2.0, 5, 3, 4, 3])
    interval, lane = lanes.assign_lanes(start, finish, np.array([2, 1, 1, 1, 2]))
    pairs = sorted(zip(interval.tolist(), lane.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 1), (1, 2), (2, 3), (3, 0), (4, 1), (4, 4)]


@settings(max_examples=60)
@given(cases())
def test_units_in_use_are_the_demands_of_what_runs(case):
    graph, schedule = case
    start, finish = lanes.op_times(graph, schedule)
    group = np.arange(graph.num_ops) % 2
    used = lanes.units_in_use(start, finish, graph.demand, group, 2)
    assert np.all(np.diff(used.times) > 0)
    assert used.units[:, -1].tolist() == [0, 0]
    for time, units in zip(used.times, used.units.T, strict=True):
        runs = (start <= time) & (time < finish)
        expected = [int(graph.demand[runs & (group == g)].sum()) for g in range(2)]
        assert units.tolist() == expected


@pytest.fixture
def drawn(monkeypatch):
    """Draws a schedule; returns the figure instead of writing it."""

    def draw(graph, schedule, **options):
        kept = []
        monkeypatch.setattr(figures, "save_figure", lambda figure, path: kept.append(figure))
        plots.plot_gantt(graph, schedule, "x.png", **options)
        return kept[0]

    return draw


@pytest.mark.parametrize("seed", range(6))
def test_what_is_drawn_is_the_work_of_the_ops(drawn, seed):
    """Areas of what is drawn among a type's units are durations times demands; below them there is
    a mark for every op without units."""
    graph = random_graph(seed, 80, num_types=4).replace(capacity=np.array([3, 70, 16, 17]))
    demand = np.minimum(graph.demand, graph.capacity[graph.machine_type])
    graph = graph.replace(demand=demand)
    schedule = decoded(graph, seed)
    polygons = [
        np.asarray(path.vertices)
        for collection in drawn(graph, schedule).axes[0].collections
        if collection.get_zorder() > 0
        for path in collection.get_paths()
    ]
    for band in gantt._bands(graph, schedule):
        inside = [p for p in polygons if within(p, band.top, band.bottom)]
        below = [p for p in polygons if within(p, band.bottom + 0.05, band.end)]
        work = (graph.duration * graph.demand)[band.busy].sum()
        share = 1.0 - 2 * gantt.UNIT_MARGIN if band.capacity <= 16 else band.unit_rows
        assert sum(map(polygon_area, inside)) == pytest.approx(work * share)
        assert len(below) == len(band.unitless)
        if band.capacity <= 16:
            assert len(inside) == graph.demand[band.busy].sum()


def within(polygon, top, bottom):
    return polygon[:, 1].min() >= top - 1e-9 and polygon[:, 1].max() <= bottom + 1e-9


def polygon_area(polygon):
    x, y = polygon.T
    return abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2


def test_a_job_shop_has_its_machines_jobs_and_bound(drawn):
    schedule = decoded(SHOP)
    assert (schedule.makespan, schedule.lower_bound) == (6.0, 6.0)
    figure = drawn(SHOP, schedule)
    axes = figure.axes[0]
    assert labels(axes) == ["machine 0", "machine 1"]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["job 0", "job 1", "optimal: no less time"]
    assert {text.get_text() for text in axes.texts} == {f"op_{op}" for op in range(4)}
    assert figure.get_suptitle() == "hand-made: makespan 6.00 us (optimal)"
    worse = drawn(SHOP, schedule.replace(lower_bound=5.0)).get_suptitle()
    assert worse == "hand-made: makespan 6.00 us (20.0 % over the lower bound, 5.00 us)"
    assert drawn(SHOP, schedule, title="$5").get_suptitle() == r"\$5"


def labels(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_types_of_many_units_have_a_scale(drawn):
    graph = graph_of([], capacity=[1, 2, 6001], machine_type=[0, 1, 2], duration=[1, 1, 1])
    axes = drawn(graph, decoded(graph)).axes[0]
    assert labels(axes) == ["type 0", "type 1, 2 units", "3,000", "0", "type 2, 6,001 units"]


def test_jobs_are_numbered_by_their_first_ops_and_share_colours_in_turn():
    edges = [(0, 4), (2, 3)]
    jobs = op_colors.by_kind_or_job(graph_of(edges, capacity=[9], duration=[1.0] * 5))
    assert jobs.label.tolist() == ["job 0", "job 1", "job 2", "job 2", "job 0"]
    many = op_colors.by_job(np.arange(24))
    assert list(many.color)[3:5] == ["job 3, 13, …", "job 4, 14, …"]
    assert many.label[23] == "job 3, 13, …"
    assert list(op_colors.by_job(np.arange(11)).color)[:2] == ["job 0, 10", "job 1"]
    assert len(set(many.color.values())) == len(figures.SERIES)


def test_kinds_come_before_jobs_where_there_are_several():
    kinds = SHOP.replace(op_kinds=("a", "b", "b", "a"))
    assert set(op_colors.by_kind_or_job(kinds).color) == {"a", "b"}
    one_kind = SHOP.replace(op_kinds=("a",) * 4)
    assert list(op_colors.by_kind_or_job(one_kind).color) == ["job 0", "job 1"]
    one_job = graph_of([(0, 1)], capacity=[1], duration=[1, 1])
    assert list(op_colors.by_kind_or_job(one_job).color) == ["op"]


def odd_graphs():
    rng = np.random.default_rng(0)
    chain = list(itertools.pairwise(range(500)))
    demand = rng.integers(0, 3000, 500)
    kinds = tuple(f"_$kind{i % 12}$" for i in range(30))
    return {
        "one op": graph_of([], capacity=[1], duration=[2.5]),
        "no demand": graph_of([], capacity=[0, 6000], duration=[1, 2], demand=[0, 0]),
        "no durations": graph_of([(0, 1)], capacity=[2], duration=[0, 0]),
        "6000 units": graph_of(
            chain[::7], capacity=[6000], duration=rng.exponential(1e4, 500), demand=demand
        ),
        "30 types": graph_of(
            [], capacity=[1, 20] * 15, machine_type=np.arange(30), duration=np.ones(30)
        ).replace(op_kinds=kinds, name="$x_$"),
        "idle types": graph_of([], capacity=[0, 3, 99, 1], machine_type=[3], duration=[1]),
    }


@pytest.mark.parametrize("name", odd_graphs())
def test_odd_graphs(tmp_path, name):
    graph = odd_graphs()[name]
    path = tmp_path / "plot.png"
    plots.plot_gantt(graph, decoded(graph), path)
    check_png(path)


def test_other_formats(tmp_path):
    for suffix, start in (("svg", b"<?xml"), ("pdf", b"%PDF")):
        path = tmp_path / f"plot.{suffix}"
        plots.plot_gantt(SHOP, decoded(SHOP), path)
        assert path.read_bytes().startswith(start)


def test_errors_are_one_line(tmp_path):
    schedule, path = decoded(SHOP), tmp_path / "plot.png"
    with pytest.raises(ScheduleError, match="op 1 starts at"):
        plots.plot_gantt(SHOP, schedule.replace(start=schedule.start * 0), path)
    with pytest.raises(ScheduleError, match="start: is required"):
        plots.plot_gantt(SHOP, schedule.replace(start=None), path)
    with pytest.raises(OptionError, match="plot must end in"):
        plots.plot_gantt(SHOP, schedule, tmp_path / "plot.gif")
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[], capacity=[1])
    nothing = schedule.replace(placement=np.zeros(0, np.int32), steps=np.zeros(0, np.int64))
    with pytest.raises(OptionError, match="at least one op"):
        plots.plot_gantt(empty, nothing, path)
