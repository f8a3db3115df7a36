"""Transfers that wait for each other, against a simulation event by event."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.environments.execution import links
from regal_jax.environments.execution.targets import TargetModel, simulated
from regal_jax.environments.placement import checker
from regal_jax.environments.platform import Platform
from regal_jax.search.orders.rules import random_order
from tests.environments.execution.cases import schedule_of
from tests.strategies import computation_graphs


def event_by_event(graph, schedule, delays, blocking):
    """us: in small decisions. A device does what is next in its own list of ops and sends; a link
    of its own does the sends unless they are among them."""
    place = schedule.placement.tolist()
    jobs = {}  # resource -> [("op", op) or ("send", tensor, device)]
    for op in schedule.ops_in_order().tolist():
        jobs.setdefault(("device", place[op]), []).append(("op", op))
        sender = ("device" if blocking else "link", place[op])
        for tensor in graph.outputs.row(op).tolist():
            there = {place[reader] for reader in graph.consumers.row(tensor).tolist()}
            sends = [("send", tensor, device) for device in sorted(there - {place[op]})]
            jobs.setdefault(sender, []).extend(sends)
    done, free = {}, dict.fromkeys(jobs, 0.0)
    while any(jobs.values()):
        for resource, queue in jobs.items():
            while queue:
                kind, *what = queue[0]
                if kind == "op":
                    (op,) = what
                    needs, length = [], graph.duration[op]
                    for tensor in graph.inputs.row(op).tolist():
                        producer = int(graph.producer[tensor])
                        if producer >= 0 and place[producer] == place[op]:
                            needs.append(("op", producer))
                        elif producer >= 0:
                            needs.append(("send", tensor, place[op]))
                else:
                    needs, length = [("op", int(graph.producer[what[0]]))], delays[what[0]]
                if not all(need in done for need in needs):
                    break
                begin = max([free[resource], *(done[need] for need in needs)])
                free[resource] = done[queue.pop(0)] = begin + length
    return max((end for (kind, *_), end in done.items() if kind == "op"), default=0.0)


@given(computation_graphs(max_ops=8), st.integers(1, 3), st.integers(0, 99), st.booleans())
def test_makespans_are_those_of_the_events(graph, devices, seed, blocking):
    placement = np.random.default_rng(seed).integers(devices, size=graph.num_ops)
    schedule = schedule_of(graph, placement, random_order(graph, seed), devices)
    platform = Platform(devices, latency=1.0, per_byte=0.25)
    found = links.makespan(graph, schedule, platform, blocking=blocking)
    delays = 1.0 + 0.25 * graph.size
    assert found == pytest.approx(event_by_event(graph, schedule, delays, blocking))
    assert found >= checker.evaluate(graph, schedule, platform).makespan - 1e-9
    free = links.makespan(graph, schedule, Platform(devices), blocking=blocking)
    assert free == pytest.approx(checker.evaluate(graph, schedule, Platform(devices)).makespan)


@given(computation_graphs(max_ops=8), st.integers(0, 99))
def test_targets_have_links(graph, seed):
    placement = np.random.default_rng(seed).integers(2, size=graph.num_ops)
    schedule = schedule_of(graph, placement, random_order(graph, seed), 2)
    many, shared, blocking = (
        simulated(graph, TargetModel(latency=1.0, links=kind))(schedule)
        for kind in ("many", "shared", "blocking")
    )
    assert many <= shared <= blocking
    assert shared == links.makespan(graph, schedule, Platform(2, latency=1.0), blocking=False)
