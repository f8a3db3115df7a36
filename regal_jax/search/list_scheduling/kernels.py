"""The compiled loops of the list heuristics, numba: tasks and an order in, devices and starts out.

``arrival[i, d]`` is when all that task i reads is on device d, as far as its producers are placed;
``free[d]`` when device d has run its last task; both float64, us.
"""

import heapq

import numpy as np

from regal_jax.native.compilation import jit_with_arrays


@jit_with_arrays
def order_of_ready(tasks, rank):
    """int64[O]: the ready task of lowest rank next, again and again.

    Ready is a task whose predecessors have been taken. ``rank`` is a permutation, int64[O].
    """
    waiting_for, by_rank = _predecessors(tasks), np.argsort(rank)
    heap, order = [np.int64(0) for _ in range(0)], np.empty(len(rank), np.int64)
    for source in np.flatnonzero(waiting_for == 0):
        heapq.heappush(heap, rank[source])
    for count in range(len(rank)):
        task = by_rank[heapq.heappop(heap)]
        order[count] = task
        for edge in range(tasks.offsets[task], tasks.offsets[task + 1]):
            waiting_for[tasks.after[edge]] -= 1
            if waiting_for[tasks.after[edge]] == 0:
                heapq.heappush(heap, rank[tasks.after[edge]])
    return order


@jit_with_arrays
def insert_in_order(tasks, order, pinned, num_devices):
    """Each task in order into the earliest gap that holds it, on ``pinned`` or (-1) on any device.

    Identical devices: the earliest finish is the earliest start. Ties: the lowest device.
    """
    count = len(order)
    arrival, last = np.zeros((count, num_devices)), np.full(num_devices, -1)
    place, previous = np.zeros(count, np.int64), np.full(count, -1)
    start, finish = np.zeros(count), np.zeros(count)
    for task in order:
        begin, device, following = np.inf, 0, -1
        for candidate in range(num_devices):
            if pinned[task] < 0 or pinned[task] == candidate:
                when, after = _earliest_gap(
                    last[candidate],
                    arrival[task, candidate],
                    tasks.duration[task],
                    (start, finish, previous),
                )
                if when < begin:
                    begin, device, following = when, candidate, after
        place[task], start[task], finish[task] = device, begin, begin + tasks.duration[task]
        if following < 0:
            previous[task], last[device] = last[device], task
        else:
            previous[task], previous[following] = previous[following], task
        _deliver(tasks, task, device, finish[task], arrival)
    return place, start


@jit_with_arrays
def _earliest_gap(last, arrival, duration, planned):
    """(start, the task behind it or -1) of a device's earliest gap, looked for from its end."""
    start, finish, previous = planned
    begin = max(arrival, finish[last]) if last >= 0 else arrival
    following, here = -1, last
    while here >= 0 and start[here] >= arrival + duration:
        before = previous[here]
        when = max(arrival, finish[before]) if before >= 0 else arrival
        if when + duration <= start[here]:
            begin, following = when, here
        here = before
    return begin, following


@jit_with_arrays
def earliest_task_first(tasks, rank, num_devices):
    """Of all ready tasks and devices the pair that starts first; ties: lowest rank, then device.

    A device has the ready tasks in two heaps: those that it can start when it is free, by rank, and
    those whose inputs arrive later, by when. Tasks that started elsewhere are dropped on the way.
    """
    count, by_rank = len(rank), np.argsort(rank)
    arrival, free = np.zeros((count, num_devices)), np.zeros(num_devices)
    place, start = np.full(count, -1), np.zeros(count)
    waiting_for = _predecessors(tasks)
    startable = [[np.int64(0) for _ in range(0)] for _ in range(num_devices)]
    coming = [[(0.0, np.int64(0)) for _ in range(0)] for _ in range(num_devices)]
    for source in np.flatnonzero(waiting_for == 0):
        for device in range(num_devices):
            heapq.heappush(startable[device], rank[source])
    for _ in range(count):
        best, which, where = np.inf, count, 0
        for device in range(num_devices):
            heaps = startable[device], coming[device]
            begin, first = _first_of_device(heaps, free[device], place, by_rank)
            if begin < best or (begin == best and first < which):
                best, which, where = begin, first, device
        task = by_rank[which]
        place[task], start[task], free[where] = where, best, best + tasks.duration[task]
        _deliver(tasks, task, where, free[where], arrival)
        for edge in range(tasks.offsets[task], tasks.offsets[task + 1]):
            after = tasks.after[edge]
            waiting_for[after] -= 1
            if waiting_for[after] == 0:
                for device in range(num_devices):
                    heapq.heappush(coming[device], (arrival[after, device], rank[after]))
    return place, start


@jit_with_arrays
def _first_of_device(heaps, free, place, by_rank):
    """(start, rank) of the ready task that starts first on a device; infinite for none."""
    now, later = heaps
    while len(later) > 0 and later[0][0] <= free:
        heapq.heappush(now, heapq.heappop(later)[1])
    while len(now) > 0 and place[by_rank[now[0]]] >= 0:
        heapq.heappop(now)
    if len(now) > 0:
        return free, now[0]
    while len(later) > 0 and place[by_rank[later[0][1]]] >= 0:
        heapq.heappop(later)
    return later[0] if len(later) > 0 else (np.inf, np.int64(len(by_rank)))


@jit_with_arrays
def highest_priority_first(tasks, rank, num_devices):
    """As time goes on: while a device is idle, the ready task of lowest rank goes to the device
    where it can start first. Ready is a task whose predecessors have ended."""
    count, placed, time = len(rank), 0, 0.0
    arrival, free = np.zeros((count, num_devices)), np.zeros(num_devices)
    place, start = np.zeros(count, np.int64), np.zeros(count)
    waiting_for, by_rank = _predecessors(tasks), np.argsort(rank)
    ready, running = [np.int64(0) for _ in range(0)], [(0.0, np.int64(0)) for _ in range(0)]
    for source in np.flatnonzero(waiting_for == 0):
        heapq.heappush(ready, rank[source])
    while placed < count:
        while len(running) > 0 and running[0][0] <= time:
            task = heapq.heappop(running)[1]
            for edge in range(tasks.offsets[task], tasks.offsets[task + 1]):
                waiting_for[tasks.after[edge]] -= 1
                if waiting_for[tasks.after[edge]] == 0:
                    heapq.heappush(ready, rank[tasks.after[edge]])
        if len(ready) > 0 and free.min() <= time:
            task = by_rank[heapq.heappop(ready)]
            start[task], place[task] = _first_start(arrival[task], free)
            free[place[task]] = start[task] + tasks.duration[task]
            heapq.heappush(running, (free[place[task]], task))
            _deliver(tasks, task, place[task], free[place[task]], arrival)
            placed += 1
        else:
            time = running[0][0]
    return place, start


@jit_with_arrays
def balanced_groups(tasks, order, num_devices):
    """The order is cut before every task that reads from its group; each group is balanced."""
    count, first = len(order), 0
    arrival, free = np.zeros((count, num_devices)), np.zeros(num_devices)
    place, start = np.zeros(count, np.int64), np.zeros(count)
    rank = np.argsort(order)
    # The tasks of a group on each device: a linked list in the order in which they run.
    lists = (np.full(num_devices, -1), np.full(count, -1))
    reads_from = np.full(count, -1)
    for i in range(count):
        if reads_from[order[i]] == first:
            _run_group(tasks, order[first:i], rank, lists, arrival, free, place, start)
            first = i
        for edge in range(tasks.offsets[order[i]], tasks.offsets[order[i] + 1]):
            reads_from[tasks.after[edge]] = first
    _run_group(tasks, order[first:], rank, lists, arrival, free, place, start)
    return place, start


@jit_with_arrays
def _run_group(tasks, group, rank, lists, arrival, free, place, start):
    """Balances a group, then fixes its starts."""
    head, following = lists
    head[:] = -1
    finish = free.copy()
    known = (tasks.duration, rank, arrival, free)
    for task in group:
        finish_there, device = _best_device(task, -1, lists, known)
        _link(task, device, lists, known)
        place[task], finish[device] = device, finish_there
    while _move_one(group, place, finish, lists, known):
        pass
    for device in range(len(head)):
        task = head[device]
        while task >= 0:
            start[task] = max(free[device], arrival[task, device])
            free[device] = start[task] + tasks.duration[task]
            _deliver(tasks, task, device, free[device], arrival)
            task = following[task]


@jit_with_arrays
def _move_one(group, place, finish, lists, known):
    """Moves a task away from the device that finishes last, if this makes both finish before.

    Tasks are tried by the sum over devices of when they could start, ties by rank.
    """
    arrival, free = known[2], known[3]
    latest = np.argmax(finish)
    tasks_there = group[place[group] == latest]
    could_start = np.zeros(len(tasks_there))
    for i in range(len(tasks_there)):
        for device in range(len(free)):
            could_start[i] += max(free[device], arrival[tasks_there[i], device])
    for i in np.argsort(could_start, kind="mergesort"):
        task = tasks_there[i]
        without = _finish(latest, -1, task, lists, known)
        if without < finish[latest]:
            finish_there, device = _best_device(task, latest, lists, known)
            if finish_there < finish[latest]:
                _unlink(task, latest, lists)
                _link(task, device, lists, known)
                place[task], finish[latest], finish[device] = device, without, finish_there
                return True
    return False


@jit_with_arrays
def _best_device(task, excluded, lists, known):
    """(finish, device): where a device that also runs the task finishes first; lowest on ties."""
    best, where = np.inf, -1
    for device in range(len(known[3])):
        if device != excluded:
            finish = _finish(device, task, -1, lists, known)
            if finish < best:
                best, where = finish, device
    return best, where


@jit_with_arrays
def _finish(device, added, skipped, lists, known):
    """When a device has run its tasks of the group, one of them skipped, another one added."""
    head, following = lists
    duration, _, arrival, free = known
    time, here = free[device], head[device]
    while here >= 0 or added >= 0:
        if added >= 0 and (here < 0 or _runs_before(added, here, device, known)):
            task, added = added, -1
        else:
            task, here = here, following[here]
        if task != skipped:
            time = max(time, arrival[task, device]) + duration[task]
    return time


@jit_with_arrays
def _link(task, device, lists, known):
    head, following = lists
    before, here = -1, head[device]
    while here >= 0 and not _runs_before(task, here, device, known):
        before, here = here, following[here]
    following[task] = here
    if before < 0:
        head[device] = task
    else:
        following[before] = task


@jit_with_arrays
def _unlink(task, device, lists):
    head, following = lists
    if head[device] == task:
        head[device] = following[task]
        return
    before = head[device]
    while following[before] != task:
        before = following[before]
    following[before] = following[task]


@jit_with_arrays
def _runs_before(one, other, device, known):
    """Which of two tasks of a group runs first on a device: could start first, then by rank."""
    _, rank, arrival, free = known
    first = max(free[device], arrival[one, device])
    second = max(free[device], arrival[other, device])
    return first < second or (first == second and rank[one] < rank[other])


@jit_with_arrays
def _predecessors(tasks):
    """int64[O]: how many tasks each one waits for."""
    count = np.zeros(len(tasks.duration), np.int64)
    for after in tasks.after:
        count[after] += 1
    return count


@jit_with_arrays
def _first_start(arrival, free):
    """(start, device) of a task behind all that runs; the lowest device on ties."""
    begin, device = max(arrival[0], free[0]), 0
    for other in range(1, len(free)):
        if max(arrival[other], free[other]) < begin:
            begin, device = max(arrival[other], free[other]), other
    return begin, device


@jit_with_arrays
def _deliver(tasks, task, device, finish, arrival):
    """The successors of a placed task learn when what it makes is on each device."""
    for edge in range(tasks.offsets[task], tasks.offsets[task + 1]):
        after = tasks.after[edge]
        for other in range(arrival.shape[1]):
            when = finish if other == device else finish + tasks.delay[edge]
            arrival[after, other] = max(arrival[after, other], when)
