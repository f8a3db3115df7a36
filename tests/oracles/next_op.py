"""Orders made choice by choice, by definition: who may choose, and what is known of a choice, over
sets of ops and tensors."""

import math
import statistics

from tests.oracles.schedule_cost import PlainGraph


class Orderer:
    """An order that grows op by op, on one device, beside given orders by name."""

    def __init__(self, graph: PlainGraph, orders: dict[str, list[int]] | None = None):
        self.graph, self.order, self.orders = graph, list[int](), orders or {}
        self.reads = {op: set(graph.inputs(op)) for op in graph.ops}
        self.before = {
            op: {graph.producer[t] for t in self.reads[op] if graph.producer[t] >= 0}
            for op in graph.ops
        }
        self.after = {op: {a for a in graph.ops if op in self.before[a]} for op in graph.ops}
        self.use = self.peak = sum(
            graph.size[t] for t in graph.tensors if graph.producer[t] < 0 and graph.consumers[t]
        )
        needs = [self.during(op) + sum(graph.size[t] for t in self.reads[op]) for op in graph.ops]
        self.floor = max([self.use, 1, *needs])
        self.unit = max(sum(map(self.during, graph.ops)) / len(graph.ops), 1.0)

    def during(self, op: int) -> int:
        made = sum(self.graph.size[t] for t in self.graph.outputs(op))
        return made + self.graph.workspace[op]

    def made(self, op: int) -> int:
        kept = [
            t for t in self.graph.outputs(op) if self.graph.consumers[t] or self.graph.persistent[t]
        ]
        return sum(self.graph.size[t] for t in kept)

    def left(self, tensor: int) -> set[int]:
        return set(self.graph.consumers[tensor]) - set(self.order)

    def frees(self, op: int) -> int:
        last = [t for t in self.reads[op] if self.left(t) == {op} and not self.graph.persistent[t]]
        return sum(self.graph.size[t] for t in last)

    def growth(self, op: int) -> int:
        return self.made(op) - self.frees(op)

    def waits(self, op: int) -> int:
        return len(self.before[op] - set(self.order))

    def ready(self) -> list[int]:
        return [op for op in self.graph.ops if op not in self.order and not self.waits(op)]

    def known_peak(self) -> int:
        return max(self.peak, self.floor)

    def forced(self) -> int | None:
        """Of the ops that raise neither the peak nor what is in use, the one that frees most."""
        free = [
            op
            for op in self.ready()
            if self.growth(op) <= 0 and self.use + self.during(op) <= self.known_peak()
        ]
        return min(free, key=lambda op: (self.growth(op), op), default=None)

    def run(self, op: int) -> None:
        self.peak = max(self.peak, self.use + self.during(op))
        self.use += self.growth(op)
        self.order.append(op)

    def levels(self, op: int) -> int:
        return max((1 + self.levels(b) for b in self.before[op]), default=0)

    def behind(self, op: int) -> int:
        return max((1 + self.behind(a) for a in self.after[op]), default=0)

    def scaled(self, count: float) -> float:
        return math.asinh(count / self.unit)

    def row(self, op: int) -> dict[str, float]:
        ready, after, log1p, size = self.ready(), self.after[op], math.log1p, self.scaled
        growth, step = self.growth(op), len(self.order)
        others = {t: self.left(t) - {op} for t in self.reads[op] if not self.graph.persistent[t]}
        pairs = {t: min(some) for t, some in others.items() if len(some) == 1}
        unlocked = [a for a in after if self.waits(a) == 1]
        following = min((self.growth(a) for a in unlocked), default=0)
        needs = {self.during(a) for a in unlocked if self.growth(a) == following} or {0}
        missing = min((self.waits(a) - 1 for a in after), default=0)
        near = {a for a in after if self.waits(a) - 1 == missing} if missing else set()
        nearest = {sum(b in ready for b in self.before[a]) - 1 for a in near} or {0}
        made_at = [self.order.index(b) for b in self.before[op]]
        last = self.after[self.order[-1]] if self.order else set()
        total = sum(self.graph.size[t] / (1 + len(some)) for t, some in others.items() if some)
        ahead = {
            name: order.index(op) - min(map(order.index, ready))
            for name, order in self.orders.items()
        }
        return {
            **{name: log1p(places) for name, places in ahead.items()},
            "growth": size(growth),
            "during": size(self.during(op)),
            "raises": size(max(self.use + self.during(op) - self.known_peak(), 0)),
            "room": size(self.known_peak() - self.use - growth),
            "made": size(self.made(op)),
            "frees": size(self.frees(op)),
            "shares": size(total),
            "pairs": size(sum(self.graph.size[t] for t in pairs)),
            "ready_pairs": size(sum(self.graph.size[t] for t, o in pairs.items() if o in ready)),
            "growth_over": size(growth - min(map(self.growth, ready))),
            "during_over": size(self.during(op) - min(map(self.during, ready))),
            "smaller": sum(self.growth(other) < growth for other in ready) / len(ready),
            "readers": log1p(len(after)),
            "unlocks": log1p(len(unlocked)),
            "started": sum(self.waits(a) < len(self.before[a]) for a in after) / max(len(after), 1),
            "missing": log1p(missing),
            "missing_ready": {log1p(count) for count in nearest},
            "next_growth": size(following),
            "next_during": {size(need) for need in needs},
            "net_growth": size(growth + min(following, 0)),
            "age": log1p(step - max(made_at, default=0)),
            "oldest": log1p(step - min(made_at, default=0)),
            "behind": (self.behind(op) - statistics.fmean([self.behind(o) for o in ready])) / 10,
            "before": (self.levels(op) - statistics.fmean([self.levels(o) for o in ready])) / 10,
            "place": (self.levels(op) + 1) / (self.levels(op) + self.behind(op) + 2),
            "reach": max((self.levels(a) - self.levels(op) for a in after), default=0) / 10,
            "after_last": float(op in last),
            "beside_last": float(bool(after & last)),
            "done": step / len(self.graph.ops),
            "choices": math.log(len(ready)),
            "use": self.use / self.floor,
            "peak": self.known_peak() / self.floor,
        }
