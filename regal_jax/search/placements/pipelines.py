"""The published schedules of pipeline-parallel training, and schedules from per-device orders.

p stages run on p devices, stage s on device s, m microbatches. The orders are those of
``datasets.pipelines``'s ops; ``device_schedule`` makes any such orders a schedule.

With equal stages, T_F, T_B, T_W the times of the three passes, M_B and M_W the bytes a microbatch
holds before and after B, free communication, and m >= 2p - 1:

| schedule | a device's time beyond m (T_F + T_B + T_W) | most activations on device s |
|---|---|---|
| gpipe | (p - 1)(T_F + T_B + T_W) | m M_B |
| one_f_one_b | (p - 1)(T_F + T_B + T_W) | (p - s) M_B |
| zero_bubble_h1 | (p - 1)(T_F + T_B - T_W) | (p - s) M_B + s M_W |
| zero_bubble_h2 | (p - 1) max(T_F + T_B - 2 T_W, 0) | (2p - 2s - 1) M_B + 2s M_W |

The first column is of the slowest device, from its first op to its last (Qi et al. 2023, section
2.3, for equal times). The first two rows are for B and W in one op, any times and any m (with m for
p - s where that is less). In two ops, B of the stage before needn't wait for W, and T_W is left
out. The last two rows hold for T_W <= T_F, and H1's for m >= p already. Device 0 starts first and,
if T_W <= T_B, ends last, so for the first three this is the makespan, too. Where T_F = T_B = T_W,
the devices of H2 never wait but start one after another: its makespan is (p - 1) T_F more.
"""

import heapq
from collections.abc import Sequence

import numpy as np

from regal_jax.datasets.pipelines import Pass, op_name
from regal_jax.environments.placement import checker
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Objective, Schedule
from regal_jax.errors import OptionError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.search.orders import rules

PipelineOp = tuple[Pass, int, int]
"""(pass, stage, microbatch)."""

DeviceOrders = list[list[PipelineOp]]
"""Per device, its ops in the order it runs them."""


def gpipe(stages: int, microbatches: int, *, split_backward: bool = True) -> DeviceOrders:
    """All forward passes, then all backward passes in reverse order (Huang et al. 2019).

    With ``split_backward``, W runs right after B. Raises OptionError for less than one of each.
    """
    return [
        _in_rounds(
            stage, microbatches, warm_up=microbatches, split=split_backward, newest_first=True
        )
        for stage in _stages(stages, microbatches)
    ]


def one_f_one_b(stages: int, microbatches: int, *, split_backward: bool = True) -> DeviceOrders:
    """p - s - 1 forward passes first, then a forward and a backward in turn (Narayanan 2021).

    With ``split_backward``, W runs right after B. Raises OptionError for less than one of each.
    """
    return [
        _in_rounds(stage, microbatches, warm_up=stages - stage - 1, split=split_backward)
        for stage in _stages(stages, microbatches)
    ]


def zero_bubble_h1(stages: int, microbatches: int) -> DeviceOrders:
    """1F1B, but W(s, i) runs after B(s, i + s): no more memory than 1F1B's (Qi et al. 2023).

    Raises OptionError for less than one stage or microbatch.
    """
    return [
        _in_rounds(stage, microbatches, warm_up=stages - stage - 1, lag=stage)
        for stage in _stages(stages, microbatches)
    ]


def zero_bubble_h2(stages: int, microbatches: int) -> DeviceOrders:
    """2 (p - s) - 1 forward passes first; W(s, i) runs after B(s, i + 2s) (Qi et al. 2023).

    Then B, W and a forward pass in turn. Nearly twice 1F1B's memory, and no bubble if all passes
    take equally long. Raises OptionError for less than one stage or microbatch.
    """
    orders = []
    for stage in _stages(stages, microbatches):
        warm_up = 2 * (stages - stage) - 1
        orders.append(
            _in_rounds(stage, microbatches, warm_up=warm_up, lag=2 * stage, forward_last=True)
        )
    return orders


def pipeline_schedule(
    graph: ComputationGraph,
    orders: Sequence[Sequence[PipelineOp]],
    *,
    objective: Objective = "makespan",
    platform: Platform | None = None,
) -> Schedule:
    """The schedule of per-device orders of a pipeline's ops; see ``device_schedule``."""
    index = {name: op for op, name in enumerate(graph.op_names)}
    unknown = [op_name(*op) for order in orders for op in order if op_name(*op) not in index]
    if unknown:
        raise ScheduleError(f"graph {graph.name!r} has no op {unknown[0]}")
    numbers = [[index[op_name(*op)] for op in order] for order in orders]
    return device_schedule(graph, numbers, objective=objective, platform=platform)


def device_schedule(
    graph: ComputationGraph,
    orders: Sequence[Sequence[int]],
    *,
    objective: Objective = "makespan",
    platform: Platform | None = None,
) -> Schedule:
    """The schedule in which device d runs the ops ``orders[d]``, each as early as it can.

    Steps are in the order of their starts; a transfer runs right before the first op that reads
    the copy. Costs are filled in. Works for any graph.

    Raises:
      ScheduleError: if an op is in no order or in two, if the devices wait for each other forever,
        or if the schedule exceeds the platform's memory capacity.
    """
    platform = platform or Platform(num_devices=len(orders))
    placement = _placement(graph, orders)
    schedule = rules.build_schedule(
        graph,
        _merged(graph, orders, placement, platform),
        placement,
        objective=objective,
        num_devices=len(orders),
    )
    cost = checker.evaluate(graph, schedule, platform)
    return schedule.replace(
        start=cost.start,
        makespan=cost.makespan,
        peak_memory=tuple(cost.peak_memory.tolist()),
    )


def _stages(stages: int, microbatches: int) -> range:
    if stages < 1 or microbatches < 1:
        raise OptionError(f"needs a stage and a microbatch, got {stages} and {microbatches}")
    return range(stages)


def _in_rounds(
    stage: int,
    microbatches: int,
    *,
    warm_up: int,
    lag: int = 0,
    split: bool = True,
    newest_first: bool = False,
    forward_last: bool = False,
) -> list[PipelineOp]:
    """One device's ops: some forward passes, then rounds of F, B and W as far as there are any.

    Round i has the i-th B (by microbatch, or the newest first), the forward pass ``warm_up`` after
    it, first or last in the round, and the W of the B ``lag`` before. Other Ws come at the end.
    """
    backwards = list(range(microbatches))
    if newest_first:
        backwards.reverse()
    order: list[PipelineOp] = [("F", stage, i) for i in range(min(warm_up, microbatches))]
    for i in range(microbatches + (lag if split else 0)):
        forward: list[PipelineOp] = [("F", stage, j) for j in (i + warm_up,) if j < microbatches]
        order += [] if forward_last else forward
        order += [("B", stage, j) for j in backwards[i : i + 1]]
        order += [("W", stage, backwards[j]) for j in (i - lag,) if split and j >= 0]
        order += forward if forward_last else []
    return order


def _placement(graph: ComputationGraph, orders: Sequence[Sequence[int]]) -> np.ndarray:
    """int32[O]; ScheduleError unless every op is in exactly one order, once."""
    ops = np.array([op for order in orders for op in order], np.int64)
    if np.any((ops < 0) | (ops >= graph.num_ops)):
        raise ScheduleError(f"an order has an op that is not in 0..{graph.num_ops - 1}")
    times = np.bincount(ops, minlength=graph.num_ops)
    wrong = np.flatnonzero(times != 1)
    if wrong.size:
        op = int(wrong[0])
        raise ScheduleError(f"op {graph.op_label(op)} is {times[op]} times in the orders")
    placement = np.zeros(graph.num_ops, np.int32)
    placement[ops] = np.repeat(np.arange(len(orders)), [len(order) for order in orders])
    return placement


def _merged(
    graph: ComputationGraph,
    orders: Sequence[Sequence[int]],
    placement: np.ndarray,
    platform: Platform,
) -> np.ndarray:
    """int64[O]: all ops by their earliest starts, each device's in its order. ScheduleError.

    The earliest of the devices' next ops that have their inputs runs next.
    """
    edges = _timed_edges(graph, placement, platform)
    following = ragged_rows(edges[0], np.arange(len(edges[0])), graph.num_ops)
    target, delay = edges[1].tolist(), edges[2].tolist()
    missing = np.bincount(edges[1], minlength=graph.num_ops).tolist()
    ready, free = [0.0] * graph.num_ops, [0.0] * len(orders)
    position, place = [0] * len(orders), placement.tolist()
    heap: list[tuple[float, int, int]] = []
    merged: list[int] = []

    def offer(device: int) -> None:
        if position[device] < len(orders[device]):
            op = orders[device][position[device]]
            if not missing[op]:
                heapq.heappush(heap, (max(ready[op], free[device]), device, op))

    for device in range(len(orders)):
        offer(device)
    while heap:
        start, device, op = heapq.heappop(heap)
        merged.append(op)
        free[device] = start + float(graph.duration[op])
        position[device] += 1
        for edge in following.row(op).tolist():
            after = target[edge]
            ready[after] = max(ready[after], free[device] + delay[edge])
            missing[after] -= 1
            waits = place[after] != device and not missing[after]
            if waits and _next(orders, position, place[after]) == after:
                offer(place[after])
        offer(device)
    _check_finished(graph, orders, position)
    return np.array(merged, np.int64)


def _next(orders: Sequence[Sequence[int]], position: list[int], device: int) -> int | None:
    """The op a device runs next; None at its end."""
    return orders[device][position[device]] if position[device] < len(orders[device]) else None


def _timed_edges(
    graph: ComputationGraph, placement: np.ndarray, platform: Platform
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(producer op, reader op, delay [us]) of every edge."""
    before, tensor, after = graph.edges.T
    delay = platform.latency + graph.size[tensor] * platform.per_byte
    return before, after, np.where(placement[before] != placement[after], delay, 0.0)


def _check_finished(
    graph: ComputationGraph, orders: Sequence[Sequence[int]], position: Sequence[int]
) -> None:
    for device, (order, done) in enumerate(zip(orders, position, strict=True)):
        if done < len(order):
            label = graph.op_label(order[done])
            raise ScheduleError(f"deadlock: device {device} waits for the inputs of {label}")
