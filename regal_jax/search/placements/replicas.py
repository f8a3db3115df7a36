"""Replicas in a graph: equal parts that run side by side, as microbatches or towers do, found from
the graph alone; and placements that keep each of them on one device.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from regal_jax.graphs import annotations
from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows
from regal_jax.native.compilation import jit_with_arrays

LEAST_SHARE = 0.25
"""Replicas are at least this share of the graph's duration: a few ops look alike by chance."""
LEAST_OPS = 5
"""Replicas have at least so many ops."""
MOST_COUNTS = 4
"""So many numbers of replicas are tried: those that many ops suit best."""


class _Neighbours(NamedTuple):
    """Rows of the distinct ops that each op reads, and of those that read it."""

    before: RaggedRows
    after: RaggedRows


def find_replicas(graph: ComputationGraph) -> np.ndarray:
    """int32[O]: the replica of each op, 0..k-1 by their first ops, or -1 for what all share.

    Replicas are found in three steps, for several k; the one is taken by which most of the graph's
    duration (or ops, if durations are 0) is in replicas.

    1. Ops are coloured by what they are and by all that leads to them (``_colours``), not by what
       follows: replicas may join in the end, as when gradients are accumulated. A colour that k ops
       have is one op of each replica.
    2. Following tensors from op to op, colours are aligned (``_aligned``): two ops are in one
       replica if one reads the other. A colour for which that is no bijection is left out. Parts of
       replicas that no such tensor joins go together in program order.
    3. Other ops follow their neighbours, if these are all in one replica (``_spread``).

    Neither names nor roles are needed, but kinds, sizes and durations are looked at. All are -1
    where there is nothing to be found.
    """
    best = np.full(graph.num_ops, -1, np.int32)
    weight = graph.duration if np.any(graph.duration > 0) else np.ones(graph.num_ops)
    most, neighbours = LEAST_SHARE * float(weight.sum()), _neighbours(graph)
    for colour in _colourings(graph):
        for count in _likely_counts(colour):
            label = _labels(graph, colour, count, neighbours)
            if (found := _alike(label, count, weight)) > most:
                best, most = label, found
    return _numbered(best)


def replicas_apart(graph: ComputationGraph, weight: np.ndarray, num_devices: int) -> np.ndarray:
    """int32[O]: replica r of k on device r * D // k, and each shared op close to its inputs.

    A shared op goes to the device with most bytes of its produced inputs, the lowest on ties. So
    gradients are accumulated where the first replica makes them, and later replicas never wait for
    earlier ones. An op that doesn't join replicas, as updates of parameters don't, goes to the
    device of least ``weight`` (float64[O]) if nobody makes its inputs, or if it would bring the
    device with most of them beyond its share of all weight. Without replicas all ops are shared.
    """
    replica = find_replicas(graph)
    count, own = max(int(replica.max(initial=-1)) + 1, 1), replica >= 0
    placement = np.where(own, replica * num_devices // count, -1).astype(np.int32)
    load = np.bincount(placement[own], weight[own], num_devices).astype(float)
    share = float(np.sum(weight)) / num_devices
    for op in graph.topological_order[~own[graph.topological_order]].tolist():
        read = graph.inputs.row(op)
        read = read[graph.producer[read] >= 0]
        maker = graph.producer[read]
        device = int(np.bincount(placement[maker], graph.size[read], num_devices).argmax())
        joins = len(set(replica[maker].tolist()) - {-1}) > 1
        if not joins and (len(read) == 0 or load[device] + weight[op] > share):
            device = int(load.argmin())
        placement[op] = device
        load[device] += weight[op]
    return placement


def _neighbours(graph: ComputationGraph) -> _Neighbours:
    one, other = graph.op_pairs.T
    return _Neighbours(
        ragged_rows(other, one, graph.num_ops), ragged_rows(one, other, graph.num_ops)
    )


def _colourings(graph: ComputationGraph) -> Iterator[np.ndarray]:
    """Colours of ops, int64[O]: with the tensors that replicas seem to share told apart, and not.

    A parameter is such a tensor if several ops read it that look alike. That keeps layers apart,
    each of which reads its own parameters.
    """
    identity = np.zeros(graph.num_tensors, np.int64)
    colour = _colours(graph, identity)
    given = graph.producer < 0
    if np.any(given & graph.persistent):
        given = annotations.parameters(graph)
    tensor, reader = graph.consumers.row_of_value(), graph.consumers.values
    pairs = np.stack([tensor[given[tensor]], colour[reader[given[tensor]]]], axis=1)
    distinct, readers = np.unique(pairs, axis=0, return_counts=True)
    shared = distinct[readers > 1, 0]
    identity[shared] = 1 + shared
    yield _colours(graph, identity)
    yield colour


def _colours(graph: ComputationGraph, identity: np.ndarray) -> np.ndarray:
    """int64[O]: equal for ops of equal kind and costs that read and make look-alike tensors.

    Look-alike: of the same size, by producers of the same colour; or without, of the same identity.
    Costs are rounded to steps of a fifth (``_magnitude``), since parts of an op may differ by a few
    bytes. Tensors of size 0 don't count: the order in which replicas write the same state in place
    is made of those.
    """
    costs = np.stack([_magnitude(graph.duration * 1000), _magnitude(graph.workspace)], axis=1)
    kinds = graph.op_kinds or ("",) * graph.num_ops
    looks = [*zip(_magnitude(graph.size).tolist(), identity.tolist(), strict=True)]
    inputs, outputs = _real(graph, graph.inputs), _real(graph, graph.outputs)
    numbers: dict[tuple, int] = {}
    colour, producer = [-1] * (graph.num_ops + 1), graph.producer.tolist()  # the last: no producer
    for op in graph.topological_order.tolist():
        read = sorted((colour[producer[t]], *looks[t]) for t in inputs[op])
        made = sorted(looks[t] for t in outputs[op])
        look = (kinds[op], *costs[op].tolist(), tuple(read), tuple(made))
        colour[op] = numbers.setdefault(look, len(numbers))
    return np.array(colour[:-1], np.int64)


def _magnitude(amount: np.ndarray) -> np.ndarray:
    """int64[N]: equal for about equal amounts, in steps of 2 ** (1 / 4)."""
    return np.rint(4 * np.log2(1 + np.asarray(amount, np.float64) / 16)).astype(np.int64)


def _real(graph: ComputationGraph, rows: RaggedRows) -> list[list[int]]:
    """The tensors of each row that have a size."""
    kept = graph.size[rows.values] > 0
    real = ragged_rows(rows.row_of_value()[kept], rows.values[kept], graph.num_ops)
    return [real.row(op).tolist() for op in range(graph.num_ops)]


def _likely_counts(colour: np.ndarray) -> list[int]:
    """Numbers of replicas, by how many ops have a colour that so many ops share."""
    ops_of_colour = np.bincount(colour)
    ops = np.bincount(ops_of_colour, ops_of_colour)
    ops[:2] = 0
    return [int(k) for k in np.argsort(-ops, kind="stable")[:MOST_COUNTS] if ops[k] > 0]


def _labels(
    graph: ComputationGraph, colour: np.ndarray, count: int, neighbours: _Neighbours
) -> np.ndarray:
    """int32[O]: replicas 0..count-1, or -1. Parts that no tensor joins are taken by their size."""
    label, part = _aligned(graph, colour, count)
    ops_of_part = np.bincount(part[part >= 0])
    result = np.full(graph.num_ops, -1, np.int32)
    for which in np.argsort(-ops_of_part, kind="stable").tolist():
        own = part == which
        if np.all(result[own] < 0):
            result[own] = label[own]
            _spread(graph.topological_order, neighbours, result)
        if ops_of_part[which] < LEAST_OPS * count:
            break
    return result


def _alike(label: np.ndarray, count: int, weight: np.ndarray) -> float:
    """The weight that replicas have alike: ``count`` times the least; 0 if one has too few ops."""
    own = label >= 0
    if np.bincount(label[own], minlength=count).min() < LEAST_OPS:
        return 0.0
    return float(count * np.bincount(label[own], weight[own], count).min())


def _aligned(
    graph: ComputationGraph, colour: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """(int32[O] replica, int32[O] part): ops of one part are in one replica if labelled the same.

    -1 for ops whose colour isn't aligned. A colour that reads nothing aligned starts a part, with
    replicas in the order of op indices; one that reads several parts makes them one.
    """
    label, part = np.full(graph.num_ops, -1, np.int32), np.full(graph.num_ops, -1, np.int32)
    edges = graph.edges[graph.size[graph.edges[:, 1]] > 0]
    before = ragged_rows(edges[:, 2], edges[:, 0], graph.num_ops)
    members: list[list[np.ndarray]] = []
    for ops in _ops_by_colour(graph, colour, count):
        seen = _seen(before, ops, label, part)
        if any(sorted(labels) != list(range(count)) for labels in seen.values()):
            continue
        if not seen:
            seen = {len(members): list(range(count))}
            members.append([])
        main = max(seen, key=lambda which: len(members[which]))
        label[ops], part[ops] = seen[main], main
        members[main].append(ops)
        for other in seen.keys() - {main}:
            renamed = np.array(seen[main], np.int32)[np.argsort(seen[other])]
            moved = np.concatenate(members[other])
            label[moved], part[moved] = renamed[label[moved]], main
            members[main] += members[other]
    return label, part


def _ops_by_colour(graph: ComputationGraph, colour: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """int32[count]: the ops of each colour that ``count`` ops have, after all that they read."""
    by_colour = ragged_rows(colour, np.arange(graph.num_ops), int(colour.max(initial=-1)) + 1)
    in_order = colour[graph.topological_order]
    colours, first = np.unique(in_order, return_index=True)
    for which in colours[np.argsort(first)].tolist():
        if len(ops := by_colour.row(which)) == count:
            yield ops


def _seen(
    before: RaggedRows, ops: np.ndarray, label: np.ndarray, part: np.ndarray
) -> dict[int, list[int]]:
    """For each part that the ops read: the replica that each op reads, -1 for none, -2 for many."""
    seen: dict[int, list[int]] = {}
    for place, op in enumerate(ops.tolist()):
        for other in before.row(op).tolist():
            if label[other] >= 0:
                labels = seen.setdefault(int(part[other]), [-1] * len(ops))
                same = labels[place] in (-1, label[other])
                labels[place] = int(label[other]) if same else -2
    return seen


_NONE, _MANY = -1, -2
"""In place of a replica: no neighbour is in one, or they are in several."""


@jit_with_arrays
def _spread(order, neighbours, label):
    """Labels ops whose neighbours are all in one replica, until nothing changes.

    An op takes the label of all that it reads; or of all that reads it, unless it reads others'.
    """
    changed = True
    while changed:
        changed = False
        for op in order:
            if label[op] < 0:
                label[op] = max(_common(neighbours.before, op, label, True), -1)
                changed |= label[op] >= 0
        for op in order[::-1]:
            if label[op] < 0:
                common = _common(neighbours.after, op, label, True)
                read = _common(neighbours.before, op, label, False)
                if common >= 0 and read in (common, _NONE):
                    label[op], changed = common, True


@jit_with_arrays
def _common(rows, op, label, strict):
    """The one replica that an op's neighbours are in; _NONE or _MANY if there isn't exactly one.

    Neighbours without a replica count as a replica of their own if ``strict``.
    """
    common = _NONE
    for at in range(rows.offsets[op], rows.offsets[op + 1]):
        other = label[rows.values[at]]
        if other < 0 and strict:
            return _MANY
        if other >= 0:
            if common >= 0 and common != other:
                return _MANY
            common = other
    return common


def _numbered(label: np.ndarray) -> np.ndarray:
    """Replicas numbered by their first ops."""
    found, first = np.unique(label[label >= 0], return_index=True)
    number = np.full(len(found) + 1, -1, np.int32)  # -1 looks up the last
    number[found[np.argsort(first)]] = np.arange(len(found))
    return number[label]
