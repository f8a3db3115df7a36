"""``recompute``: within the memory capacity of one device, at the least work."""

import numpy as np
import pytest

import regal_jax as rj
from regal_jax.datasets.zoo.load import model_zoo
from regal_jax.environments.placement import checker
from regal_jax.environments.recompute.bounds import least_memory
from regal_jax.errors import OptionError
from regal_jax.reporting.lifetimes import lifetimes
from regal_jax.reporting.step_times import step_times
from regal_jax.reporting.traces import save_trace
from tests import contracts
from tests.environments.recompute.test_checker import AGAIN, CHAIN
from tests.policies.cases import random_graph

OPTIONS = {"objective": "makespan", "num_devices": 1}


def test_schedules_fit_and_keep_the_contract():
    graph = random_graph(4, 30)
    plain = rj.optimize(graph, method="recompute", memory_capacity=10**9, evaluations=10, **OPTIONS)
    assert plain.is_optimal
    assert len(plain.steps) == graph.num_ops
    capacity = int(0.8 * plain.peak_memory[0])
    found, reports = contracts.check_method(
        graph, "recompute", 3000, memory_capacity=capacity, **OPTIONS
    )
    assert found.runs_again
    assert found.peak_memory[0] <= capacity
    assert plain.makespan < found.makespan
    assert reports[-1] == (found.evaluations, found.cost)


@pytest.mark.parametrize("evaluations", [1, 2, 5, 9, 10, 30, 200])
def test_small_budgets_are_kept(evaluations):
    found = rj.optimize(
        random_graph(4, 30),
        method="recompute",
        memory_capacity=10,
        evaluations=evaluations,
        **OPTIONS,
    )
    assert 0 < found.evaluations <= evaluations


def test_orders_and_plans_are_found_in_turns():
    """From base orders alone it takes 3.1 % more work."""
    (graph,) = (g for g in model_zoo(split="all") if g.name == "xla/moe_dispatched_1:training")
    once = rj.optimize(graph, method="exact", num_devices=1, evaluations=1000)
    least = least_memory(graph)
    capacity = least + 60 * (once.peak_memory[0] - least) // 100
    options = {**OPTIONS, "memory_capacity": capacity}
    found = rj.optimize(graph, method="recompute", evaluations=40_000, **options)
    assert found.peak_memory[0] <= capacity
    assert found.makespan < 1.01 * graph.duration.sum()


def test_cp_sat_goes_on_from_there():
    pytest.importorskip("ortools")
    graph = random_graph(4, 12)
    plain = rj.optimize(graph, method="depth_first", num_devices=1)
    capacity = int(0.9 * plain.peak_memory[0])
    options = {**OPTIONS, "memory_capacity": capacity}
    solved, _ = contracts.check_method(graph, "cp_sat_recompute", 300, **options)
    found = rj.optimize(graph, method="recompute", evaluations=299, **options)
    assert solved.makespan <= found.makespan
    assert solved.peak_memory[0] <= capacity


def test_where_nothing_fits_the_nearest_is_returned():
    found = rj.optimize(CHAIN, method="recompute", memory_capacity=21, **OPTIONS)
    assert found.peak_memory[0] > 21
    assert not rj.PlacementProblem(CHAIN, 1, "makespan", memory_capacity=21).fits(found)


@pytest.mark.parametrize("method", ["recompute", "cp_sat_recompute"])
@pytest.mark.parametrize(
    "options",
    [
        {"objective": "peak_memory", "num_devices": 1, "memory_capacity": 30},
        {"objective": "makespan", "num_devices": 2, "memory_capacity": 30},
        {"objective": "makespan", "num_devices": 1},
    ],
)
def test_other_problems_are_one_line(options, method):
    with pytest.raises(OptionError, match=f"{method} fits the ops of one device") as caught:
        rj.optimize(CHAIN, method=method, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("graph", "peak"),
    [
        (rj.ComputationGraph.create(num_ops=0, producer=[-1], size=[7], consumers=[[]]), 0),
        (rj.ComputationGraph.create(num_ops=1, producer=[-1], size=[5], consumers=[[0]]), 5),
        (rj.ComputationGraph.create(num_ops=2, producer=[], size=[], consumers=[]), 0),
    ],
)
def test_degenerate_graphs(graph, peak):
    found = rj.optimize(graph, method="recompute", memory_capacity=1, evaluations=100, **OPTIONS)
    assert found.peak_memory == (peak,)


@pytest.fixture(scope="module")
def again():
    found = rj.optimize(AGAIN, method="recompute", memory_capacity=28, **OPTIONS)
    assert found.steps.tolist() == [0, 1, 2, 3, 0, 4]
    return AGAIN, found


def test_reports_show_each_run(again, tmp_path):
    graph, found = again
    times = step_times(graph, found)
    assert times.finish[-1] == found.makespan == found.cost
    assert np.all(times.start[1:] == times.finish[:-1])
    usage = checker.memory_timeline(graph, found).usage[:, 0]
    lives = lifetimes(graph, found)
    for row, (use, step) in enumerate(zip(usage[1:], found.steps, strict=True), 1):
        here = (lives.first <= row) & (row <= lives.last)
        assert graph.size[lives.tensor[here]].sum() + graph.workspace[step] == use
    save_trace(graph, found, tmp_path / "trace.json")
    assert (tmp_path / "trace.json").exists()


def test_what_is_for_ops_that_run_once_says_so(again):
    graph, found = again
    with pytest.raises(OptionError, match="a chromosome is for schedules in which each op runs"):
        rj.PlacementProblem(graph, 1).encode(found)
