"""The schedule checker: a hand-walked instance, and what it rejects."""

import numpy as np
import pytest

from regal_jax.environments.placement import checker
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph


def schedule(placement, steps, num_devices=2):
    return Schedule(
        graph="",
        objective="peak_memory",
        num_devices=num_devices,
        placement=np.array(placement, np.int32),
        steps=np.array(steps, np.int64),
    )


# Ops 0 forward, 1 loss, 2 gradient, 3 update of the weights in place (BUILD_NOTES 3.3).
# Tensors: 0 weights (100, persistent), 1 batch (30), 2 activation (20), 3 loss (4, persistent),
# 4 gradient (100), 5 new weights (0), 6 and 7: controls (0) from the readers to the writer.
TRAIN_STEP = ComputationGraph.create(
    num_ops=4,
    producer=[-1, -1, 0, 1, 2, 3, 0, 2],
    size=[100, 30, 20, 4, 100, 0, 0, 0],
    consumers=[[0, 2, 3], [0, 2], [1, 2], [], [3], [], [3], [3]],
    persistent=[True, False, False, True, False, True, False, False],
    duration=[5, 1, 10, 2],
    workspace=[7, 50, 0, 3],
)
PLACEMENT = [0, 1, 0, 0]  # the loss is on device 1: the activation is copied there
COPY = 4 + 2 * 2 + 1  # transfer of tensor 2 to device 1


def test_walked_by_hand():
    valid = schedule(PLACEMENT, [0, COPY, 1, 2, 3])
    usage = checker.memory_timeline(TRAIN_STEP, valid).usage
    assert usage.tolist() == [
        [130, 0],  # weights and batch
        [157, 0],  # + activation 20 + workspace 7
        [150, 20],  # the copy; the activation stays for the gradient
        [150, 74],  # + loss 4 + workspace 50
        [250, 4],  # + gradient 100; device 1 keeps the persistent loss
        [203, 4],  # batch and activation are gone; + workspace 3
    ]
    cost = checker.evaluate(TRAIN_STEP, valid, Platform(2, latency=2.0, per_byte=0.5))
    assert cost.peak_memory.tolist() == [250, 74]
    assert cost.start.tolist() == [0.0, 17.0, 5.0, 15.0]  # 5 + 2 + 20 * 0.5; 5; 5 + 10
    assert cost.makespan == 18.0
    assert checker.evaluate(TRAIN_STEP, valid).makespan == 17.0


def test_live_tensors_at_the_peak_are_largest_first():
    timeline = checker.memory_timeline(TRAIN_STEP, schedule(PLACEMENT, [0, COPY, 1, 2, 3]))
    assert timeline.peak_row.tolist() == [4, 3]
    assert timeline.live_at_peak[0][:4] == (0, 4, 1, 2)
    assert timeline.live_at_peak[1] == (2, 3)


def test_inputs_are_present_on_each_device_that_reads_them_and_on_no_other():
    graph = ComputationGraph.create(
        num_ops=2,
        producer=[-1, -1, -1],
        size=[10, 100, 1000],
        consumers=[[0, 1], [1], []],
        persistent=[False, True, True],
    )
    usage = checker.memory_timeline(graph, schedule([0, 2], [0, 1], 3)).usage
    assert usage.tolist() == [[10, 0, 110], [10, 0, 110], [0, 0, 110]]


def test_a_persistent_tensor_stays_at_home_only():
    graph = ComputationGraph.create(
        num_ops=3,
        producer=[0],
        size=[10],
        consumers=[[1]],
        persistent=[True],
    )
    usage = checker.memory_timeline(graph, schedule([0, 1, 1], [0, 4, 1, 2])).usage
    assert usage.tolist() == [[0, 0], [10, 0], [10, 10], [10, 10], [10, 0]]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([1, 0, COPY, 2, 3], "op 1 runs on device 1 before its input tensor 2"),
        ([0, COPY, 1, 3, 2], "op 3 runs on device 0 before its input tensor 4"),
        ([0, COPY, 1, 2], "op 3 never runs"),
        ([], "op 0 never runs"),
        ([0, COPY, 1, 2, 3, 3], "op 3 runs twice"),
        ([0, COPY, COPY, 1, 2, 3], "transfer of tensor 2 to device 1 runs twice"),
        ([0, COPY, 1, 2, COPY, 3], "transfer of tensor 2 to device 1 runs twice"),
        ([0, 1, 2, 3], "op 1 runs on device 1 before its input tensor 2"),
        ([COPY, 0, 1, 2, 3], "transfer of tensor 2 to device 1 runs on device 1 before its input"),
        ([0, COPY, 1, 2, 4 + 4 * 2 + 1, 3], "transfer of tensor 4 to device 1 is not needed"),
        ([0, COPY - 1, COPY, 1, 2, 3], "transfer of tensor 2 to device 0 is not needed"),
        ([4, 0, COPY, 1, 2, 3], "transfer of tensor 0 to device 0 is not needed"),
        ([4 + 8 * 2, 0, COPY, 1, 2, 3], "transfer of tensor 8 to device 0 is not needed"),
        ([-1, 0, COPY, 1, 2, 3], "-1"),
    ],
)
def test_invalid_orders_are_rejected(steps, message):
    with pytest.raises(ScheduleError, match="steps: ") as caught:
        checker.evaluate(TRAIN_STEP, schedule(PLACEMENT, steps))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ([0, 0, 0], "has 3 entries for 4 ops"),
        ([0] * 5, "has 5 entries for 4 ops"),
        ([0, 2, 0, 0], "op 1 is on device 2"),
        ([0, 0, -1, 0], "op 2 is on device -1"),
    ],
)
def test_invalid_placements_are_rejected(placement, message):
    with pytest.raises(ScheduleError, match="placement: ") as caught:
        checker.evaluate(TRAIN_STEP, schedule(placement, [0, 1, 2, 3]))
    assert message in str(caught.value)


def test_capacity_is_inclusive():
    valid = schedule(PLACEMENT, [0, COPY, 1, 2, 3])
    checker.evaluate(TRAIN_STEP, valid, Platform(2, memory_capacity=(250, 74)))
    with pytest.raises(ScheduleError, match="device 1 needs 74 bytes, its capacity is 73"):
        checker.evaluate(TRAIN_STEP, valid, Platform(2, memory_capacity=(250, 73)))


def test_another_number_of_devices_is_rejected():
    with pytest.raises(ScheduleError, match="num_devices"):
        checker.evaluate(TRAIN_STEP, schedule([0] * 4, [0, 1, 2, 3]), Platform(3))


def test_claimed_costs_are_not_believed():
    problem = PlacementProblem(TRAIN_STEP)
    claimed = schedule(PLACEMENT, [0, COPY, 1, 2, 3]).replace(peak_memory=(1, 1), makespan=1.0)
    costed = problem.costed(claimed)
    assert (costed.peak_memory, costed.makespan, costed.cost) == ((250, 74), 17.0, 250)
