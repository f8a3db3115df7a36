"""CP-SAT's view of time: an interval an op, no overlap on a device, delays between devices.

Times are whole numbers, rounded down where need be (``integer_times``).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.placement import arrivals
from regal_jax.environments.platform import Platform
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.cp_sat.integer_times import TimeUnit, time_unit
from regal_jax.search.cp_sat.memory import Placement


class TimeParts(NamedTuple):
    """The times of a graph in units; P pairs (producer op, consumer op).

    Attributes:
      unit: what they are counted in.
      duration: int[O].
      pairs: int[P, 2].
      delay: int[P], between the ends of a pair on different devices.
      horizon: no op needs to end later, whatever the order and placement.
    """

    unit: TimeUnit
    duration: list[int]
    pairs: list[tuple[int, int]]
    delay: list[int]
    horizon: int


def time_parts(graph: ComputationGraph, platform: Platform) -> TimeParts | None:
    """The parts of a graph on a platform; None where times are beyond floating-point numbers."""
    pairs, delay = arrivals.delays(graph, platform)
    wait = np.zeros(graph.num_ops)
    np.maximum.at(wait, pairs[:, 1], delay)
    most = float(np.sum(graph.duration) + np.sum(wait))
    unit = time_unit(np.concatenate([graph.duration, delay]), most)
    if unit is None:
        return None
    duration, waits = unit.whole(graph.duration), unit.whole(wait)
    ends = [(int(one), int(other)) for one, other in pairs]
    return TimeParts(unit, duration, ends, unit.whole(delay), sum(duration) + sum(waits))


def add_time(model, parts: TimeParts, placement: Placement, makespan) -> list[Any]:
    """Adds the start of each op, with all of them at their ends by ``makespan`` units."""
    duration, num_devices = parts.duration, len(placement[0])
    starts = [model.new_int_var(0, parts.horizon - length, "") for length in duration]
    for op, start in enumerate(starts):
        model.add(start + duration[op] <= makespan)
    for (one, other), delay in zip(parts.pairs, parts.delay, strict=True):
        model.add(starts[one] + duration[one] <= starts[other])
        if delay:
            for here, there in zip(placement[one], placement[other], strict=True):
                late = model.add(starts[one] + duration[one] + delay <= starts[other])
                late.only_enforce_if([here, ~there])
    for device in range(num_devices):
        here = [literals[device] for literals in placement]
        model.add_no_overlap(
            model.new_optional_fixed_size_interval_var(start, length, literal, "")
            for start, length, literal in zip(starts, duration, here, strict=True)
        )
        model.add(sum(n * literal for n, literal in zip(duration, here, strict=True)) <= makespan)
    whole = [
        model.new_fixed_size_interval_var(start, length, "")
        for start, length in zip(starts, duration, strict=True)
    ]
    model.add_cumulative(whole, [1] * len(whole), num_devices)
    return starts


def unrelated_pairs(graph: ComputationGraph) -> np.ndarray:
    """int[P, 2]: pairs of ops, the first with the lower index, that may run in either order."""
    descendants = precedence.unpack(precedence.closure(graph))
    return np.argwhere(np.triu(~(descendants | descendants.T), 1))


def add_common_order(
    model,
    parts: TimeParts,
    placement: Placement,
    position: Sequence[Any],
    starts: Sequence[Any],
    pairs: np.ndarray,
) -> list[Any]:
    """Ops of one device start in the order of their positions; a literal for each unrelated pair.

    Ops of different devices needn't: the order of steps is one, but has no times of its own.
    """
    return [
        _one_order(model, parts, placement, position, starts, one, other)
        for one, other in pairs.tolist()
    ]


def _one_order(model, parts, placement, position, starts, one: int, other: int):
    first = model.new_bool_var("")
    for before, after, literal in ((one, other, first), (other, one, ~first)):
        model.add(position[before] <= position[after]).only_enforce_if(literal)
        for same in zip(placement[one], placement[other], strict=True):
            end = starts[before] + parts.duration[before]
            model.add(end <= starts[after]).only_enforce_if([literal, *same])
    return first


def earliest_starts(parts: TimeParts, order: Sequence[int], placement: Sequence[int]) -> list[int]:
    """int[O], units: the starts of ops run in an order (BUILD_NOTES.md, section 3)."""
    arriving: list[list[tuple[int, int]]] = [[] for _ in parts.duration]
    for (one, other), delay in zip(parts.pairs, parts.delay, strict=True):
        arriving[other].append((one, delay if placement[one] != placement[other] else 0))
    starts, free = [0] * len(parts.duration), [0] * (max(placement, default=0) + 1)
    for op in order:
        ready = [starts[one] + parts.duration[one] + delay for one, delay in arriving[op]]
        starts[op] = max([free[placement[op]], *ready])
        free[placement[op]] = starts[op] + parts.duration[op]
    return starts
