"""Schedules drawn by Metropolis's rule from the distribution that GFlowNets are trained for: the
probability of a schedule is proportional to exp(speedup / temperature) (the reference of an exact
sampler for gflownet_robust_scheduling, 3.3).

States are chains of ops on devices. A move takes one op, any, to any place before or after others.
Both ways are as likely, so that the acceptance of Metropolis et al. 1953 gives the distribution, of
schedules with names of devices, once the walk has forgotten its start: it begins with a list
schedule, and cools down over the first half of its moves.
"""

import math
from typing import NamedTuple

import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.placement.tasks import TaskGraph, task_graph
from regal_jax.native.compilation import inlined_with_arrays, jit_with_arrays
from regal_jax.search.list_scheduling import heuristics
from regal_jax.search.placements import candidates
from regal_jax.search.placements.candidates import Candidates

HOT = 1.0
"""The temperature of the first move, unless that of the last is higher."""


class Chains(NamedTuple):
    """A state: by task the device, the task before and the one that follows (-1 for none), int64[O]
    each; by device the first, int64[D]."""

    place: np.ndarray
    before: np.ndarray
    follows: np.ndarray
    first: np.ndarray


class Scratch(NamedTuple):
    """What costing a state needs, by task: an order of all int64[O], how many it still waits for,
    when its inputs have arrived, when it ends."""

    order: np.ndarray
    waits: np.ndarray
    arrival: np.ndarray
    finish: np.ndarray


def sample(
    problem: PlacementProblem, temperature: float, moves: int, count: int, seed: int
) -> Candidates:
    """``count`` states of one walk of so many moves, evenly from its second half."""
    num_ops, rng = problem.graph.num_ops, np.random.default_rng(seed)
    tasks = task_graph(problem.graph, problem.platform)
    chains = _list_schedule(problem, tasks)
    scratch = Scratch(
        *(np.zeros(num_ops, np.int64) for _ in range(2)), *(np.zeros(num_ops) for _ in range(2))
    )
    cooling = np.geomspace(max(HOT, temperature), temperature, moves // 2 + 1)
    kept = np.linspace(moves // 2, moves, count + 1)[1:].astype(int)
    found = Candidates(*(np.empty((count, num_ops), np.int32) for _ in range(2)))
    begin = 0
    for row, end in enumerate(kept):
        heat = cooling[np.minimum(np.arange(begin, end), moves // 2)]
        _walk(tasks, chains, scratch, heat, rng.random((end - begin, 3)))
        found.placement[row, tasks.op] = chains.place
        found.sequence[row] = tasks.op[scratch.order]
        begin = end
    return found


def _list_schedule(problem: PlacementProblem, tasks: TaskGraph) -> Chains:
    graph, num_devices = problem.graph, problem.num_devices
    schedule = heuristics.critical_path(graph, problem.platform)
    (placement,), (sequence,) = candidates.from_schedules([schedule])
    task = np.argsort(tasks.op)
    before, follows = (np.full(graph.num_ops, -1) for _ in range(2))
    first, last = (np.full(num_devices, -1) for _ in range(2))
    for op in sequence:
        this, device = task[op], placement[op]
        before[this] = last[device]
        if last[device] < 0:
            first[device] = this
        else:
            follows[last[device]] = this
        last[device] = this
    return Chains(placement[tasks.op].astype(np.int64), before, follows, first)


@jit_with_arrays
def _walk(tasks, chains, scratch, heat, uniform):
    """One move for each row of uniform float64[M, 3], at its heat float64[M]."""
    num_ops, num_devices = len(chains.place), len(chains.first)
    work = tasks.duration.sum()
    cost = _makespan(tasks, chains, scratch)
    for move in range(len(heat)):
        this = int(uniform[move, 0] * num_ops)
        slot = int(uniform[move, 1] * (num_ops - 1 + num_devices)) - num_devices
        device, after = chains.place[this], chains.before[this]
        _take(chains, this)
        if slot < 0:
            _put(chains, this, slot + num_devices, -1)
        else:
            other = slot + (slot >= this)
            _put(chains, this, chains.place[other], other)
        new = _makespan(tasks, chains, scratch)
        worse = work / cost - work / new if new > 0 else math.inf
        if worse <= 0 or uniform[move, 2] < math.exp(-worse / heat[move]):
            cost = new
        else:
            _take(chains, this)
            _put(chains, this, device, after)
    _makespan(tasks, chains, scratch)


@inlined_with_arrays
def _take(chains, this):
    """Takes a task out of its chain."""
    before, follows = chains.before[this], chains.follows[this]
    if before < 0:
        chains.first[chains.place[this]] = follows
    else:
        chains.follows[before] = follows
    if follows >= 0:
        chains.before[follows] = before


@inlined_with_arrays
def _put(chains, this, device, before):
    """Puts a task behind another of a device, -1 for its beginning."""
    follows = chains.first[device] if before < 0 else chains.follows[before]
    chains.place[this], chains.before[this], chains.follows[this] = device, before, follows
    if before < 0:
        chains.first[device] = this
    else:
        chains.follows[before] = this
    if follows >= 0:
        chains.before[follows] = this


@inlined_with_arrays
def _makespan(tasks, chains, scratch):
    """us; -1 if tasks wait for each other in a circle. Leaves an order of the tasks."""
    order, waits, arrival, finish = scratch
    num_tasks, count, makespan = len(order), 0, 0.0
    arrival[:] = 0.0
    for this in range(num_tasks):
        waits[this] = chains.before[this] >= 0
    for edge in range(len(tasks.after)):
        waits[tasks.after[edge]] += 1
    for this in range(num_tasks):
        if waits[this] == 0:
            order[count] = this
            count += 1
    done = 0
    while done < count:
        this = order[done]
        done += 1
        before, follows = chains.before[this], chains.follows[this]
        start = arrival[this]
        if before >= 0:
            start = max(start, finish[before])
        finish[this] = start + tasks.duration[this]
        makespan = max(makespan, finish[this])
        if follows >= 0:
            waits[follows] -= 1
            if waits[follows] == 0:
                order[count] = follows
                count += 1
        for edge in range(tasks.offsets[this], tasks.offsets[this + 1]):
            other = tasks.after[edge]
            crosses = chains.place[other] != chains.place[this]
            there = finish[this] + tasks.delay[edge] if crosses else finish[this]
            arrival[other] = max(arrival[other], there)
            waits[other] -= 1
            if waits[other] == 0:
                order[count] = other
                count += 1
    return makespan if count == num_tasks else -1.0
