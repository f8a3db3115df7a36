"""Traces: valid events, exact counters, one op at a time on a device or unit."""

import gzip
import json
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import RegalError, ScheduleError
from regal_jax.reporting import traces
from tests.environments.rcpsp.cases import graph_of, machine_graphs
from tests.reporting.cases import SLOW_LINKS, hand_graph, hand_schedule, scheduled_graphs


def of_phase(trace, phase):
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def counter(trace, device):
    """(us, bytes) of a device's memory."""
    events = [event for event in of_phase(trace, "C") if event["pid"] == device + 1]
    return [(event["ts"], event["args"]["bytes"]) for event in events]


def test_serial_trace_by_hand():
    trace = traces.trace_events(hand_graph(), hand_schedule(), SLOW_LINKS)
    slices = [(e["name"], e["pid"], e["tid"], e["ts"], e["dur"]) for e in of_phase(trace, "X")]
    assert slices == [
        ("a", 1, 1, 0, 2),
        ("a:1", 2, 2, 2, 10.5),
        ("b", 1, 1, 12.5, 3),
        ("c", 2, 1, 15.5, 4),
        ("c:3", 1, 2, 19.5, 2.5),
        ("d", 1, 1, 22, 1),
    ]
    memory = [(0, 140), (2, 140), (12.5, 153), (15.5, 108), (19.5, 116), (22, 116), (23, 116)]
    assert counter(trace, 0) == memory
    assert counter(trace, 1) == [
        (0, 0),
        (2, 40),
        (12.5, 40),
        (15.5, 48),
        (19.5, 8),
        (22, 0),
        (23, 0),
    ]


def test_details_of_an_op():
    b = of_phase(traces.trace_events(hand_graph(), hand_schedule()), "X")[2]
    assert b["cat"] == b["args"]["kind"] == "add"
    assert b["args"]["workspace_bytes"] == 5
    assert b["args"]["inputs"] == [{"name": "a:1", "bytes": 40}]
    assert b["args"]["outputs"] == [{"name": "b:2", "bytes": 8}]


def test_flows_lead_from_producer_over_transfer_to_reader():
    trace = traces.trace_events(hand_graph(), hand_schedule(), SLOW_LINKS, clock="parallel")
    tails = {event["id"]: event for event in of_phase(trace, "s")}
    heads = {event["id"]: event for event in of_phase(trace, "f")}
    ends = [
        (tails[i]["pid"], tails[i]["tid"], tails[i]["ts"], heads[i]["pid"], heads[i]["tid"])
        for i in sorted(tails)
    ]
    assert tails.keys() == heads.keys()
    assert ends == [(1, 1, 0, 2, 2), (2, 2, 2, 2, 1), (2, 1, 12.5, 1, 2), (1, 2, 16.5, 1, 1)]


def test_the_clock_follows_the_objective():
    clocks = [
        traces.trace_events(hand_graph(), hand_schedule(objective))["otherData"]["clock"]
        for objective in ("peak_memory", "makespan")
    ]
    assert clocks == ["serial", "parallel"]


@settings(max_examples=60)
@given(scheduled_graphs())
def test_any_trace_is_sound(case):
    graph, schedule, platform = case
    for clock in ("serial", "parallel"):
        trace = traces.trace_events(graph, schedule, platform, clock=clock)
        json.dumps(trace, allow_nan=False)
        check_events(trace["traceEvents"])
        peaks = [max(used for _, used in counter(trace, d)) for d in range(schedule.num_devices)]
        assert peaks == list(schedule.peak_memory)
        assert len(of_phase(trace, "X")) == len(schedule.steps)


def check_events(events):
    """Integer ids, named threads, times in order, nothing overlapping on a thread."""
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times)
    assert all(type(event[key]) is int for event in events for key in ("pid", "tid"))
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    end = defaultdict(float)
    for event in events:
        if event["ph"] == "X":
            thread = event["pid"], event["tid"]
            assert thread in named
            assert event["dur"] >= 0
            assert event["ts"] >= end[thread] - 1e-6
            end[thread] = event["ts"] + event["dur"]


def threads(trace, machine):
    return [
        event["args"]["name"]
        for event in of_phase(trace, "M")
        if event["name"] == "thread_name" and event["pid"] == machine + 1
    ]


def test_trace_on_machine_types_by_hand():
    """Type 0 has two units; type 1 many; op 3 takes no units, op 4 no time."""
    graph = graph_of(
        [(0, 1)],
        capacity=[2, 17],
        machine_type=[0, 0, 1, 1, 0],
        demand=[2, 1, 5, 0, 1],
        duration=[2, 1, 3, 1, 0],
    )
    schedule = MachineProblem(graph).scheduled(np.array([0.0, 2, 0, 0, 0]))
    trace = traces.trace_events(graph, schedule)
    slices = {
        (e["args"]["op"], e["pid"], e["tid"], e["ts"], e["dur"]) for e in of_phase(trace, "X")
    }
    expected = {(0, 1, 1, 0, 2), (0, 1, 2, 0, 2), (1, 1, 1, 2, 1), (4, 1, 3, 0, 0)}
    assert slices == expected | {(2, 2, 1, 0, 3), (3, 2, 2, 0, 1)}
    assert threads(trace, 0) == ["unit 0", "unit 1", "no units"]
    assert threads(trace, 1) == ["ops", "no units"]
    in_use = [
        (event["pid"], event["ts"], event["args"]["units"])
        for event in sorted(of_phase(trace, "C"), key=lambda event: event["pid"])
    ]
    assert in_use == [(1, 0, 2), (1, 2, 1), (1, 3, 0), (2, 0, 5), (2, 3, 0)]
    assert trace["otherData"] == {"graph": "hand-made", "method": "", "clock": "parallel"}


@settings(max_examples=80)
@given(machine_graphs(), st.integers(0, 9), st.sampled_from([1, 20]))
def test_any_trace_on_machine_types_is_sound(graph, seed, times):
    graph = graph.replace(capacity=graph.capacity * times, demand=graph.demand * times)
    problem = MachineProblem(graph)
    schedule = problem.decode(np.random.default_rng(seed).random(problem.num_genes, np.float32))
    trace = traces.trace_events(graph, schedule)
    json.dumps(trace, allow_nan=False)
    check_events(trace["traceEvents"])
    lasts = schedule.start + graph.duration > schedule.start
    by_unit = graph.capacity[graph.machine_type] <= 16
    expected = np.where(by_unit & lasts, np.maximum(graph.demand, 1), 1)
    shown = [event["args"]["op"] for event in of_phase(trace, "X")]
    assert np.bincount(shown, minlength=graph.num_ops).tolist() == expected.tolist()
    check_units_in_use(graph, schedule, trace)


def check_units_in_use(graph, schedule, trace):
    """The counter of each type says, from each of its times on, what the ops that run demand."""
    start, finish = (
        np.rint(times * 1000) for times in (schedule.start, schedule.start + graph.duration)
    )
    for machine in range(len(graph.capacity)):
        counted = [event for event in of_phase(trace, "C") if event["pid"] == machine + 1]
        assert counted[0]["ts"] == 0
        moments = {round(event["ts"] * 1000): event["args"]["units"] for event in counted}
        assert len(moments) == len(counted)
        busy = (graph.machine_type == machine) & (graph.demand > 0)
        assert set(start[busy & (finish > start)].tolist()) <= moments.keys()
        for moment, units in moments.items():
            runs = busy & (start <= moment) & (moment < finish)
            assert units == graph.demand[runs].sum()


def test_saved_plain_or_compressed(tmp_path):
    graph, schedule = hand_graph(), hand_schedule()
    traces.save_trace(graph, schedule, tmp_path / "t.json")
    traces.save_trace(graph, schedule, tmp_path / "t.json.gz")
    plain = (tmp_path / "t.json").read_bytes()
    assert json.loads(plain) == traces.trace_events(graph, schedule)
    assert gzip.decompress((tmp_path / "t.json.gz").read_bytes()) == plain


def test_errors_are_one_line(tmp_path):
    graph, schedule = hand_graph(), hand_schedule()
    with pytest.raises(RegalError, match="can't write"):
        traces.save_trace(graph, schedule, tmp_path / "none" / "t.json")
    with pytest.raises(ScheduleError):
        traces.trace_events(graph, schedule.replace(steps=schedule.steps[:-1]))
