"""Sequencing by definition: conflicts, and what is known of the ops in them, over sets of ops."""

import itertools
import math

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph


class Sequencer:
    """A schedule that grows op by op; times of features are over ten mean durations."""

    def __init__(self, graph: ComputationGraph):
        self.graph, self.start = graph, dict[int, float]()
        ops = range(graph.num_ops)
        pairs = {(int(before), int(after)) for before, _, after in graph.edges}
        self.before = {op: {b for b, after in pairs if after == op} for op in ops}
        self.after = {op: {a for before, a in pairs if before == op} for op in ops}
        self.duration = graph.duration.tolist()
        self.release = [[0.0] * int(units) for units in graph.capacity]
        self.unit = 10.0 * (float(graph.duration.mean()) or 1.0)

    def tail(self, op: int) -> float:
        return max((self.duration[a] + self.tail(a) for a in self.after[op]), default=0.0)

    def levels(self, op: int) -> int:
        return max((1 + self.levels(a) for a in self.after[op]), default=0)

    def head(self, op: int) -> float:
        """When an op could start at the earliest, whatever machines do from now on."""
        if op in self.start:
            return self.start[op]
        return max((self.head(b) + self.duration[b] for b in self.before[op]), default=0.0)

    def demand(self, op: int) -> int:
        return int(self.graph.demand[op])

    def machine(self, op: int) -> int:
        return int(self.graph.machine_type[op])

    def earliest(self, op: int) -> float:
        free = sorted(self.release[self.machine(op)])
        return max([self.head(op), *free[: self.demand(op)]])

    def end(self, op: int) -> float:
        return self.earliest(op) + self.duration[op]

    def left(self) -> list[int]:
        return [op for op in range(self.graph.num_ops) if op not in self.start]

    def conflict(self) -> list[int]:
        ready = [op for op in self.left() if self.before[op] <= set(self.start)]
        first = min(ready, key=lambda op: (self.end(op), op))
        some = [
            op
            for op in ready
            if self.machine(op) == self.machine(first)
            and self.demand(op) > 0
            and self.earliest(op) < self.end(first)
        ]
        return some if some and self.demand(first) and self.duration[first] else [first]

    def load(self, machine: int) -> float:
        units = max(len(self.release[machine]), 1)
        own = [op for op in self.left() if self.machine(op) == machine]
        return sum(self.duration[op] * self.demand(op) / units for op in own)

    def bound(self, op: int) -> float:
        """For one unit, the largest sum of least head, work and least tail of any ops (Carlier
        1982, which is what the preemptive schedule takes); else that of all that need units."""
        machine, finish = self.machine(op), self.end(op)
        own = [o for o in self.left() if self.machine(o) == machine and self.demand(o) > 0]
        found = [finish + self.tail(op)]
        if len(self.release[machine]) > 1:
            free = min(self.release[machine])
            head = min(max(self.head(o), free) for o in own)
            found += [head + self.load(machine) + min(map(self.tail, own))]
            return max(found)
        others = [o for o in own if o != op and self.duration[o] > 0]
        for count in range(1, len(others) + 1):
            for some in itertools.combinations(others, count):
                head = min(max(self.head(o), finish) for o in some)
                found += [head + sum(self.duration[o] for o in some) + min(map(self.tail, some))]
        return max(found)

    def queue(self, machine: int) -> float:
        """Work of ops that wait for nothing else."""
        units = max(len(self.release[machine]), 1)
        ready = [op for op in self.left() if self.before[op] <= set(self.start)]
        own = [op for op in ready if self.machine(op) == machine]
        return sum(self.duration[op] * self.demand(op) / units for op in own)

    def behind(self, op: int) -> list[int]:
        """The ops of the longest path behind an op."""
        path = lambda o: (self.duration[o] + self.tail(o), o)  # noqa: E731
        found: list[int] = []
        while self.after[op]:
            op = max(self.after[op], key=path)
            found.append(op)
        return found

    def rows(self) -> list[dict[str, float]]:
        """What is known of each op in conflict."""
        some, left = self.conflict(), self.left()
        machine = self.machine(some[0])
        longest = max(self.head(o) + self.duration[o] + self.tail(o) for o in left)
        same = [o for o in left if self.machine(o) == machine]
        free = min(self.release[machine]) + self.load(machine)
        return [
            self._row(op, some, longest, free + min(map(self.tail, same)) - longest) for op in some
        ]

    def _row(self, op: int, some: list[int], longest: float, pressure: float) -> dict[str, float]:
        tails = [self.tail(o) for o in some]
        free = sorted(self.release[self.machine(op)])[self.demand(op) - 1]
        path = self.behind(op)
        behind = path[0] if path else -1
        machines = [self.machine(o) for o in path]
        pressures = [min(self.release[m], default=0.0) + self.load(m) - longest for m in machines]
        its = self.release[self.machine(behind)] if behind >= 0 else []
        times = {
            "duration": self.duration[op],
            "tail": self.tail(op),
            "later": self.earliest(op) - min(map(self.earliest, some)),
            "waits": self.earliest(op) - self.head(op),
            "idle": self.earliest(op) - free,
            "over": self.end(op) - min(map(self.end, some)),
            "path": self.end(op) + self.tail(op) - max(self.end(o) + self.tail(o) for o in some),
            "slack": self.end(op) + self.tail(op) - longest,
            "bound": self.bound(op) - min(map(self.bound, some)),
            "excess": self.bound(op) - longest,
            "load": self.load(self.machine(op)),
            "pressure": pressure,
            "next_duration": self.duration[behind] if behind >= 0 else 0.0,
            "next_load": self.load(self.machine(behind)) if behind >= 0 else 0.0,
            "next_idle": self.end(op) - min(its) if its else 0.0,
            "queue": self.queue(self.machine(op)),
            "next_queue": self.queue(self.machine(behind)) if path else 0.0,
            "next_pressure": pressures[0] if path else 0.0,
            "feeds": max(pressures, default=0.0),
            "tail_over": self.tail(op) - float(np.mean(tails)),
            "duration_over": self.duration[op] - float(np.mean([self.duration[o] for o in some])),
        }
        return {name: time / self.unit for name, time in times.items()} | {
            "conflict": math.log(len(some)),
            "levels": self.levels(op) / 10.0,
            "done": len(self.start) / self.graph.num_ops,
            "share": self.demand(op) / len(self.release[self.machine(op)]),
            "longer_tails": sum(tail > self.tail(op) for tail in tails) / len(tails),
        }

    def run(self, op: int) -> None:
        start, free = self.earliest(op), sorted(self.release[self.machine(op)])
        free[: self.demand(op)] = [start + self.duration[op]] * self.demand(op)
        self.release[self.machine(op)] = free
        self.start[op] = start
