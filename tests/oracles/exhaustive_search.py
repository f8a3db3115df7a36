"""The least cost of a tiny graph, from BUILD_NOTES section 3 alone: every placement, every order.

Orders are walked step by step, transfers included; those that have run the same steps (and, for
makespan, given the same times) go on as one, since what follows is the same. Shares no code with
``regal_jax``; steps are those of ``schedule_cost``.
"""

import itertools
from collections.abc import Sequence

from tests.oracles.schedule_cost import PlainGraph, Step, all_steps, is_ready, needed_on

UNLIMITED = float("inf")


def least_peak_memory(
    graph: PlainGraph, num_devices: int, capacities: Sequence[float] | None = None
) -> float:
    """Bytes of the fullest device at best; infinite if nothing fits the capacities."""
    room = [UNLIMITED] * num_devices if capacities is None else list(capacities)
    return min(
        _least_peak(graph, placement, room)
        for placement in itertools.product(range(num_devices), repeat=len(graph.ops))
    )


def least_makespan(
    graph: PlainGraph,
    num_devices: int,
    capacities: Sequence[float] | None = None,
    *,
    latency: float = 0.0,
    per_byte: float = 0.0,
) -> float:
    """us at best; infinite if nothing fits the capacities."""
    room = [UNLIMITED] * num_devices if capacities is None else list(capacities)
    return min(
        _least_end(graph, placement, room, latency, per_byte)
        for placement in itertools.product(range(num_devices), repeat=len(graph.ops))
    )


def _least_peak(graph: PlainGraph, placement: tuple[int, ...], room: list[float]) -> float:
    """The least peak over orders: the least that leads to each set of steps, set by set."""
    steps = all_steps(graph, placement)
    start = use_after(graph, placement, frozenset(), len(room))
    level = {frozenset(): max(start)} if _fits(start, room) else {}
    for _ in steps:
        following: dict[frozenset, float] = {}
        for done, peak in level.items():
            for step in _ready(graph, placement, steps, done):
                use = use_during(graph, placement, done, step, len(room))
                if _fits(use, room):
                    new = done | {step}
                    following[new] = min(following.get(new, UNLIMITED), max(peak, *use))
        level = following
    return min(level.values(), default=UNLIMITED)


def _least_end(
    graph: PlainGraph,
    placement: tuple[int, ...],
    room: list[float],
    latency: float,
    per_byte: float,
) -> float:
    """The least makespan over orders; finish times belong to the state."""
    steps = all_steps(graph, placement)
    start = use_after(graph, placement, frozenset(), len(room))
    unstarted = tuple(0.0 for _ in graph.ops)
    level = {(frozenset(), unstarted)} if _fits(start, room) else set()
    for _ in steps:
        following = set()
        for done, finish in level:
            for step in _ready(graph, placement, steps, done):
                if _fits(use_during(graph, placement, done, step, len(room)), room):
                    times = _finished(graph, placement, done, finish, step, latency, per_byte)
                    following.add((done | {step}, times))
        level = following
    return min((max(finish, default=0.0) for _, finish in level), default=UNLIMITED)


def _finished(graph, placement, done, finish, step: Step, latency: float, per_byte: float):
    """The finish times once a step has run: it starts as soon as its device and inputs allow."""
    if step[0] == "transfer":
        return finish
    op = step[1]
    ready = [finish[other] for kind, other, *_ in done if _runs_on(placement, kind, other, op)]
    for t in graph.inputs(op):
        producer = graph.producer[t]
        if producer >= 0:
            crosses = placement[producer] != placement[op]
            ready.append(
                finish[producer] + (latency + graph.size[t] * per_byte if crosses else 0.0)
            )
    end = max(ready, default=0.0) + graph.duration[op]
    return (*finish[:op], end, *finish[op + 1 :])


def _runs_on(placement, kind: str, other: int, op: int) -> bool:
    return kind == "op" and placement[other] == placement[op]


def _ready(graph: PlainGraph, placement, steps: set[Step], done: frozenset) -> list[Step]:
    return [s for s in steps - done if is_ready(graph, placement, set(done), s)]


def _fits(use: list[int], room: list[float]) -> bool:
    return all(amount <= most for amount, most in zip(use, room, strict=True))


def use_after(graph: PlainGraph, placement, done: frozenset, num_devices: int) -> list[int]:
    """Bytes on each device between steps."""
    use = [0] * num_devices
    for t, device in _in_memory(graph, placement, done):
        use[device] += graph.size[t]
    return use


def use_during(
    graph: PlainGraph, placement, done: frozenset, step: Step, num_devices: int
) -> list[int]:
    """Bytes on each device while a step runs: what it makes is there, nothing is freed yet."""
    use = use_after(graph, placement, done, num_devices)
    if step[0] == "transfer":
        use[step[2]] += graph.size[step[1]]
    else:
        made = sum(graph.size[t] for t in graph.outputs(step[1]))
        use[placement[step[1]]] += made + graph.workspace[step[1]]
    return use


def _in_memory(graph: PlainGraph, placement, done: frozenset) -> list[tuple[int, int]]:
    """(tensor, device) of every copy in memory between steps."""
    return [
        (t, device)
        for t in graph.tensors
        for device in {*needed_on(graph, placement, t), *_home(graph, placement, t)}
        if _is_kept(graph, placement, done, t, device)
    ]


def _home(graph: PlainGraph, placement, t: int) -> list[int]:
    return [placement[graph.producer[t]]] if graph.producer[t] >= 0 else []


def _is_kept(graph: PlainGraph, placement, done: frozenset, t: int, device: int) -> bool:
    """Whether a copy has been made and is persistent at home or still to be read there."""
    home = _home(graph, placement, t)
    maker = ("op", graph.producer[t]) if home == [device] else ("transfer", t, device)
    made = not home or maker in done
    readers = [("op", op) for op in graph.consumers[t] if placement[op] == device]
    if home == [device]:
        away = needed_on(graph, placement, t) - {device}
        readers += [("transfer", t, other) for other in away]
    stays = graph.persistent[t] and (not home or home == [device])
    return made and (stays or any(reader not in done for reader in readers))
