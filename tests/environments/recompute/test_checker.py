"""Schedules in which ops run again: walked by hand, held against a plain oracle, and rejected."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regal_jax as rj
from regal_jax.environments.placement import checker as placement_checker
from regal_jax.environments.recompute import checker
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import ScheduleError
from regal_jax.search.orders import rules
from tests.oracles import recomputation as oracle
from tests.oracles.schedule_cost import plain
from tests.strategies import computation_graphs

# Ops 0 and 1 forward, 2 loss, 3 and 4 backward. Tensors: 0 weights (8, persistent), 1 batch (4),
# 2 first activation (10), 3 second one (6), 4 loss (1, persistent), 5 gradient (5), 6 result (8).
CHAIN = rj.ComputationGraph.create(
    num_ops=5,
    producer=[-1, -1, 0, 1, 2, 3, 4],
    size=[8, 4, 10, 6, 1, 5, 8],
    consumers=[[0, 4], [0], [1, 4], [2, 3], [3], [4], []],
    persistent=[True, False, False, False, True, False, True],
    duration=[3, 2, 1, 2, 4],
    workspace=[0, 2, 0, 0, 0],
)
AGAIN = CHAIN.replace(size=np.array([8, 0, 10, 6, 1, 5, 2]))
"""The same with a peak in the middle: 30 bytes, 26 if op 0 runs again."""
CONTROL = rj.ComputationGraph.create(
    num_ops=2, producer=[0, 0], size=[5, 0], consumers=[[1], [1]], duration=[1, 1]
)


def schedule(steps, num_devices=1, num_ops=5):
    return Schedule(
        graph="",
        objective="makespan",
        num_devices=num_devices,
        placement=np.zeros(num_ops, np.int32),
        steps=np.array(steps, np.int64),
    )


def test_walked_by_hand():
    again = schedule([0, 1, 2, 3, 0, 4])
    cost = rj.evaluate(CHAIN, again)
    usage = placement_checker.memory_timeline(CHAIN, again).usage[:, 0]
    assert usage.tolist() == [
        12,  # weights and batch
        22,  # + first activation
        30,  # + second one, + workspace 2; the batch waits for the second run of op 0
        19,  # the first activation is gone; + loss
        24,  # + gradient
        28,  # the second activation is gone; the first is made again
        32,  # the batch is gone; + result
    ]
    assert cost.makespan == 3 + 2 + 1 + 2 + 3 + 4
    assert cost.start.tolist() == [0, 3, 5, 6, 11]
    assert placement_checker.memory_timeline(CHAIN, again).live_at_peak == ((2, 0, 6, 5, 4),)


@given(computation_graphs(max_ops=6, max_tensors=10), st.data())
def test_equals_the_oracle(graph, data):
    length = data.draw(st.integers(0, 2 * graph.num_ops))
    more = data.draw(st.lists(st.integers(0, graph.num_ops - 1), max_size=length))
    runs = rules.random_order(graph, data.draw(st.integers(0, 9))).tolist()
    for op in more:
        runs.insert(data.draw(st.integers(0, len(runs))), op)
    if oracle.is_valid(plain(graph), runs):
        assert checker.usage(graph, runs) == oracle.usage(plain(graph), runs)
    else:
        with pytest.raises(ScheduleError):
            checker.usage(graph, runs)


@given(computation_graphs(max_ops=8), st.integers(0, 9))
def test_each_once_is_an_ordinary_schedule(graph, seed):
    order = rules.random_order(graph, seed)
    plain_one = schedule(order, num_ops=graph.num_ops)
    ordinary = placement_checker.memory_timeline(graph, plain_one)
    again = placement_checker._with_runs_again(graph, plain_one)
    assert again.usage.tolist() == ordinary.usage.tolist()
    assert again.peak_row.tolist() == ordinary.peak_row.tolist()
    with_bytes = [[t for t in one.live_at_peak[0] if graph.size[t]] for one in (again, ordinary)]
    assert with_bytes[0] == with_bytes[1]


@pytest.mark.parametrize(
    ("graph", "steps", "message"),
    [
        (CHAIN, [0, 2, 1, 2, 3, 4], "op 2 runs before its input tensor 3"),
        (CHAIN, [0, 1, 0, 2, 3], "op 4 never runs"),
        (CHAIN, [0, 0, 7], "7 is not an op"),
        (CONTROL, [0, 1, 0], "op 0 runs again after an op that waited for it"),
    ],
)
def test_what_cannot_run(graph, steps, message):
    with pytest.raises(ScheduleError, match=message):
        rj.evaluate(graph, schedule(steps, num_ops=graph.num_ops))


def test_only_one_device_runs_ops_again():
    with pytest.raises(ScheduleError, match="op 0 runs twice, which an op may on one device alone"):
        rj.evaluate(CHAIN, schedule([0, 0, 1, 2, 3, 4], num_devices=2))


def test_files_keep_the_runs(tmp_path):
    found = dataclasses.replace(schedule([0, 1, 2, 3, 0, 4]), makespan=15.0)
    rj.save_schedule(found, tmp_path / "s.json")
    assert rj.load_schedule(tmp_path / "s.json") == found
