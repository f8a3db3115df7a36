"""Events of Chrome traces (JSON), whatever they show. Times are in microseconds, whole nanoseconds.

Viewers keep process and thread 0 for the idle task, so device d is process d + 1.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph

Event = dict[str, Any]

FIRST_THREAD = 1
"""The first thread of a process that events may be on."""


def nanoseconds(times: np.ndarray) -> np.ndarray:
    """int64: times in us as whole ns; what doesn't overlap in us, doesn't in ns."""
    return np.rint(times * 1000).astype(np.int64)


def event_at(phase: str, moment: int, device: int, thread: int) -> Event:
    """An event without a name at a moment in ns."""
    return {"ph": phase, "ts": int(moment) / 1000, "pid": device + 1, "tid": int(thread)}


def process(device: int, name: str, threads: Iterable[tuple[int, str]]) -> Iterator[Event]:
    """Names of a device's process and its threads, (number, name) in rising order, shown so."""
    yield _metadata(device, 0, "process_name", name=name)
    yield _metadata(device, 0, "process_sort_index", sort_index=device)
    for thread, thread_name in threads:
        yield _metadata(device, thread, "thread_name", name=thread_name)
        yield _metadata(device, thread, "thread_sort_index", sort_index=thread)


def _metadata(device: int, thread: int, event: str, **args: Any) -> Event:
    return {"ph": "M", "name": event, "pid": device + 1, "tid": thread, "ts": 0, "args": args}


def lasting(start: int, finish: int, device: int, thread: int) -> Event:
    """A complete event from start to finish, ns, without a name."""
    return event_at("X", start, device, thread) | {"dur": int(finish - start) / 1000}


def op_details(graph: ComputationGraph, op: int, **more: Any) -> Event:
    """Name and arguments of the event of an op."""
    kind = graph.op_kinds[op] if graph.op_kinds else ""
    args = {
        "op": op,
        "kind": kind,
        "duration_us": float(graph.duration[op]),
        "workspace_bytes": int(graph.workspace[op]),
        "inputs": _tensors(graph, graph.inputs.row(op)),
        "outputs": _tensors(graph, graph.outputs.row(op)),
    }
    return {"name": graph.op_label(op), "cat": kind or "op", "args": args | more}


def _tensors(graph: ComputationGraph, tensors: np.ndarray) -> list[dict[str, Any]]:
    labels = ((graph.tensor_label(tensor), tensor) for tensor in tensors.tolist())
    return [{"name": name, "bytes": int(graph.size[tensor])} for name, tensor in labels]


def counter(device: int, name: str, unit: str, values: dict[int, int]) -> Iterator[Event]:
    """A device's counter: values in a unit by the moment, ns, from which on they hold."""
    for moment, value in values.items():
        yield event_at("C", moment, device, 0) | {"name": name, "args": {unit: value}}


def document(
    graph: ComputationGraph,
    schedule: Schedule,
    clock: str,
    names: Iterable[Event],
    events: Iterable[Event],
) -> dict[str, Any]:
    """A trace, ready for ``json.dumps``: names first, events in the order of time."""
    return {
        "traceEvents": [*names, *sorted(events, key=lambda event: event["ts"])],
        "displayTimeUnit": "ms",
        "otherData": {"graph": graph.name, "method": schedule.method, "clock": clock},
    }
