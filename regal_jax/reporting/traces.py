"""A schedule as a Chrome trace (JSON), to open in https://ui.perfetto.dev.

One process a device: its ops, the transfers that arrive, and a counter of the bytes in use; arrows
lead from the op that makes a tensor over its transfer to the ops that read the copy. Times are in
microseconds, whole nanoseconds; which clock they are on is described in ``step_times``.
"""

import gzip
import heapq
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments import feasibility
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting.step_times import (
    Clock,
    Steps,
    StepTimes,
    describe_steps,
    memory_change_times,
    step_times,
)

Event = dict[str, Any]

COUNTER = "memory in use"
OPS_THREAD = 1
"""Thread of a device's ops; transfers take as many threads above as run side by side. Viewers keep
process and thread 0 for the idle task, so device d is process d + 1."""


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
      platform: latency and bandwidth of transfers; free by default.
      clock: see ``step_times``; "serial" by default for the objective peak_memory, "parallel" for
        makespan.

    Raises:
      ScheduleError: for an invalid schedule, or a platform with another number of devices.
    """
    times = step_times(graph, schedule, platform, clock=clock)
    steps = describe_steps(graph, schedule)
    start, finish = (np.rint(column * 1000).astype(np.int64) for column in times)
    trace = _Trace(graph, schedule, steps, start, finish, _threads(steps, start, finish))
    events = [*_slices(trace), *_counters(trace, times), *_flows(trace)]
    events.sort(key=lambda event: event["ts"])
    return {
        "traceEvents": [*_names(trace), *events],
        "displayTimeUnit": "ms",
        "otherData": {
            "graph": graph.name,
            "method": schedule.method,
            "clock": clock or ("serial" if schedule.objective == "peak_memory" else "parallel"),
        },
    }


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
    free: dict[int, list[int]] = {}
    busy: dict[int, list[tuple[int, int]]] = {}
    for step in np.argsort(start, kind="stable").tolist():
        if steps.tensor[step] < 0:
            continue
        device = int(steps.target[step])
        idle, running = free.setdefault(device, []), busy.setdefault(device, [])
        while running and running[0][0] <= start[step]:
            heapq.heappush(idle, heapq.heappop(running)[1])
        thread[step] = heapq.heappop(idle) if idle else OPS_THREAD + 1 + len(running)
        heapq.heappush(running, (int(finish[step]), int(thread[step])))
    return thread


def _names(trace: _Trace) -> Iterator[Event]:
    """Metadata: processes and threads, in the order to show them."""
    for device in range(trace.schedule.num_devices):
        yield _metadata(device, 0, "process_name", name=f"device {device}")
        yield _metadata(device, 0, "process_sort_index", sort_index=device)
        here = (trace.steps.target == device) & (trace.steps.tensor >= 0)
        for thread in sorted({OPS_THREAD, *trace.thread[here].tolist()}):
            name = "ops" if thread == OPS_THREAD else "transfers"
            yield _metadata(device, thread, "thread_name", name=name)
            yield _metadata(device, thread, "thread_sort_index", sort_index=thread)


def _metadata(device: int, thread: int, event: str, **args: Any) -> Event:
    return {"ph": "M", "name": event, "pid": device + 1, "tid": thread, "ts": 0, "args": args}


def _slices(trace: _Trace) -> Iterator[Event]:
    """One complete event a step."""
    for step in range(len(trace.start)):
        is_op = trace.steps.tensor[step] < 0
        yield _at(trace, step, "X") | {
            "dur": int(trace.finish[step] - trace.start[step]) / 1000,
            **(_op_details if is_op else _transfer_details)(trace, step),
        }


def _at(trace: _Trace, step: int, phase: str) -> Event:
    """An event at the start of a step, on its thread."""
    return {
        "ph": phase,
        "ts": int(trace.start[step]) / 1000,
        "pid": int(trace.steps.target[step]) + 1,
        "tid": int(trace.thread[step]),
    }


def _op_details(trace: _Trace, step: int) -> Event:
    graph, op = trace.graph, int(trace.steps.op[step])
    kind = graph.op_kinds[op] if graph.op_kinds else ""
    args = {
        "op": op,
        "kind": kind,
        "step": step,
        "duration_us": float(graph.duration[op]),
        "workspace_bytes": int(graph.workspace[op]),
        "inputs": _tensors(graph, graph.inputs.row(op)),
        "outputs": _tensors(graph, graph.outputs.row(op)),
    }
    return {"name": graph.op_label(op), "cat": kind or "op", "args": args}


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


def _tensors(graph: ComputationGraph, tensors: np.ndarray) -> list[dict[str, Any]]:
    labels = ((graph.tensor_label(tensor), tensor) for tensor in tensors.tolist())
    return [{"name": name, "bytes": int(graph.size[tensor])} for name, tensor in labels]


def _counters(trace: _Trace, times: StepTimes) -> Iterator[Event]:
    """Bytes in use on each device where they change; the most within a nanosecond counts."""
    usage = feasibility.memory_timeline(trace.graph, trace.schedule).usage
    num_devices = trace.schedule.num_devices
    changes = memory_change_times(trace.steps, times, num_devices)
    rows = np.concatenate([np.zeros((1, num_devices), np.int64), np.rint(changes * 1000)])
    for device in range(num_devices):
        most: dict[int, int] = {}
        for moment, used in zip(rows[:, device].tolist(), usage[:, device].tolist(), strict=True):
            most[int(moment)] = max(used, most.get(int(moment), 0))
        most.setdefault(int(trace.finish.max(initial=0)), usage[-1, device].item())
        yield from _counter_events(device, most)


def _counter_events(device: int, most: dict[int, int]) -> Iterator[Event]:
    for moment, used in most.items():
        event = {"ph": "C", "name": COUNTER, "pid": device + 1, "tid": 0, "ts": moment / 1000}
        yield event | {"args": {"bytes": used}}


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
