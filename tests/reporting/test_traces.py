"""Traces: valid events, exact memory counters, one op at a time on a device."""

import gzip
import json
from collections import defaultdict

import pytest
from hypothesis import given, settings

from regal_jax.errors import RegalError, ScheduleError
from regal_jax.reporting import traces
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
