"""List heuristics for makespan written from the papers' pseudo-code alone: naive, to be read.

Plain Python on dictionaries and lists; shares no code with ``regal_jax.search``. Each function maps
(graph, number of devices, latency, per_byte) to ``{op: (device, start)}``. Ties: the lowest place
in the topological order that always takes the lowest op it can, then the lowest device.
"""

from typing import NamedTuple

from regal_jax.graphs.computation_graph import ComputationGraph

Plan = dict[int, tuple[int, float]]


class Tasks(NamedTuple):
    """Durations, and communication costs by (producer, consumer), in a topological order."""

    order: list[int]
    w: dict[int, float]
    c: dict[tuple[int, int], float]

    def succ(self, i: int) -> list[int]:
        return [b for a, b in self.c if a == i]

    def pred(self, i: int) -> list[int]:
        return [a for a, b in self.c if b == i]


def tasks_of(graph: ComputationGraph, latency: float, per_byte: float) -> Tasks:
    cost: dict[tuple[int, int], float] = {}
    for tensor, producer in enumerate(graph.producer.tolist()):
        for consumer in graph.consumers.row(tensor).tolist():
            if producer >= 0:
                delay = latency + int(graph.size[tensor]) * per_byte
                pair = (producer, consumer)
                cost[pair] = max(cost.get(pair, 0.0), delay)
    w = dict(enumerate(graph.duration.tolist()))
    order: list[int] = []
    while len(order) < len(w):
        order.append(
            min(i for i in w if i not in order and all(a in order for a, b in cost if b == i))
        )
    return Tasks(order, w, cost)


def rank_u(tasks: Tasks, i: int, c: dict | None = None) -> float:
    """HEFT's equation 8."""
    c = tasks.c if c is None else c
    return tasks.w[i] + max((c[i, j] + rank_u(tasks, j, c) for j in tasks.succ(i)), default=0.0)


def rank_d(tasks: Tasks, i: int) -> float:
    """HEFT's equation 10."""
    return max((rank_d(tasks, j) + tasks.w[j] + tasks.c[j, i] for j in tasks.pred(i)), default=0.0)


def static_level(tasks: Tasks, i: int) -> float:
    return rank_u(tasks, i, dict.fromkeys(tasks.c, 0.0))


def arrival(tasks: Tasks, plan: Plan, i: int, device: int) -> float:
    """When all that task i reads is on the device."""
    times = [0.0]
    for j in tasks.pred(i):
        where, start = plan[j]
        times.append(start + tasks.w[j] + (tasks.c[j, i] if where != device else 0.0))
    return max(times)


def end(tasks: Tasks, plan: Plan, device: int) -> float:
    return max((s + tasks.w[j] for j, (d, s) in plan.items() if d == device), default=0.0)


def earliest_insertion(tasks: Tasks, plan: Plan, i: int, device: int) -> float:
    """The least start, at its arrival or another task's end, that overlaps nothing."""
    busy = [(s, s + tasks.w[j]) for j, (d, s) in plan.items() if d == device]
    ready = arrival(tasks, plan, i, device)
    starts = [ready] + [finish for _, finish in busy if finish >= ready]

    def free(start: float) -> bool:
        return all(start + tasks.w[i] <= s or finish <= start for s, finish in busy)

    return min(start for start in starts if free(start))


def insert(tasks: Tasks, plan: Plan, i: int, devices: range | list[int]) -> None:
    start, device = min((earliest_insertion(tasks, plan, i, d), d) for d in devices)
    plan[i] = (device, start)


def heft(graph, num_devices, latency, per_byte) -> Plan:
    tasks, plan = tasks_of(graph, latency, per_byte), {}
    for i in sorted(tasks.order, key=lambda i: (-rank_u(tasks, i), tasks.order.index(i))):
        insert(tasks, plan, i, range(num_devices))
    return plan


def cpop(graph, num_devices, latency, per_byte) -> Plan:
    tasks, plan = tasks_of(graph, latency, per_byte), {}
    priority = {i: rank_u(tasks, i) + rank_d(tasks, i) for i in tasks.order}
    on_path = critical_tasks(tasks)
    while len(plan) < len(tasks.order):
        ready = [i for i in tasks.order if i not in plan and all(j in plan for j in tasks.pred(i))]
        i = max(ready, key=lambda i: (priority[i], -tasks.order.index(i)))
        insert(tasks, plan, i, [num_devices - 1] if i in on_path else range(num_devices))
    return plan


def critical_tasks(tasks: Tasks) -> set[int]:
    """One longest path from its entry on."""

    def first(candidates, length):
        return max(candidates, key=lambda i: (length(i), -tasks.order.index(i)))

    if not tasks.order:
        return set()
    here = first(tasks.order, lambda i: rank_u(tasks, i))
    path = {here}
    while successors := tasks.succ(here):
        here = first(successors, lambda j, i=here: tasks.c[i, j] + rank_u(tasks, j))
        path.add(here)
    return path


def etf(graph, num_devices, latency, per_byte) -> Plan:
    tasks, plan = tasks_of(graph, latency, per_byte), {}
    while len(plan) < len(tasks.order):
        _, _, _, device, start, i = min(
            (start, -static_level(tasks, i), tasks.order.index(i), device, start, i)
            for i in tasks.order
            if i not in plan and all(j in plan for j in tasks.pred(i))
            for device in range(num_devices)
            for start in [max(arrival(tasks, plan, i, device), end(tasks, plan, device))]
        )
        plan[i] = (device, start)
    return plan


def critical_path(graph, num_devices, latency, per_byte) -> Plan:
    """At every moment at which something ends, from the start on."""
    tasks, plan, time = tasks_of(graph, latency, per_byte), {}, 0.0

    def ended(j: int) -> bool:
        return j in plan and plan[j][1] + tasks.w[j] <= time

    while len(plan) < len(tasks.order):
        ready = [i for i in tasks.order if i not in plan and all(map(ended, tasks.pred(i)))]
        if ready and any(end(tasks, plan, d) <= time for d in range(num_devices)):
            i = max(ready, key=lambda i: (static_level(tasks, i), -tasks.order.index(i)))
            start, device = min(
                (max(arrival(tasks, plan, i, d), end(tasks, plan, d)), d)
                for d in range(num_devices)
            )
            plan[i] = (device, start)
        else:
            time = min(s + tasks.w[j] for j, (_, s) in plan.items() if s + tasks.w[j] > time)
    return plan


def hbmct(graph, num_devices, latency, per_byte) -> Plan:
    tasks, plan = tasks_of(graph, latency, per_byte), {}
    rank = {i: (-rank_u(tasks, i), tasks.order.index(i)) for i in tasks.order}
    groups: list[list[int]] = [[]]
    for i in sorted(tasks.order, key=rank.__getitem__):
        if any(j in groups[-1] for j in tasks.pred(i)):
            groups.append([])
        groups[-1].append(i)
    for group in groups:
        plan |= _balanced(tasks, plan, group, rank, num_devices)
    return plan


def _balanced(tasks: Tasks, plan: Plan, group: list[int], rank: dict, num_devices: int) -> Plan:
    devices = range(num_devices)
    free = [end(tasks, plan, d) for d in devices]
    could_start = {(i, d): max(free[d], arrival(tasks, plan, i, d)) for i in group for d in devices}

    def run(members, d) -> dict[int, float]:
        starts, time = {}, free[d]
        for i in sorted(members, key=lambda i: (could_start[i, d], rank[i])):
            starts[i] = max(time, could_start[i, d])
            time = starts[i] + tasks.w[i]
        return starts

    def finish(members, d) -> float:
        return max([free[d], *(start + tasks.w[i] for i, start in run(members, d).items())])

    assigned: list[list[int]] = [[] for _ in devices]
    for i in group:
        d = min(devices, key=lambda d: (finish([*assigned[d], i], d), d))
        assigned[d].append(i)

    def move_one() -> bool:
        latest = max(devices, key=lambda d: (finish(assigned[d], d), -d))
        makespan = finish(assigned[latest], latest)
        others = [d for d in devices if d != latest]
        mean = {i: sum(could_start[i, d] for d in devices) for i in group}
        for i in sorted(assigned[latest], key=lambda i: (mean[i], rank[i])):
            left = [j for j in assigned[latest] if j != i]
            if not others or finish(left, latest) >= makespan:
                continue
            target = min(others, key=lambda d: (finish([*assigned[d], i], d), d))
            if finish([*assigned[target], i], target) < makespan:
                assigned[latest] = left
                assigned[target].append(i)
                return True
        return False

    while move_one():
        pass
    return {i: (d, start) for d in devices for i, start in run(assigned[d], d).items()}


ORACLES = {"heft": heft, "cpop": cpop, "etf": etf, "hbmct": hbmct, "critical_path": critical_path}
