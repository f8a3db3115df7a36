"""Bounds with witnesses: never above the optimum, and altered witnesses are refused."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regal_jax as rj
from regal_jax.errors import BoundError, GraphError, OptionError
from tests.environments.placement.test_set_bound import branches
from tests.environments.rcpsp.cases import machine_graphs
from tests.oracles import machine_scheduling
from tests.oracles.exhaustive_search import least_peak_memory
from tests.oracles.schedule_cost import plain
from tests.policies.cases import random_graph
from tests.strategies import computation_graphs

CASES = [("peak_memory", 1), ("peak_memory", 2), ("makespan", 1), ("makespan", 2)]


@settings(max_examples=150, deadline=None)
@given(computation_graphs(max_ops=4), st.integers(1, 3))
def test_never_above_the_least_peak(graph, num_devices):
    bound = rj.lower_bound(graph, num_devices=num_devices)
    rj.check_bound(graph, bound)
    assert bound.value <= least_peak_memory(plain(graph), num_devices)
    problem = rj.PlacementProblem(graph, num_devices)
    assert bound.value >= problem.lower_bound


@settings(max_examples=60, deadline=None)
@given(machine_graphs(5, whole=True))
def test_never_above_the_least_makespan(graph):
    bound = rj.lower_bound(graph, objective="makespan")
    rj.check_bound(graph, bound)
    least = machine_scheduling.least_by_integers(machine_scheduling.plain_machines(graph))
    assert bound.value <= least
    assert bound.num_devices == len(graph.capacity)


@pytest.mark.parametrize(("objective", "num_devices"), CASES)
@pytest.mark.parametrize("seed", range(4))
def test_more_than_the_witness_shows_is_refused(objective, num_devices, seed):
    graph = random_graph(seed, 30)
    bound = rj.lower_bound(graph, objective=objective, num_devices=num_devices)
    known = rj.PlacementProblem(graph, num_devices, objective).lower_bound
    if bound.kind == "first or last of a set":
        assert bound.value > known
    else:
        assert bound.value == known
    rj.check_bound(graph, bound)
    for value in (bound.value + 1, float("inf"), float("nan")):
        with pytest.raises(BoundError, match=r"value: .* is claimed, its .* shows"):
            rj.check_bound(graph, dataclasses.replace(bound, value=value))


def test_the_first_or_last_of_a_set():
    graph = branches(4)
    bound = rj.lower_bound(graph, num_devices=1)
    assert (bound.value, bound.kind) == (140, "first or last of a set")
    rj.check_bound(graph, bound)
    with pytest.raises(BoundError, match="has a SetBound"):
        rj.check_bound(graph, dataclasses.replace(bound, witness=None))
    assert rj.optimize(graph, num_devices=1, method="exact").is_optimal


def test_every_kind_of_peak_by_hand():
    """One op each; two devices."""
    ops = {"num_ops": 1, "producer": [-1, 0], "consumers": [[0], []]}
    graph = rj.ComputationGraph.create(size=[10, 5], **ops)
    working = rj.lower_bound(graph, num_devices=2)
    assert (working.value, working.kind) == (15, "working set")
    assert rj.lower_bound(graph, num_devices=1).kind == "minimum cut"
    kept = rj.ComputationGraph.create(
        num_ops=6, producer=range(6), size=[8] * 6, consumers=[[]] * 6, persistent=[True] * 6
    )
    at_end = rj.lower_bound(kept, num_devices=2)
    assert (at_end.value, at_end.kind) == (24, "bytes at the end")
    with pytest.raises(BoundError, match="its working set shows 8"):
        rj.check_bound(kept, dataclasses.replace(at_end, kind="working set"))


def test_parameters_can_only_be_where_they_are_read():
    """Op 0 needs 100 bytes; ops 1 and 2 have parameters of 40 and 50, and need 60 and 70 more. Op 0
    is alone, and the others are together with 90 + 70; or op 2 is apart with 120, and beside op 0
    are 40 of op 1: 140. Fractions of parameters count, so that 130 bytes seem to do."""
    graph = rj.ComputationGraph.create(
        num_ops=3,
        producer=[0, 1, 2, -1, -1],
        size=[100, 60, 70, 40, 50],
        consumers=[[], [], [], [1], [2]],
        persistent=[False, False, False, True, True],
    )
    bound = rj.lower_bound(graph, num_devices=2)
    assert (bound.value, bound.kind) == (130, "parameters")
    rj.check_bound(graph, bound)
    assert least_peak_memory(plain(graph), 2) == 140


def test_altered_paths_and_work_are_refused():
    graph = rj.ComputationGraph.create(
        num_ops=3, producer=[0, 1], size=[1, 1], consumers=[[1], [2]], duration=[1, 2, 4]
    )
    path = rj.lower_bound(graph, objective="makespan", num_devices=2)
    assert (path.value, path.kind, path.witness) == (7, "path", (0, 1, 2))
    for witness, message in [
        ((0, 2), "don't follow"),
        ((0, 3), "numbers of ops, 0 to 2"),
        ((-1, 0), "numbers of ops"),
        (None, "numbers of ops"),
        ("path", "numbers of ops"),
        ([[0], [1, 2]], "numbers of ops"),
        ((0, 1), "7.0 is claimed, its path shows 3.0"),
    ]:
        with pytest.raises(BoundError, match=message):
            rj.check_bound(graph, dataclasses.replace(path, witness=witness))
    apart = rj.ComputationGraph.create(
        num_ops=3, producer=[], size=[], consumers=[], duration=[3, 3, 3]
    )
    work = rj.lower_bound(apart, objective="makespan", num_devices=2)
    assert (work.value, work.kind, sorted(work.witness)) == (5, "work", [0, 1, 2])
    with pytest.raises(BoundError, match="each once"):
        rj.check_bound(apart, dataclasses.replace(work, witness=(0, 1, 2, 2)))
    with pytest.raises(BoundError, match=r"5\.0 is claimed, its work shows 3"):
        rj.check_bound(apart, dataclasses.replace(work, witness=(0, 1)))
    with pytest.raises(BoundError, match=r"5\.0 is claimed, its work shows 3"):
        rj.check_bound(apart, dataclasses.replace(work, num_devices=3))


def test_work_is_of_one_machine_type():
    graph = rj.ComputationGraph.create(
        num_ops=2,
        producer=[],
        size=[],
        consumers=[],
        duration=[3, 3],
        machine_type=[0, 1],
        capacity=[1, 1],
    )
    bound = rj.lower_bound(graph, objective="makespan")
    assert bound.value == 3
    with pytest.raises(BoundError, match="of one machine type"):
        rj.check_bound(graph, dataclasses.replace(bound, kind="work", witness=(0, 1), value=6))
    with pytest.raises(OptionError, match="has 2 machine types"):
        rj.lower_bound(graph, objective="makespan", num_devices=3)


def test_a_graph_without_a_schedule_has_no_bound():
    graph = rj.ComputationGraph.create(
        num_ops=1, producer=[], size=[], consumers=[], machine_type=[0], demand=[1], capacity=[0]
    )
    with pytest.raises(GraphError, match="op 0 needs 1 units of machine type 0"):
        rj.lower_bound(graph, objective="makespan")


def test_a_bound_of_another_graph_kind_or_objective_is_refused():
    graph = random_graph(1, 20)
    bound = rj.lower_bound(graph, num_devices=1)
    assert bound.kind == "minimum cut"
    with pytest.raises(BoundError, match="integers"):
        rj.check_bound(random_graph(2, 25), bound)
    with pytest.raises(BoundError, match="kind: 'path' is no bound of 'peak_memory'"):
        rj.check_bound(graph, dataclasses.replace(bound, kind="path"))
    with pytest.raises(BoundError, match="is no bound of 'makespan'"):
        rj.check_bound(graph, dataclasses.replace(bound, objective="makespan"))
    with pytest.raises(BoundError, match="has a CutBound"):
        rj.check_bound(graph, dataclasses.replace(bound, witness=(1,)))


def test_options_out_of_range():
    graph = random_graph(1, 5)
    with pytest.raises(OptionError, match="objective must be"):
        rj.lower_bound(graph, objective="energy")
    with pytest.raises(OptionError, match="num_devices must be"):
        rj.lower_bound(graph, num_devices=0)


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
def test_graphs_of_nothing(objective):
    nothing = rj.ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    bound = rj.lower_bound(nothing, objective=objective)
    assert bound.value == 0
    rj.check_bound(nothing, bound)


def test_durations_that_add_exactly_lose_nothing():
    """Eighths do; a sum of thirds may be rounded down."""
    graph = rj.ComputationGraph.create(
        num_ops=4, producer=[], size=[], consumers=[], duration=np.full(4, 1.125)
    )
    exact = rj.lower_bound(graph, objective="makespan", num_devices=1).value
    assert exact == 4.5
    third = graph.replace(duration=np.full(4, 1 / 3))
    lowered = rj.lower_bound(third, objective="makespan", num_devices=1).value
    assert 4 / 3 - 1e-12 < lowered < 4 / 3


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_the_same_whatever_the_order(seed):
    graph = random_graph(seed, 40)
    schedule = rj.optimize(graph, num_devices=1, evaluations=1000)
    bounds = [
        rj.lower_bound(graph, num_devices=1, order=order)
        for order in (None, schedule.ops_in_order(), graph.topological_order)
    ]
    assert len({bound.value for bound in bounds}) == 1
    for bound in bounds:
        rj.check_bound(graph, bound)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 0], "every op"),
        ([0], "every op"),
        ([[0, 1]], "every op"),
        ([1, 0], "op 1 comes before"),
    ],
)
def test_orders_that_are_none(order, message):
    graph = rj.ComputationGraph.create(num_ops=2, producer=[0], size=[1], consumers=[[1]])
    with pytest.raises(OptionError, match=message):
        rj.lower_bound(graph, num_devices=1, order=np.array(order))
