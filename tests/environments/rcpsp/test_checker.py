"""The checker of machine problems: it accepts what kernels make, and rejects what breaks a rule."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regal_jax.environments.rcpsp.checker import evaluate_machines
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import ScheduleError
from tests.environments.rcpsp.cases import genes, graph_of, machine_graphs
from tests.oracles import machine_scheduling as oracle

# 0 -> 1; ops 0 and 1 on type 0 of two units, op 2 on type 1.
GRAPH = graph_of(
    [(0, 1)],
    capacity=[2, 1],
    machine_type=[0, 0, 1],
    demand=[2, 1, 1],
    duration=[2, 3, 4],
)
GOOD = MachineProblem(GRAPH).decode([3, 2, 1])


def test_a_good_schedule():
    assert GOOD.start.tolist() == [0, 2, 0]
    assert evaluate_machines(GRAPH, GOOD) == 5
    assert evaluate_machines(GRAPH, GOOD.replace(makespan=1.0)) == 5
    later = GOOD.replace(start=np.array([0.5, 9, 0]), steps=np.array([2, 0, 1]))
    assert evaluate_machines(GRAPH, later) == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"placement": np.array([0, 1, 1])}, "op 1 is on machine type 1, it needs type 0"),
        ({"placement": np.array([0, 0])}, "placement: has 2 entries"),
        ({"num_devices": 3}, "the schedule has 3, the graph 2"),
        ({"start": None}, "start: is required"),
        ({"start": np.array([0.0, 2])}, "start: has 2 entries for 3 ops"),
        ({"start": np.array([0.0, 2, np.nan])}, "op 2 starts at nan"),
        ({"start": np.array([0.0, 2, -1])}, "op 2 starts at -1.0"),
        ({"steps": np.array([0, 2])}, "op 1 never runs"),
        ({"steps": np.array([0, 0, 2, 1])}, "op 0 runs twice"),
        ({"steps": np.array([0, 2, 1, 3])}, "3 is not one of the 3 ops"),
        ({"steps": np.array([1, 0, 2])}, "op 0, which starts at 0.0, comes after op 1"),
        (
            {"start": np.array([0.0, 1.5, 0])},
            "op 1 starts at 1.5, before op 0, whose output it reads, ends at 2.0",
        ),
    ],
)
def test_broken_schedules(changes, message):
    with pytest.raises(ScheduleError, match=message):
        evaluate_machines(GRAPH, GOOD.replace(**changes))


def test_too_many_units():
    graph = graph_of([], capacity=[3], demand=[2, 2, 1], duration=[4, 4, 4])
    schedule = MachineProblem(graph).decode([3, 2, 1])
    early = schedule.replace(start=np.array([0, 3.5, 0]), steps=np.array([0, 2, 1]))
    with pytest.raises(ScheduleError, match=r"op 1 starts at 3.5, when 3 of the 3 .* demands 2"):
        evaluate_machines(graph, early)
    small = graph.replace(capacity=np.array([1]))
    with pytest.raises(ScheduleError, match=r"op 0 at 0.0 demands 2 units of machine type 0"):
        evaluate_machines(small, schedule)
    with pytest.raises(ScheduleError, match="no capacity"):
        evaluate_machines(graph.replace(capacity=None), schedule)


def test_ops_of_no_duration_take_no_units():
    graph = graph_of([], capacity=[1], duration=[2, 0, 1])
    schedule = MachineProblem(graph).decode([3, 2, 1])
    assert schedule.start.tolist() == [0, 2, 2]
    moved = schedule.replace(start=np.array([0.0, 1, 2]))
    assert evaluate_machines(graph, moved) == 3


def _is_valid(plain: oracle.PlainMachines, start: list[float]) -> bool:
    """By units in use whenever something starts, op by op."""
    ends = [s + d for s, d in zip(start, plain.duration, strict=True)]
    ordered = all(start[i] >= ends[j] for i in range(len(start)) for j in plain.before[i])
    return ordered and all(
        sum(
            plain.demand[i]
            for i in range(len(start))
            if plain.machine[i] == machine and start[i] <= at < ends[i]
        )
        <= capacity
        for machine, capacity in enumerate(plain.capacity)
        for at in start
    )


@settings(max_examples=200)
@given(machine_graphs(whole=True), st.data())
def test_moved_ops(graph, data):
    """An op moved to another time: accepted exactly if a plain check of the rules says so."""
    generation = data.draw(st.sampled_from(["parallel", "serial"]))
    problem = MachineProblem(graph, generation=generation)
    schedule = problem.decode(data.draw(genes(graph.num_ops))[0])
    assert evaluate_machines(graph, schedule) == schedule.makespan
    op = data.draw(st.integers(0, graph.num_ops - 1))
    start = schedule.start.copy()
    start[op] = data.draw(st.integers(0, 20))
    moved = schedule.replace(start=start, steps=np.argsort(start, kind="stable"))
    if _is_valid(oracle.plain_machines(graph), start.tolist()):
        assert evaluate_machines(graph, moved) == float(np.max(start + graph.duration))
    else:
        with pytest.raises(ScheduleError, match="op"):
            evaluate_machines(graph, moved)


@settings(max_examples=100)
@given(machine_graphs(), st.data())
def test_mutations(graph, data):
    schedule = MachineProblem(graph).decode(data.draw(genes(graph.num_ops))[0])
    op = data.draw(st.integers(0, graph.num_ops - 1))
    placement = schedule.placement.copy()
    placement[op] += 1
    with pytest.raises(ScheduleError, match=f"op {op} "):
        evaluate_machines(graph, schedule.replace(placement=placement))
    assume(len(np.unique(schedule.start)) > 1)
    with pytest.raises(ScheduleError, match="steps"):
        evaluate_machines(graph, schedule.replace(steps=schedule.steps[::-1].copy()))
