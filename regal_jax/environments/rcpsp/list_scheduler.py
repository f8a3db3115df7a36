"""Parallel schedule generation of machine problems in pure JAX, one graph and one chromosome.

The reference semantics of ``MachineProblem`` (generation "parallel") for any device; map it over
chromosomes and graphs with ``jax.vmap``.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments import bit_order
from regal_jax.environments.lockstep import EDGES_AT_ONCE, anywhere
from regal_jax.environments.tournament import (
    Tournament,
    block_width,
    first_least,
    first_within,
    lowered,
    replaced,
    tournament,
)
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph


@chex.dataclass(frozen=True)
class MachineArrays:
    """A graph with capacities, padded to O ops, E pairs of ops and M machine types.

    Attributes:
      duration: float[O] (float64 with 64-bit types enabled, else float32), 0 for padding.
      demand: int[O], units (int64 or int32). capacity: int[M], 0 for padding.
      machine: int32[O], the type.
      num_dependencies: int32[O], ops that the op waits for; 1 for padding, which never runs.
      successor_offsets: int32[O + 1] into successors: int32[E], the ops that wait for an op.
    """

    duration: chex.Array
    demand: chex.Array
    capacity: chex.Array
    machine: chex.Array
    num_dependencies: chex.Array
    successor_offsets: chex.Array
    successors: chex.Array


def machine_arrays(
    graph: ComputationGraph,
    num_ops: int | None = None,
    num_edges: int | None = None,
    num_types: int | None = None,
) -> MachineArrays:
    """A graph as padded arrays (numpy), by default without padding.

    Args:
      num_ops, num_edges, num_types: O, E (distinct pairs of ops), M.

    Raises:
      OptionError: for a graph without capacity, one that is larger than this, or capacities beyond
        the integers that JAX has enabled.
    """
    if graph.capacity is None:
        raise OptionError(f"graph {graph.name!r} has no capacity, the units of each machine type")
    pairs = graph.op_pairs
    sizes = (graph.num_ops, len(pairs), len(graph.capacity))
    wanted = (num_ops, num_edges, num_types)
    shape = tuple(w if w is not None else max(s, 1) for s, w in zip(sizes, wanted, strict=True))
    for name, size, room in zip(("ops", "edges", "machine types"), sizes, shape, strict=True):
        if size > room:
            raise OptionError(f"graph {graph.name!r} has {size} {name}, more than {room}")
    integer: type = np.int64 if _wide() else np.int32
    largest = max(graph.capacity.max(initial=0), graph.demand.max(initial=0))
    if largest >= np.iinfo(integer).max:
        raise OptionError(
            f"graph {graph.name!r} has a capacity or demand of 2**31 or more:"
            " enable 64-bit types, jax.config.update('jax_enable_x64', True)"
        )
    successors = np.bincount(pairs[:, 0], minlength=shape[0])
    dependencies = np.bincount(pairs[:, 1], minlength=graph.num_ops)
    return MachineArrays(
        duration=_padded(graph.duration, shape[0], np.float64 if _wide() else np.float32),
        demand=_padded(graph.demand, shape[0], integer),
        capacity=_padded(graph.capacity, shape[2], integer),
        machine=_padded(graph.machine_type, shape[0], np.int32),
        num_dependencies=_padded(dependencies, shape[0], np.int32, 1),
        successor_offsets=np.concatenate([[0], np.cumsum(successors)]).astype(np.int32),
        successors=_padded(pairs[:, 1], shape[1], np.int32),
    )


class _Queues(NamedTuple):
    """Places of ops, S of them, by machine type, then priority; a block is of one type.

    Attributes:
      place: int32[O], of each op.
      op: int32[S], of each place; 0 where there is none.
      type: int32[blocks].
    """

    place: chex.Array
    op: chex.Array
    type: chex.Array


class _State(NamedTuple):
    """Where the list scheduler is.

    Attributes:
      time: float[], the decision time.
      is_ending: bool[], whether ops that end then may be left; else ops start.
      free: int[M], units.
      ready: demands of ops that are released and not started, in their places.
      ends: when the ops that run end; infinite for others.
      waiting: int32[O], predecessors that have not ended.
      edge, past: int32[], edges of the op that ended last, yet to walk.
      is_busy: bool[], whether anything is left to do.
    """

    time: chex.Array
    is_ending: chex.Array
    free: chex.Array
    ready: Tournament
    ends: Tournament
    waiting: chex.Array
    edge: chex.Array
    past: chex.Array
    is_busy: chex.Array


def makespan(arrays: MachineArrays, priority: chex.Array) -> chex.Array:
    """float[]: the makespan of parallel schedule generation (see ``MachineProblem``).

    Of the ready ops that fit, the one of highest priority starts, again and again, a machine type
    after the other, since types don't compete; then time moves to the next finish time, at which
    ops end one by one, which frees units and makes ops ready.

    Args:
      arrays: see ``machine_arrays``.
      priority: float32[O], higher first, ties to the lower op index. NaN is not allowed.
    """
    arrays = jax.tree.map(jnp.asarray, arrays)
    queues = _queues(arrays, priority)

    def run_next(state: _State) -> _State:
        state = _walk_edges(arrays, queues, state)
        walked = state.edge >= state.past
        limit = state.free[queues.type]
        end = jnp.min(state.ends.least)
        more_end = state.is_ending & (end == state.time)
        can_start = jnp.any(state.ready.least <= limit) & ~more_end
        starts = walked & can_start
        stops = walked & ~can_start & (end < jnp.inf)
        state = _start(arrays, queues, state, first_within(state.ready, limit), starts)
        state = _end(arrays, state, first_least(state.ends), stops)
        return state._replace(is_busy=~walked | starts | stops)

    state = _initial(arrays, queues)
    return jax.lax.while_loop(lambda state: anywhere(state.is_busy), run_next, state).time


def _queues(arrays: MachineArrays, priority: chex.Array) -> _Queues:
    num_ops, num_types = len(arrays.machine), len(arrays.capacity)
    width = block_width(num_ops)
    order = jnp.lexsort((~bit_order.keys(priority), arrays.machine))
    ops_of = jnp.zeros(num_types, jnp.int32).at[arrays.machine].add(1)
    blocks_of = -(-ops_of // width)
    first_op, first_block = jnp.cumsum(ops_of) - ops_of, jnp.cumsum(blocks_of) - blocks_of
    machine = arrays.machine[order]
    place = width * first_block[machine] + jnp.arange(num_ops) - first_op[machine]
    place = place.astype(jnp.int32)
    num_blocks = -(-num_ops // width) + num_types
    empty = jnp.zeros(num_blocks * width, jnp.int32)
    return _Queues(
        place=jnp.zeros(num_ops, jnp.int32).at[order].set(place),
        op=empty.at[place].set(order.astype(jnp.int32)),
        type=empty[:num_blocks].at[place // width].set(machine),
    )


def _initial(arrays: MachineArrays, queues: _Queues) -> _State:
    zero = jnp.zeros((), arrays.duration.dtype)
    nothing = jnp.iinfo(arrays.demand.dtype).max
    ready = jnp.where(arrays.num_dependencies == 0, arrays.demand, nothing)
    ready = jnp.full(queues.op.shape, nothing, ready.dtype).at[queues.place].set(ready)
    ready = ready.reshape(len(queues.type), -1)
    return _State(
        time=zero,
        is_ending=jnp.zeros((), bool),
        free=arrays.capacity,
        ready=Tournament(ready, jnp.min(ready, axis=1)),
        ends=tournament(jnp.full(arrays.duration.shape, jnp.inf, zero.dtype), jnp.inf),
        waiting=arrays.num_dependencies,
        edge=jnp.zeros((), jnp.int32),
        past=jnp.zeros((), jnp.int32),
        is_busy=jnp.ones((), bool),
    )


def _walk_edges(arrays: MachineArrays, queues: _Queues, state: _State) -> _State:
    """Some successors of the op that ended last wait for one less, then may be ready."""
    at = state.edge + jnp.arange(EDGES_AT_ONCE, dtype=jnp.int32)
    nowhere = len(arrays.machine)
    successor = arrays.successors.at[at].get(mode="fill", fill_value=nowhere)
    successor = jnp.where(at < state.past, successor, nowhere)
    waiting = state.waiting.at[successor].add(-1, mode="drop")
    left = waiting.at[successor].get(mode="fill", fill_value=1)
    place = jnp.where(left == 0, queues.place[successor], len(queues.op))
    return state._replace(
        waiting=waiting,
        ready=lowered(state.ready, place, arrays.demand[successor]),
        edge=state.edge + EDGES_AT_ONCE,
    )


def _start(
    arrays: MachineArrays, queues: _Queues, state: _State, place: chex.Array, starts: chex.Array
) -> _State:
    op, nothing = queues.op[place], jnp.iinfo(arrays.demand.dtype).max
    demand = jnp.where(starts, arrays.demand[op], 0)
    ends_at = jnp.where(starts, op, state.ends.values.size)
    return state._replace(
        is_ending=state.is_ending & ~starts,
        free=state.free.at[arrays.machine[op]].add(-demand),
        ready=replaced(state.ready, jnp.where(starts, place, len(queues.op)), nothing),
        ends=lowered(state.ends, ends_at[None], (state.time + arrays.duration[op])[None]),
    )


def _end(arrays: MachineArrays, state: _State, op: chex.Array, stops: chex.Array) -> _State:
    """The op that ends next has ended, at the next finish time."""
    demand = jnp.where(stops, arrays.demand[op], 0)
    return state._replace(
        time=jnp.where(stops, jnp.min(state.ends.least), state.time),
        is_ending=state.is_ending | stops,
        free=state.free.at[arrays.machine[op]].add(demand),
        ends=replaced(state.ends, jnp.where(stops, op, state.ends.values.size), jnp.inf),
        edge=jnp.where(stops, arrays.successor_offsets[op], state.edge),
        past=jnp.where(stops, arrays.successor_offsets[op + 1], state.past),
    )


def _wide() -> bool:
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def _padded(values: np.ndarray, length: int, dtype, fill: int = 0) -> np.ndarray:
    padding = (0, length - len(values))
    return np.pad(np.asarray(values).astype(dtype), padding, constant_values=fill)
