"""A step over k microbatches: replicas of a graph that share its parameters and its update."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs import annotations
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows
from regal_jax.graphs.importers import roofline
from regal_jax.graphs.rewrites.transforms import taken

ELEMENT_BYTES = 4
"""Gradients are taken to be float32."""


def microbatches(graph: ComputationGraph, num_replicas: int) -> ComputationGraph:
    """The graph of one microbatch, run for ``num_replicas`` of them.

    Everything is replicated but the parameters: persistent tensors without a producer that aren't
    of role "input". Replicas are independent, each with its own outputs. Without annotations that
    is all, and replica ``r`` runs op ``o`` as op ``r * O + o``. With them (see ``annotations``):

    - Ops of phase "update", and all that depend on them, run once, after the replicas. They read
      every replica's copy of what they read; what only they read and nobody makes isn't copied.
    - A tensor of role "gradient" is accumulated in place. Replica 0's is the accumulator. That of
      replica ``r`` isn't persistent; a new op, of kind and phase "accumulate", reads it and the
      accumulator, and makes the next version: a tensor of size 0, which the next one of these ops
      reads, and the update reads the last. It comes right after the gradient is made, and after
      all that reads the version before. Costs: an addition for each 4 bytes, three times the
      gradient's bytes, the duration of ``roofline.A100`` (``roofline.with_profile`` changes it).
    - A tensor of role "state" that replicas write in place (``annotations.in_place_writes``) is
      written and read replica after replica, by control tensors. Readers of other phases than the
      writers' aren't held to that: the backward pass gets running statistics it doesn't look at.

    Ops are numbered replica by replica, the update last, so a program order stays one. The tensors
    of replica 0, shared ones among them, keep their numbers; the others' follow, replica by
    replica, then versions and control tensors. Names of replicated ops get the suffix ``@r``.
    One replica is the graph itself. Raises OptionError for less than one.
    """
    if num_replicas < 1:
        raise OptionError(f"num_replicas is {num_replicas}, needs at least 1")
    if num_replicas == 1:
        return graph
    parts = _parts(graph)
    ops = _numbered_ops(graph, parts, num_replicas)
    tensors = _numbered_tensors(graph, parts, num_replicas)
    readings = [
        _kept_readings(graph, parts, ops, tensors),
        _accumulations(graph, parts, ops, tensors),
    ]
    before, after = _controls(graph, parts, ops)
    waiting, control = np.unique(before, return_inverse=True)
    readings.append((tensors.total + control, after))
    rows, consumers = (np.concatenate(column) for column in zip(*readings, strict=True))
    columns = _columns(graph, parts, ops, tensors, len(waiting))
    columns["producer"] = np.concatenate([_producers(graph, ops, tensors), waiting]).astype(
        np.int32
    )
    columns["consumers"] = ragged_rows(rows, consumers, tensors.total + len(waiting))
    return graph.replace(**columns)


class _Parts(NamedTuple):
    """What becomes of a graph's ops and tensors.

    Attributes:
      single_op: bool[O], runs once; single_tensor: bool[T], exists once.
      gradients: int[G], the tensors to accumulate.
      writes: int64[N, 2], (tensor, replicated op) in-place writes.
    """

    single_op: np.ndarray
    single_tensor: np.ndarray
    gradients: np.ndarray
    writes: np.ndarray


class _Ops(NamedTuple):
    """The ops of the result.

    Attributes:
      number: int[R, O], new number of each replica's op (the same in all rows if it runs once).
      accumulate: int[R - 1, G], the ops that add a gradient of replica 1, 2, ...
      old: int[O'], the op each new one is made from (accumulate: the gradient's producer).
      replica: int[O'], R for ops that run once.
    """

    number: np.ndarray
    accumulate: np.ndarray
    old: np.ndarray
    replica: np.ndarray


class _Tensors(NamedTuple):
    """The tensors of the result, control tensors left out.

    Attributes:
      number: int[R, T], each replica's copy (the same in all rows if there is one only).
      version: int[R - 1, G], what the accumulate ops make.
      old: int[T'], the tensor each new one is a copy of (versions: the gradient).
    """

    number: np.ndarray
    version: np.ndarray
    old: np.ndarray

    @property
    def total(self) -> int:
        return len(self.old)


Pairs = tuple[np.ndarray, np.ndarray]
"""Two int[N]: (tensor, its reader), or (op, an op that waits for it), new numbers."""


def _parts(graph: ComputationGraph) -> _Parts:
    single_op = _with_descendants(graph, annotations.in_phase(graph, "update"))
    made, op = graph.producer >= 0, graph.producer
    by_single = made & single_op[op] if graph.num_ops else made
    reader, tensor = graph.consumers.values, graph.consumers.row_of_value()
    read_by_many = np.bincount(tensor[~single_op[reader]], minlength=graph.num_tensors) > 0
    only_single = ~made & ~read_by_many & (graph.consumers.lengths() > 0)
    single = annotations.parameters(graph) | by_single | only_single
    gradients = annotations.has_role(graph, "gradient") & made & ~single
    writes = np.zeros((0, 2), np.int64)
    if gradients.any() or annotations.has_role(graph, "state").any():
        writes = annotations.in_place_writes(graph)
    return _Parts(single_op, single, np.flatnonzero(gradients), writes[~single_op[writes[:, 1]]])


def _with_descendants(graph: ComputationGraph, chosen: np.ndarray) -> np.ndarray:
    """bool[O]: the chosen ops and all that depend on them."""
    before, after = graph.edges[:, 0], graph.edges[:, 2]
    while np.any(chosen[before] & ~chosen[after]):
        chosen = chosen | (np.bincount(after[chosen[before]], minlength=graph.num_ops) > 0)
    return chosen


def _numbered_ops(graph: ComputationGraph, parts: _Parts, num_replicas: int) -> _Ops:
    many, single = np.flatnonzero(~parts.single_op), np.flatnonzero(parts.single_op)
    maker, added = graph.producer[parts.gradients], len(parts.gradients)
    groups = [  # (replica, old op, place in the program, how many replicas)
        (np.arange(num_replicas), many, many),
        (np.arange(1, num_replicas), maker, _last_written(graph, parts)),
        (np.array([num_replicas]), single, single),
    ]
    replica = np.concatenate([np.repeat(replicas, len(old)) for replicas, old, _ in groups])
    old = np.concatenate([np.tile(old, len(replicas)) for replicas, old, _ in groups])
    place = np.concatenate([np.tile(place, len(replicas)) for replicas, _, place in groups])
    is_added = np.repeat([0, 1, 0], [len(r) * len(o) for r, o, _ in groups])
    order = np.lexsort((is_added, place, replica))
    new = np.argsort(order)
    number = np.zeros((num_replicas, graph.num_ops), np.int64)
    number[:, many] = new[: num_replicas * len(many)].reshape(num_replicas, -1)
    number[:, single] = new[len(new) - len(single) :]
    accumulate = new[num_replicas * len(many) : len(new) - len(single)]
    return _Ops(number, accumulate.reshape(num_replicas - 1, added), old[order], replica[order])


def _last_written(graph: ComputationGraph, parts: _Parts) -> np.ndarray:
    """int[G]: the op that makes each gradient, or the last that writes it in place."""
    last = graph.producer.astype(np.int64)
    np.maximum.at(last, parts.writes[:, 0], parts.writes[:, 1])
    return last[parts.gradients]


def _numbered_tensors(graph: ComputationGraph, parts: _Parts, num_replicas: int) -> _Tensors:
    own, replica = ~parts.single_tensor, np.arange(num_replicas)[:, None]
    copies = graph.num_tensors + (replica - 1) * np.sum(own) + np.cumsum(own) - 1
    number = np.where(~own | (replica == 0), np.arange(graph.num_tensors), copies)
    num_versions = (num_replicas - 1) * len(parts.gradients)
    count = graph.num_tensors + (num_replicas - 1) * int(np.sum(own))
    version = count + np.arange(num_versions).reshape(num_replicas - 1, -1)
    old = np.concatenate(
        [
            np.arange(graph.num_tensors),
            np.tile(np.flatnonzero(own), num_replicas - 1),
            np.tile(parts.gradients, num_replicas - 1),
        ]
    )
    return _Tensors(number, version, old)


def _kept_readings(graph: ComputationGraph, parts: _Parts, ops: _Ops, tensors: _Tensors) -> Pairs:
    """The readings of the graph, replica by replica.

    An op that runs once reads every replica's copy of a tensor, but the accumulator alone.
    """
    tensor, reader = graph.consumers.row_of_value(), graph.consumers.values
    one_copy = parts.single_tensor.copy()
    one_copy[parts.gradients] = True
    first_only = parts.single_op[reader] & one_copy[tensor]
    kept = ~first_only | (np.arange(len(ops.number))[:, None] == 0)
    return tensors.number[:, tensor][kept], ops.number[:, reader][kept]


def _accumulations(graph: ComputationGraph, parts: _Parts, ops: _Ops, tensors: _Tensors) -> Pairs:
    """What accumulate ops read, and the last versions that ops which run once read."""
    of_gradient, reader = annotations.rows_at(graph.consumers, parts.gradients)
    late = parts.single_op[reader]
    accumulator = np.broadcast_to(parts.gradients, ops.accumulate.shape)
    pairs = [
        (tensors.number[1:, parts.gradients], ops.accumulate),
        (accumulator, ops.accumulate),
        (tensors.version[:-1], ops.accumulate[1:]),
        (tensors.version[-1][of_gradient[late]], ops.number[0, reader[late]]),
    ]
    rows, consumers = zip(*pairs, strict=True)
    return np.concatenate([r.ravel() for r in rows]), np.concatenate([c.ravel() for c in consumers])


def _controls(graph: ComputationGraph, parts: _Parts, ops: _Ops) -> Pairs:
    """(op, waiting op) pairs that no tensor implies, each once."""
    pairs = [*_gradient_controls(graph, parts, ops), *_state_controls(graph, parts, ops)]
    flat = [np.stack([before.ravel(), after.ravel()], axis=1) for before, after in pairs]
    distinct = np.unique(np.concatenate(flat), axis=0)
    return distinct[:, 0], distinct[:, 1]


def _gradient_controls(graph: ComputationGraph, parts: _Parts, ops: _Ops) -> list[Pairs]:
    """Replica 0's readers of the accumulator, and writers of other gradients, come first."""
    of_gradient, reader = annotations.rows_at(graph.consumers, parts.gradients)
    early = ~parts.single_op[reader]
    written = parts.writes[np.isin(parts.writes[:, 0], parts.gradients)]
    which = np.searchsorted(parts.gradients, written[:, 0])
    return [
        (ops.number[0, reader[early]], ops.accumulate[0, of_gradient[early]]),
        (ops.number[1:, written[:, 1]], ops.accumulate[:, which]),
    ]


def _state_controls(graph: ComputationGraph, parts: _Parts, ops: _Ops) -> list[Pairs]:
    """A replica's accesses to written state come after those of the replica before."""
    is_state = annotations.has_role(graph, "state")
    phase = graph.extra.get("ops", {}).get("phase") or [""] * graph.num_ops
    pairs = []
    written = parts.writes[is_state[parts.writes[:, 0]]]
    for state in np.unique(written[:, 0]):
        writers = written[written[:, 0] == state, 1]
        phases = {phase[op] for op in writers}
        users = [
            op
            for op in graph.consumers.row(state)
            if not parts.single_op[op] and phase[op] in phases
        ]
        user, writer = (grid.ravel() for grid in np.meshgrid(users, writers))
        pairs += [
            (ops.number[:-1, user], ops.number[1:, writer]),
            (ops.number[:-1, writer], ops.number[1:, user]),
        ]
    return pairs


def _producers(graph: ComputationGraph, ops: _Ops, tensors: _Tensors) -> np.ndarray:
    """int[T']: who makes each tensor."""
    made = graph.producer >= 0
    producer = np.full(tensors.total, -1)
    producer[tensors.number[:, made]] = ops.number[:, graph.producer[made]]
    producer[tensors.version] = ops.accumulate
    return producer


def _columns(
    graph: ComputationGraph, parts: _Parts, ops: _Ops, tensors: _Tensors, num_controls: int
) -> dict[str, Any]:
    """All columns but producers and consumers."""
    old_tensors = np.concatenate([tensors.old, np.zeros(num_controls, np.int64)])
    columns = taken(graph, ops.old, old_tensors)
    num_copies = tensors.total - tensors.version.size
    columns["size"][num_copies:] = 0
    columns["persistent"][num_copies:] = False
    columns["persistent"][tensors.number[1:, parts.gradients]] = False
    if "tensors" in graph.extra:
        columns["extra"]["tensors"] = _without_labels(
            columns["extra"]["tensors"], num_copies, len(old_tensors)
        )
    columns["op_names"] = _names(graph, parts, ops)
    if ops.accumulate.size:
        _set_accumulate_costs(columns, graph.size[parts.gradients], ops.accumulate)
    return columns


def _set_accumulate_costs(
    columns: dict[str, Any], size: np.ndarray, accumulate: np.ndarray
) -> None:
    """Overwrites what the accumulate ops, int[R - 1, G], took from the gradients' producers."""
    flops, moved = size / ELEMENT_BYTES, 3 * size
    costs = {
        "duration": roofline.durations_us(flops, moved),
        "workspace": 0,
        "flops": flops,
        "bytes_accessed": moved,
    }
    for column, cost in costs.items():
        if column in columns:
            columns[column][accumulate] = cost
    added = set(accumulate.ravel().tolist())
    columns["op_kinds"] = tuple(_relabelled(columns["op_kinds"], added))
    table = columns["extra"].get("ops", {})
    if isinstance(table.get("phase"), list):
        table["phase"] = _relabelled(table["phase"], added)


def _relabelled(labels: Sequence[str], accumulate: set[int]) -> list[str]:
    return ["accumulate" if op in accumulate else label for op, label in enumerate(labels)]


def _names(graph: ComputationGraph, parts: _Parts, ops: _Ops) -> tuple[str, ...]:
    if not graph.op_names:
        return ()
    names = [graph.op_names[op] for op in ops.old.tolist()]
    for column, gradient in enumerate(parts.gradients.tolist()):
        for op in ops.accumulate[:, column].tolist():
            names[op] = f"accumulate/{graph.tensor_label(gradient)}"
    replica = ops.replica.tolist()
    return tuple(
        name if r == len(ops.number) else f"{name}@{r}"
        for name, r in zip(names, replica, strict=True)
    )


def _without_labels(table: dict[str, Any], first: int, count: int) -> dict[str, Any]:
    """Strings (names, roles) of the tensors from ``first`` to ``count`` become empty."""
    return {
        key: [*values[:first], *("" if isinstance(v, str) else v for v in values[first:])]
        if isinstance(values, list) and len(values) == count
        else values
        for key, values in table.items()
    }
