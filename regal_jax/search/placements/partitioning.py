"""Placements by graph partitioning: few bytes cross devices, and the devices carry equal weight.

Bytes are counted as transfers are: a tensor goes once to each device, other than its producer's,
that reads it. So a tensor is a hyperedge over its producer and its readers, and costs its size
times (devices it touches - 1), the "connectivity - 1" metric. Tensors that nobody produces are not
transferred: they are in the memory of every device that reads them. Where memory is what counts,
these copies can be counted the same way (``copies``).
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regal_jax.errors import MissingDependencyError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph, RaggedRows, ragged_rows
from regal_jax.native.compilation import jit_with_arrays
from regal_jax.search.orders import rules

TOLERANCE = 0.03
"""A device may carry so much more than an equal share of the weight."""
RANDOM_STARTS = 4
"""Bisections that start from a random op's surroundings, besides those that orders suggest."""
WEIGHT_UNITS = 2**40
"""Weights are whole numbers that add up to about this, so that sums of them are exact."""
INT32_UNITS = 2**29
"""The most that weights may add up to in 32-bit integers, with room to spare."""


def kernighan_lin(
    graph: ComputationGraph,
    weight: np.ndarray,
    num_devices: int,
    *,
    seed: int = 0,
    copies: bool = False,
) -> np.ndarray:
    """int32[O]: the graph partitioning (GP) of REGAL's GP+DFS baseline (section 4.2).

    ``weight`` is float64[O] >= 0, what to balance. With ``copies``, which is not in the paper, the
    bytes of producer-less tensors on more than one device count as well. More than two parts are
    made by bisection of bisections, each in proportion to the devices that its halves are for. The
    bytes that these cut add up to the whole's, since a cut tensor goes on as one tensor in either
    half.

    Balance: a device carries at most ``1 + TOLERANCE`` of an equal share; where ops are too heavy
    for that, a bisection may be as uneven as that which hands out the heaviest op first.

    The paper uses a "modified implementation of the Kernighan-Lin algorithm" that isn't published.
    This one differs from the textbook's (Kernighan and Lin 1970) in that it
    - moves one op at a time, the one with the most gain, and undoes all moves after the best state
      of a pass (Fiduccia and Mattheyses 1982), in place of swaps: a pass is then nearly linear;
    - balances weights instead of numbers of ops. An op may move to the half that is less full, or
      where it fits. States count by the weight in excess first, then by the bytes cut;
    - counts bytes by tensor, not by edge;
    - starts from several bisections and keeps the best result. The starts are program order, depth
      first, ops by the distance to the graph's ends, clusters joined by the largest tensors side by
      side, and ``RANDOM_STARTS`` times breadth first from a random op, each cut where balance
      allows it and the fewest bytes cross; and the heaviest op first to the emptier half.
    """
    levels = max(int(num_devices - 1).bit_length(), 1)
    tolerance = (1 + TOLERANCE) ** (1 / levels) - 1
    everything = _hypergraph(graph, weight, copies)
    orders = [*_starting_orders(graph, seed), _clusters_together(everything)]
    return _parts(everything, orders, num_devices, tolerance)


def metis(
    graph: ComputationGraph, weight: np.ndarray, num_devices: int, *, seed: int = 0
) -> np.ndarray:
    """int32[O]: METIS (Karypis and Kumar 1998), by recursive bisection up to 8 devices.

    METIS cuts edges: one an (op, op) pair, of the bytes of all tensors between the two. It counts a
    tensor once for each reader that is cut off, though a schedule sends it once a device. Bytes
    and ``weight`` are rounded to whole numbers of 29 bits in all. Balance: ``TOLERANCE``, which
    METIS doesn't guarantee. With no more ops than devices, each op has its own.

    Raises MissingDependencyError without the package pymetis.
    """
    try:
        import pymetis
    except ImportError:
        raise MissingDependencyError("pymetis", "solvers") from None
    if graph.num_ops <= num_devices:
        return np.arange(graph.num_ops, dtype=np.int32)
    if num_devices == 1:
        return np.zeros(graph.num_ops, np.int32)
    neighbours, volume = _neighbours(graph)
    load = _load(weight)
    _, part = pymetis.part_graph(
        num_devices,
        pymetis.CSRAdjacency(neighbours.offsets.tolist(), neighbours.values.tolist()),
        vweights=load.tolist(),
        eweights=volume.tolist(),
        options=pymetis.Options(seed=seed, ufactor=int(1000 * TOLERANCE)),
    )
    return np.array(part, np.int32)


def mtkahypar(
    graph: ComputationGraph, weight: np.ndarray, num_devices: int, *, seed: int = 0
) -> np.ndarray:
    """int32[O]: Mt-KaHyPar (Gottesbüren et al. 2024), its deterministic preset, on one thread.

    It minimises what ``kernighan_lin`` does, connectivity - 1, by multilevel partitioning into all
    parts. Bytes and ``weight`` are rounded as for ``metis``. Balance: ``TOLERANCE``, where ops
    aren't too heavy for that. With no more ops than devices, each op has its own. The seed changes
    little or nothing: presets that depend on it aren't repeatable, even on one thread.

    Raises MissingDependencyError without the package mtkahypar.
    """
    try:
        import mtkahypar as kahypar
    except ImportError:
        raise MissingDependencyError("mtkahypar", "solvers") from None
    if graph.num_ops <= num_devices:
        return np.arange(graph.num_ops, dtype=np.int32)
    if num_devices == 1:
        return np.zeros(graph.num_ops, np.int32)
    nets = _hypergraph(graph, weight, copies=False)
    kahypar.set_seed(seed % 2**31)
    initialised = _initialised_mtkahypar()
    context = initialised.context_from_preset(kahypar.PresetType.DETERMINISTIC_QUALITY)
    context.set_partitioning_parameters(num_devices, TOLERANCE, kahypar.Objective.KM1)
    context.logging = False
    hypergraph = initialised.create_hypergraph(
        context,
        graph.num_ops,
        len(nets.volume),
        [nets.pins.row(net).tolist() for net in range(len(nets.volume))],
        _load(weight).tolist(),
        np.maximum(_scaled(nets.volume, INT32_UNITS), 1).tolist(),
    )
    return np.array(hypergraph.partition(context).get_partition(), np.int32)


@functools.cache
def _initialised_mtkahypar() -> Any:
    """What makes contexts and hypergraphs, on one thread: a process initialises it once."""
    import mtkahypar

    return mtkahypar.initialize(1)


def _load(weight: np.ndarray) -> np.ndarray:
    """int64[O]: what 32-bit packages balance: the weight, or if it is all 0, the number of ops."""
    return _scaled(weight if np.any(weight > 0) else np.ones(len(weight)), INT32_UNITS)


def _neighbours(graph: ComputationGraph) -> tuple[RaggedRows, np.ndarray]:
    """The ops that share a tensor as producer and reader, both ways; and int64[N], their bytes."""
    producer, tensor, reader = graph.edges[graph.size[graph.edges[:, 1]] > 0].T
    code = producer.astype(np.int64) * graph.num_ops + reader
    pair, edge = np.unique(code, return_inverse=True)
    volume = np.bincount(edge, graph.size[tensor], len(pair))
    one, other = np.divmod(pair, graph.num_ops)
    ends = np.concatenate([one, other]), np.concatenate([other, one])
    order = np.argsort(ends[0], kind="stable")
    positive = np.maximum(_scaled(np.tile(volume, 2), INT32_UNITS), 1)
    return ragged_rows(*ends, graph.num_ops), positive[order]


def _scaled(weight: np.ndarray, units: int) -> np.ndarray:
    """int64[N]: whole numbers in proportion that add up to about ``units``, if not all are 0."""
    total = float(np.sum(weight))
    return np.rint(np.asarray(weight, np.float64) * (units / total if total else 0.0)).astype(
        np.int64
    )


class _Hypergraph(NamedTuple):
    """What is partitioned: V vertices, of a weight each, and N nets over them.

    Attributes:
      pins: rows of vertices, one a net; nets: rows of nets, one a vertex.
      volume: int64[N], bytes; weight: int64[V].
    """

    pins: RaggedRows
    nets: RaggedRows
    volume: np.ndarray
    weight: np.ndarray


def _hypergraph(graph: ComputationGraph, weight: np.ndarray, copies: bool) -> _Hypergraph:
    tensor, vertex = graph.consumers.row_of_value(), graph.consumers.values
    made = np.flatnonzero(graph.producer >= 0)
    tensor, vertex = np.append(tensor, made), np.append(vertex, graph.producer[made])
    counts = (graph.size > 0) & (copies | (graph.producer >= 0))
    read = np.bincount(tensor, minlength=graph.num_tensors) > 1
    kept = (counts & read)[tensor]
    joined, net = np.unique(tensor[kept], return_inverse=True)
    return _from_pins(net, vertex[kept], graph.size[joined], _scaled(weight, WEIGHT_UNITS))


def _from_pins(
    net: np.ndarray, vertex: np.ndarray, volume: np.ndarray, weight: np.ndarray
) -> _Hypergraph:
    pins, nets = ragged_rows(net, vertex, len(volume)), ragged_rows(vertex, net, len(weight))
    return _Hypergraph(pins, nets, volume, weight)


def _restricted(whole: _Hypergraph, chosen: np.ndarray) -> _Hypergraph:
    """The chosen vertices, bool[V], renumbered, with the nets that join any two of them."""
    kept = chosen[whole.pins.values]
    net, vertex = whole.pins.row_of_value()[kept], whole.pins.values[kept]
    many = np.bincount(net, minlength=len(whole.volume)) > 1
    kept = many[net]
    new_net, new_vertex = np.cumsum(many) - 1, np.cumsum(chosen) - 1
    return _from_pins(
        new_net[net[kept]], new_vertex[vertex[kept]], whole.volume[many], whole.weight[chosen]
    )


def _parts(
    whole: _Hypergraph, orders: Sequence[np.ndarray], num_parts: int, tolerance: float
) -> np.ndarray:
    """int32[V]: bisections, until each part is for one device. Orders are of all vertices."""
    part = np.zeros(len(whole.weight), np.int32)
    if num_parts == 1 or len(part) == 0:
        return part
    sizes = (num_parts // 2, num_parts - num_parts // 2)
    side = _bisection(whole, orders, sizes[0] / num_parts, tolerance)
    for which in (0, 1):
        chosen = side == which
        number = np.cumsum(chosen) - 1
        within = [number[order[chosen[order]]] for order in orders]
        inner = _parts(_restricted(whole, chosen), within, sizes[which], tolerance)
        part[chosen] = inner + which * sizes[0]
    return part


def _bisection(
    whole: _Hypergraph, orders: Sequence[np.ndarray], share: float, tolerance: float
) -> np.ndarray:
    """int8[V]: the best of the bisections that the starts lead to; side 0 gets the share."""
    shares, total = np.array([share, 1 - share]), int(whole.weight.sum())
    even = _heaviest_first(whole.weight, shares)
    loads = np.bincount(even, whole.weight, 2).astype(np.int64)
    limit = np.maximum(((1 + tolerance) * shares * total).astype(np.int64), loads)
    starts = [*(_cut_order(whole, order, limit) for order in orders), even]
    refined = [_refined(whole, start, limit) for start in starts]
    return min(refined, key=lambda result: result[0])[1]


def _heaviest_first(weight: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """int8[V]: heaviest first, each to the side that it fills least beyond its share."""
    side, load = np.zeros(len(weight), np.int8), [0.0, 0.0]
    heaviest = np.argsort(-weight, kind="stable")
    for vertex, amount in zip(heaviest.tolist(), weight[heaviest].tolist(), strict=True):
        full = [(held + amount) / share for held, share in zip(load, shares, strict=True)]
        side[vertex] = full[1] < full[0]
        load[side[vertex]] += amount
    return side


def _refined(
    whole: _Hypergraph, side: np.ndarray, limit: np.ndarray
) -> tuple[tuple[int, int], np.ndarray]:
    """((weight in excess, bytes cut), int8[V]): passes until one finds nothing better."""
    best = (np.iinfo(np.int64).max, np.iinfo(np.int64).max)
    while (found := _pass(whole, side, limit)) < best:
        best = found
    return best, side


def _clusters_together(whole: _Hypergraph) -> np.ndarray:
    """int64[V]: an order in which, for any volume, what nets of at least that volume join is side
    by side (the leaves of single-linkage clustering)."""
    cluster = [[vertex] for vertex in range(len(whole.weight))]
    for net in np.argsort(-whole.volume, kind="stable"):
        joined = {id(c): c for c in (cluster[v] for v in whole.pins.row(net).tolist())}
        largest, *others = sorted(joined.values(), key=len, reverse=True)
        for other in others:
            largest += other
            for vertex in other:
                cluster[vertex] = largest
    distinct = {id(c): c for c in cluster}
    return np.array([vertex for c in distinct.values() for vertex in c], np.int64)


def _starting_orders(graph: ComputationGraph, seed: int) -> list[np.ndarray]:
    """int64[O] each, as all orders here: kernels compile once."""
    rng = np.random.default_rng(seed)
    ends = graph.edges[:, 0], graph.edges[:, 2]
    neighbours = ragged_rows(np.concatenate(ends), np.concatenate(ends[::-1]), graph.num_ops)
    simple = graph.topological_order, rules.depth_first(graph), precedence.nearest_end_first(graph)
    return [
        *(order.astype(np.int64) for order in simple),
        *(_surroundings(neighbours, rng.permutation(graph.num_ops)) for _ in range(RANDOM_STARTS)),
    ]


@jit_with_arrays
def _surroundings(neighbours, starts):
    """int64[O]: breadth first from the first start, then from the next one not reached yet."""
    order = np.empty(len(starts), np.int64)
    seen = np.zeros(len(starts), np.bool_)
    done = reached = 0
    for start in starts:
        if not seen[start]:
            seen[start], order[reached] = True, start
            reached += 1
        while done < reached:
            for at in range(neighbours[0][order[done]], neighbours[0][order[done] + 1]):
                other = neighbours[1][at]
                if not seen[other]:
                    seen[other], order[reached] = True, other
                    reached += 1
            done += 1
    return order


@jit_with_arrays
def _cut_order(whole, order, limit):
    """int8[V]: an order cut where the weight in excess is least and then the fewest bytes cross."""
    before = np.zeros(len(whole.volume), np.int64)
    load = np.array([0, whole.weight.sum()])
    cut, best, best_end = 0, (_excess(load, limit), 0), 0
    for end in range(len(order)):
        vertex = order[end]
        load[0] += whole.weight[vertex]
        load[1] -= whole.weight[vertex]
        for at in range(whole.nets.offsets[vertex], whole.nets.offsets[vertex + 1]):
            net = whole.nets.values[at]
            before[net] += 1
            if before[net] == 1:
                cut += whole.volume[net]
            if before[net] == whole.pins.offsets[net + 1] - whole.pins.offsets[net]:
                cut -= whole.volume[net]
        state = (_excess(load, limit), cut)
        if state < best:
            best, best_end = state, end + 1
    side = np.ones(len(order), np.int8)
    side[order[:best_end]] = 0
    return side


@jit_with_arrays
def _pass(whole, side, limit):
    """Moves each vertex at most once, best gain first; ``side`` becomes the best state on the way.

    Returns its (weight in excess of the limits, bytes cut).
    """
    counts, load, gain = _state(whole, side)
    heaps = _heaps(side, gain)
    cut = _cut(whole, counts)
    best, best_moves, num_moves = (_excess(load, limit), cut), 0, 0
    moves = np.empty(len(side), np.int64)
    vertex = _choice(whole.weight, load, limit, gain, heaps)
    while vertex >= 0:
        cut -= gain[vertex]
        source = side[vertex]
        _remove(heaps, gain, source, vertex)
        load[source] -= whole.weight[vertex]
        load[1 - source] += whole.weight[vertex]
        _move(whole, side, counts, gain, heaps, vertex)
        moves[num_moves] = vertex
        num_moves += 1
        state = (_excess(load, limit), cut)
        if state < best:
            best, best_moves = state, num_moves
        vertex = _choice(whole.weight, load, limit, gain, heaps)
    for vertex in moves[best_moves:num_moves]:
        side[vertex] = 1 - side[vertex]
    return best


@jit_with_arrays
def _state(whole, side):
    """(int64[N, 2] pins of each net on each side, int64[2] loads, int64[V] bytes a move saves)."""
    counts = np.zeros((len(whole.volume), 2), np.int64)
    load, gain = np.zeros(2, np.int64), np.zeros(len(side), np.int64)
    for net in range(len(whole.volume)):
        for at in range(whole.pins.offsets[net], whole.pins.offsets[net + 1]):
            counts[net, side[whole.pins.values[at]]] += 1
    for vertex in range(len(side)):
        own = side[vertex]
        load[own] += whole.weight[vertex]
        for at in range(whole.nets.offsets[vertex], whole.nets.offsets[vertex + 1]):
            net = whole.nets.values[at]
            alone, whole_here = counts[net, own] == 1, counts[net, 1 - own] == 0
            gain[vertex] += whole.volume[net] * (np.int64(alone) - np.int64(whole_here))
    return counts, load, gain


@jit_with_arrays
def _cut(whole, counts):
    cut = 0
    for net in range(len(whole.volume)):
        if counts[net, 0] > 0 and counts[net, 1] > 0:
            cut += whole.volume[net]
    return cut


@jit_with_arrays
def _excess(load, limit):
    return max(load[0] - limit[0], 0) + max(load[1] - limit[1], 0)


@jit_with_arrays
def _choice(weight, load, limit, gain, heaps):
    """The vertex to move: best gain of those that may, from the fuller side on ties; -1 if none.

    Of the less full side, only the best vertex is looked at.
    """
    members, _, sizes = heaps
    full = 0 if load[0] * float(limit[1]) >= load[1] * float(limit[0]) else 1
    forth = members[full, 0] if sizes[full] > 0 else -1
    back = members[1 - full, 0] if sizes[1 - full] > 0 else -1
    if back >= 0 and load[full] + weight[back] > limit[full]:
        back = -1
    if forth < 0 or (back >= 0 and gain[back] > gain[forth]):
        return back
    return forth


@jit_with_arrays
def _move(whole, side, counts, gain, heaps, vertex):
    """Changes the vertex's side, and the gains of those that are left, net by net."""
    source = side[vertex]
    target = 1 - source
    for at in range(whole.nets.offsets[vertex], whole.nets.offsets[vertex + 1]):
        net = whole.nets.values[at]
        volume = whole.volume[net]
        if counts[net, target] == 0:
            _add_gain(whole.pins, side, gain, heaps, net, -1, volume)
        elif counts[net, target] == 1:
            _add_gain(whole.pins, side, gain, heaps, net, target, -volume)
        counts[net, source] -= 1
        counts[net, target] += 1
        if counts[net, source] == 0:
            _add_gain(whole.pins, side, gain, heaps, net, -1, -volume)
        elif counts[net, source] == 1:
            _add_gain(whole.pins, side, gain, heaps, net, source, volume)
    side[vertex] = target


@jit_with_arrays
def _add_gain(pins, side, gain, heaps, net, only, change):
    """Changes the gain of a net's vertices that may still move, on one side only (-1: on both)."""
    _, place, _ = heaps
    for at in range(pins.offsets[net], pins.offsets[net + 1]):
        vertex = pins.values[at]
        own = side[vertex]
        if place[vertex] >= 0 and (only < 0 or only == own):
            gain[vertex] += change
            _settle(heaps, gain, own, place[vertex])


@jit_with_arrays
def _heaps(side, gain):
    """(members int64[2, V], place int64[V] in its side's heap or -1, sizes int64[2]): max-heaps."""
    members = np.empty((2, len(side)), np.int64)
    place, sizes = np.full(len(side), -1), np.zeros(2, np.int64)
    heaps = (members, place, sizes)
    for vertex in range(len(side)):
        own = side[vertex]
        members[own, sizes[own]], place[vertex] = vertex, sizes[own]
        sizes[own] += 1
        _settle(heaps, gain, own, place[vertex])
    return heaps


@jit_with_arrays
def _remove(heaps, gain, own, vertex):
    members, place, sizes = heaps
    hole = place[vertex]
    sizes[own] -= 1
    last = members[own, sizes[own]]
    place[vertex] = -1
    if last != vertex:
        members[own, hole], place[last] = last, hole
        _settle(heaps, gain, own, hole)


@jit_with_arrays
def _settle(heaps, gain, own, at):
    """Moves the vertex at a place of a heap up or down to where its gain belongs."""
    members, place, sizes = heaps
    vertex = members[own, at]
    while at > 0 and gain[members[own, (at - 1) // 2]] < gain[vertex]:
        above = members[own, (at - 1) // 2]
        members[own, at], place[above] = above, at
        at = (at - 1) // 2
    while 2 * at + 1 < sizes[own]:
        child = 2 * at + 1
        if child + 1 < sizes[own] and gain[members[own, child + 1]] > gain[members[own, child]]:
            child += 1
        below = members[own, child]
        if gain[below] <= gain[vertex]:
            break
        members[own, at], place[below] = below, at
        at = child
    members[own, at], place[vertex] = vertex, at
