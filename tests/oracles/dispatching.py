"""Dispatching by definition: what a pair of an op and a device looks like, over sets of tensors."""

import numpy as np

from regal_jax.environments.dispatching.kernel import FEW, NAMES
from regal_jax.environments.placement.problem import PlacementProblem


class Dispatcher:
    """A graph that is scheduled pair by pair; bytes and us are over the given scales."""

    def __init__(self, problem: PlacementProblem, bytes_scale: float, us_scale: float):
        self.graph, self.platform = problem.graph, problem.platform
        self.scales = bytes_scale, us_scale
        devices = range(problem.num_devices)
        self.held: list[set] = [set() for _ in devices]
        self.peak, self.free = [0.0 for _ in devices], [0.0 for _ in devices]
        self.device: dict[int, int] = {}
        self.finish: dict[int, float] = {}
        self.since = {op: 0.0 for op in range(self.graph.num_ops) if not self.before(op)}
        ops = range(self.graph.num_ops)
        self.place = {int(op): at for at, op in enumerate(self.graph.topological_order)}
        self.from_source = dict.fromkeys(ops, 0)
        self.to_sink = dict.fromkeys(ops, 0)
        self.tail = dict.fromkeys(ops, 0.0)
        for op in sorted(ops, key=self.place.get):
            for reader in self.after(op):
                self.from_source[reader] = max(self.from_source[reader], self.from_source[op] + 1)
        for op in sorted(ops, key=self.place.get, reverse=True):
            for reader in self.after(op):
                self.to_sink[op] = max(self.to_sink[op], self.to_sink[reader] + 1)
                path = self.tail[reader] + self.graph.duration[reader]
                self.tail[op] = max(self.tail[op], path)
        nearest = {op: min(self.from_source[op], self.to_sink[op]) for op in ops}
        self.fold = {op: at for at, op in enumerate(sorted(ops, key=nearest.get))}

    def before(self, op: int) -> set[int]:
        made = self.graph.producer[self.graph.inputs.row(op)]
        return {int(one) for one in made if one >= 0}

    def after(self, op: int) -> set[int]:
        return {int(one) for tensor in self.graph.outputs.row(op) for one in self.readers(tensor)}

    def readers(self, tensor: int) -> list[int]:
        return [int(op) for op in self.graph.consumers.row(tensor)]

    def chain(self, op: int) -> list[int]:
        """The op, and those that it leads to alone."""
        found = [op]
        while len(after := self.after(found[-1])) == 1 and self.before(min(after)) == {found[-1]}:
            found.append(min(after))
        return found

    def valley_and_hill(self, op: int) -> tuple[float, float]:
        """By what use grows to the chain's lowest point (the first one), what it needs until it."""
        graph, use, uses, needs = self.graph, 0.0, [], []
        for one in self.chain(op):
            inputs, outputs = graph.inputs.row(one).tolist(), graph.outputs.row(one).tolist()
            needs.append(use + self.bytes(outputs) + float(graph.workspace[one]))
            few = [t for t in inputs if len(self.readers(t)) == 1]
            few += [t for t in outputs if not self.readers(t)]
            use += self.bytes(outputs) - self.bytes(t for t in few if not graph.persistent[t])
            uses.append(use)
        lowest = int(np.argmin(uses))
        return uses[lowest], max(needs[: lowest + 1])

    def left(self, tensor: int) -> int:
        return sum(op not in self.device for op in self.readers(tensor))

    def bytes(self, tensors) -> float:
        return float(sum(self.graph.size[tensor] for tensor in tensors))

    def start(self, op: int, device: int) -> float:
        times = [self.free[device]]
        for tensor in self.graph.inputs.row(op):
            maker = int(self.graph.producer[tensor])
            if maker >= 0:
                away = self.device[maker] != device
                price = self.platform.latency + self.platform.per_byte * self.graph.size[tensor]
                times.append(self.finish[maker] + price * away)
        return max(times)

    def features(self, op: int, device: int) -> dict[str, float]:
        graph, (bytes_scale, us_scale) = self.graph, self.scales
        last, longest = max(graph.num_ops - 1, 1), max(1, *self.to_sink.values())
        inputs, outputs = set(graph.inputs.row(op).tolist()), set(graph.outputs.row(op).tolist())
        use = [self.bytes(tensors) for tensors in self.held]
        absent = inputs - self.held[device]
        anywhere = set().union(*self.held)
        copied = {t for t in absent if graph.producer[t] >= 0 or t in anywhere}
        dying = {t for t in inputs if self.left(t) == 1 and not graph.persistent[t]}
        freed = sum(self.bytes(tensors & dying) for tensors in self.held)
        need = use[device] + self.bytes(outputs | absent) + float(graph.workspace[op])
        growth = self.bytes(outputs | copied) - freed
        centre = (device + 0.5) / len(use)
        start, (valley, hill) = self.start(op, device), self.valley_and_hill(op)
        end = start + graph.duration[op] + self.tail[op]
        of_bytes = {
            "need": need,
            "rise": max(0.0, need - self.peak[device]),
            "over": max(0.0, need - max(self.peak)),
            "beyond": max(0.0, need - float(self.platform.capacities()[device])),
            "copies": self.bytes(copied),
            "kept": self.bytes(t for t in copied if graph.persistent[t]),
            "first": self.bytes(absent - copied),
            "freed": freed,
            "growth": growth,
            "sooner": sum(self.bytes([t]) / self.left(t) for t in inputs if self.left(t) <= FEW),
            "above": use[device] - np.mean(use),
            "valley": valley,
            "hill": hill,
        }
        of_us = {
            "start": start,
            "idle": start - self.free[device],
            "work": float(graph.duration[op]),
            "tail": self.tail[op],
        }
        total = self.bytes(inputs)
        return {
            **{name: value / bytes_scale for name, value in of_bytes.items()},
            **{name: value / us_scale for name, value in of_us.items()},
            "late": max(0.0, end / us_scale - 1.0),
            "quiet": float(need <= max(self.peak) and growth <= 0.0),
            "at_home": (total - self.bytes(absent)) / total if total else 0.0,
            "place": self.place[op] / last,
            "since": self.since[op],
            "levels": self.to_sink[op] / longest,
            "pipeline": abs(self.place[op] / last - centre),
            "fold": abs(self.fold[op] / last - centre),
        }

    def run(self, op: int, device: int) -> None:
        graph = self.graph
        self.finish[op] = self.free[device] = self.start(op, device) + float(graph.duration[op])
        self.device[op] = device
        touched = {*graph.inputs.row(op).tolist(), *graph.outputs.row(op).tolist()}
        self.held[device] |= touched
        use = self.bytes(self.held[device]) + float(graph.workspace[op])
        self.peak[device] = max(self.peak[device], use)
        done = {t for t in touched if not self.left(t) and not graph.persistent[t]}
        self.held = [tensors - done for tensors in self.held]
        for reader in self.after(op):
            if self.before(reader) <= set(self.device):
                self.since.setdefault(reader, len(self.device) / graph.num_ops)

    def ready(self) -> list[int]:
        return sorted(op for op in self.since if op not in self.device)


def dispatched(problem: PlacementProblem, scales, weights) -> tuple[list[int], list[int], float]:
    """(order, placement, margin): by weights float[FEATURES], and how close any decision was."""
    dispatcher, order = Dispatcher(problem, *scales), []
    margin = np.inf
    for _ in range(problem.graph.num_ops):
        scores = {}
        for op in dispatcher.ready():
            for device in range(problem.num_devices):
                row = dispatcher.features(op, device)
                score = sum(w * row[name] for w, name in zip(weights, NAMES, strict=True))
                scores[score, dispatcher.place[op], device] = op
        best, *others = sorted(scores)
        margin = min([margin, *(abs(score - best[0]) for score, *_ in others if score != best[0])])
        order.append(scores[best])
        dispatcher.run(scores[best], best[2])
    return order, [dispatcher.device[op] for op in range(len(order))], margin
