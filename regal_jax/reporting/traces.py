"""A schedule as a Chrome trace (JSON), to open in https://ui.perfetto.dev.

One process a device: its ops, the transfers that arrive, and a counter of the bytes in use; arrows
lead from the op that makes a tensor over its transfer to the ops that read the copy. Which clock
times are on is described in ``step_times``. For schedules on machine types see ``machine_trace``.
"""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.placement import checker
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import chrome_trace
from regal_jax.reporting.chrome_trace import Event
from regal_jax.reporting.lanes import assign_lanes
from regal_jax.reporting.machine_trace import machine_trace
from regal_jax.reporting.step_times import (
    Clock,
    Steps,
    StepTimes,
    describe_steps,
    memory_change_times,
    step_times,
)

COUNTER = "memory in use"
OPS_THREAD = chrome_trace.FIRST_THREAD
"""Thread of a device's ops; transfers take as many threads above as run side by side."""


class _Trace(NamedTuple):
    """Everything events are made from; start and finish are int64[S] in ns."""

    graph: ComputationGraph
    schedule: Schedule
    steps: Steps
    start: np.ndarray
    finish: np.ndarray
    thread: np.ndarray  # int64[S]


def trace_events(
    graph: ComputationGraph,
    schedule: Schedule,
    platform: Platform | None = None,
    *,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """The trace of a schedule, ready for ``json.dumps``.

    Args:
      graph: the graph the schedule belongs to.
      schedule: a valid schedule.
      platform: latency and bandwidth of transfers; free by default. Machine types have none.
      clock: see ``step_times``; "serial" by default for the objective peak_memory, "parallel" for
        makespan, and always on machine types.

    Raises:
      ScheduleError: for an invalid schedule, or a platform with another number of devices.
    """
    if graph.capacity is not None and schedule.objective == "makespan":
        return machine_trace(graph, schedule)
    times = step_times(graph, schedule, platform, clock=clock)
    steps = describe_steps(graph, schedule)
    start, finish = map(chrome_trace.nanoseconds, times)
    trace = _Trace(graph, schedule, steps, start, finish, _threads(steps, start, finish))
    events = [*_slices(trace), *_counters(trace, times), *_flows(trace)]
    clock = clock or ("serial" if schedule.objective == "peak_memory" else "parallel")
    return chrome_trace.document(graph, schedule, clock, _names(trace), events)


def save_trace(
    graph: ComputationGraph,
    schedule: Schedule,
    path: str | os.PathLike,
    platform: Platform | None = None,
    *,
    clock: Clock | None = None,
) -> None:
    """Writes the trace to a .json file, or compressed to .json.gz, atomically.

    Raises RegalError where the place can't be written, and as ``trace_events``.
    """
    data = json.dumps(
        trace_events(graph, schedule, platform, clock=clock), allow_nan=False
    ).encode()
    if Path(path).suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    files.write_atomically(path, lambda file: file.write(data))


def _threads(steps: Steps, start: np.ndarray, finish: np.ndarray) -> np.ndarray:
    """int64[S]: the ops' thread, or for a transfer the lowest other one free on its device."""
    thread = np.full(len(start), OPS_THREAD)
    for device in np.unique(steps.target[steps.tensor >= 0]):
        mine = np.flatnonzero((steps.tensor >= 0) & (steps.target == device))
        transfer, lane = assign_lanes(start[mine], finish[mine], np.ones_like(mine))
        thread[mine[transfer]] = OPS_THREAD + 1 + lane
    return thread


def _names(trace: _Trace) -> Iterator[Event]:
    """Metadata: processes and threads, in the order to show them."""
    for device in range(trace.schedule.num_devices):
        here = (trace.steps.target == device) & (trace.steps.tensor >= 0)
        transfers = [(thread, "transfers") for thread in np.unique(trace.thread[here]).tolist()]
        threads = [(OPS_THREAD, "ops"), *transfers]
        yield from chrome_trace.process(device, f"device {device}", threads)


def _slices(trace: _Trace) -> Iterator[Event]:
    """One complete event a step."""
    for step in range(len(trace.start)):
        start, finish = trace.start[step], trace.finish[step]
        device, thread = int(trace.steps.target[step]), trace.thread[step]
        is_op = trace.steps.tensor[step] < 0
        details = _op_details(trace, step) if is_op else _transfer_details(trace, step)
        yield chrome_trace.lasting(start, finish, device, thread) | details


def _at(trace: _Trace, step: int, phase: str) -> Event:
    """An event at the start of a step, on its thread."""
    device = int(trace.steps.target[step])
    return chrome_trace.event_at(phase, trace.start[step], device, trace.thread[step])


def _op_details(trace: _Trace, step: int) -> Event:
    return chrome_trace.op_details(trace.graph, int(trace.steps.op[step]), step=step)


def _transfer_details(trace: _Trace, step: int) -> Event:
    graph, tensor = trace.graph, int(trace.steps.tensor[step])
    args = {
        "tensor": tensor,
        "step": step,
        "bytes": int(graph.size[tensor]),
        "from": f"device {trace.steps.source[step]}",
        "to": f"device {trace.steps.target[step]}",
    }
    return {"name": graph.tensor_label(tensor), "cat": "transfer", "args": args}


def _counters(trace: _Trace, times: StepTimes) -> Iterator[Event]:
    """Bytes in use on each device where they change; the most within a nanosecond counts."""
    usage = checker.memory_timeline(trace.graph, trace.schedule).usage
    num_devices = trace.schedule.num_devices
    changes = memory_change_times(trace.steps, times, num_devices)
    rows = np.concatenate([np.zeros((1, num_devices), np.int64), np.rint(changes * 1000)])
    for device in range(num_devices):
        most: dict[int, int] = {}
        for moment, used in zip(rows[:, device].tolist(), usage[:, device].tolist(), strict=True):
            most[int(moment)] = max(used, most.get(int(moment), 0))
        most.setdefault(int(trace.finish.max(initial=0)), usage[-1, device].item())
        yield from chrome_trace.counter(device, COUNTER, "bytes", most)


def _flows(trace: _Trace) -> Iterator[Event]:
    """Arrows: producer to transfer, and transfer to each reader of the copy."""
    graph, steps = trace.graph, trace.steps
    step_of_op = np.zeros(graph.num_ops, np.int64)
    step_of_op[steps.op[steps.tensor < 0]] = np.flatnonzero(steps.tensor < 0)
    number = 0
    for transfer in np.flatnonzero(steps.tensor >= 0).tolist():
        readers = graph.consumers.row(int(steps.tensor[transfer]))
        here = readers[trace.schedule.placement[readers] == steps.target[transfer]]
        arrows = [(int(step_of_op[steps.op[transfer]]), transfer)]
        arrows += [(transfer, int(step_of_op[reader])) for reader in here]
        for tail, head in arrows:
            number += 1
            details = {"name": "transfer", "cat": "flow", "id": number}
            yield _at(trace, tail, "s") | details
            yield _at(trace, head, "f") | details | {"bp": "e"}
