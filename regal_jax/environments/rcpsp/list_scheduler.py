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
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph

EDGES_AT_ONCE = 8
"""Edges out of an op that one round of the loop walks; an op with more takes more rounds."""


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
    if largest > np.iinfo(integer).max:
        raise OptionError(
            f"graph {graph.name!r} has a capacity or demand over 2**31:"
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


class _State(NamedTuple):
    """Where the list scheduler is.

    Attributes:
      time: float[], the decision time.
      free: int[M], units.
      ready: bool[O], released and not started.
      end: float[O], when an op that runs ends; infinite for others.
      waiting: int32[O], predecessors that have not started; -1 for an op that has itself.
      release: float[O], when the last of the others ends.
      finish: float[], when the op started last ends; edge, past: int32[], its edges yet to walk.
      busy: bool[], whether anything is left to do.
    """

    time: chex.Array
    free: chex.Array
    ready: chex.Array
    end: chex.Array
    waiting: chex.Array
    release: chex.Array
    finish: chex.Array
    edge: chex.Array
    past: chex.Array
    busy: chex.Array


def makespan(arrays: MachineArrays, priority: chex.Array) -> chex.Array:
    """float[]: the makespan of parallel schedule generation (see ``MachineProblem``).

    Of the ready ops that fit, the one of highest priority starts, again and again (as an op that
    doesn't fit goes on not to fit until units are freed, this is one walk over the ready ops); then
    time moves to the next finish time, which frees units and makes ops ready.

    Args:
      arrays: see ``machine_arrays``.
      priority: float32[O], higher first, ties to the lower op index. NaN is not allowed.
    """
    arrays = jax.tree.map(jnp.asarray, arrays)
    rank = _ranks(priority)

    def run_next(state: _State) -> _State:
        state = _walk_edges(arrays, state)
        walked = state.edge >= state.past
        fits = state.ready & (arrays.demand <= state.free[arrays.machine])
        op = jnp.argmin(jnp.where(fits, rank, len(rank)))
        can_start = jnp.any(fits)
        started = _start(arrays, state, op)
        moved = _advance(arrays, state)
        after = jax.tree.map(lambda a, b: jnp.where(can_start, a, b), started, moved)
        return jax.tree.map(lambda a, b: jnp.where(walked, a, b), after, state)

    return jax.lax.while_loop(lambda state: state.busy, run_next, _initial(arrays)).time


def _ranks(priority: chex.Array) -> chex.Array:
    """int32[O]: the place of each op in decreasing priority."""
    count = jnp.arange(len(priority), dtype=jnp.int32)
    return jnp.zeros_like(count).at[jnp.argsort(~bit_order.keys(priority), stable=True)].set(count)


def _initial(arrays: MachineArrays) -> _State:
    zero = jnp.zeros((), arrays.duration.dtype)
    return _State(
        time=zero,
        free=arrays.capacity,
        ready=arrays.num_dependencies == 0,
        end=jnp.full(arrays.duration.shape, jnp.inf, zero.dtype),
        waiting=arrays.num_dependencies,
        release=jnp.zeros(arrays.duration.shape, zero.dtype),
        finish=zero,
        edge=jnp.zeros((), jnp.int32),
        past=jnp.zeros((), jnp.int32),
        busy=jnp.ones((), bool),
    )


def _walk_edges(arrays: MachineArrays, state: _State) -> _State:
    """Tells some successors of the op started last when it ends."""
    at = state.edge + jnp.arange(EDGES_AT_ONCE, dtype=jnp.int32)
    nowhere = len(arrays.machine)
    successor = arrays.successors.at[at].get(mode="fill", fill_value=nowhere)
    successor = jnp.where(at < state.past, successor, nowhere)
    return state._replace(
        waiting=state.waiting.at[successor].add(-1, mode="drop"),
        release=state.release.at[successor].max(state.finish, mode="drop"),
        edge=state.edge + EDGES_AT_ONCE,
    )


def _start(arrays: MachineArrays, state: _State, op: chex.Array) -> _State:
    finish = state.time + arrays.duration[op]
    return state._replace(
        free=state.free.at[arrays.machine[op]].add(-arrays.demand[op]),
        ready=state.ready.at[op].set(False),
        waiting=state.waiting.at[op].set(-1),
        end=state.end.at[op].set(finish),
        finish=finish,
        edge=arrays.successor_offsets[op],
        past=arrays.successor_offsets[op + 1],
    )


def _advance(arrays: MachineArrays, state: _State) -> _State:
    """To the next finish time: all ops that end then are released together. Or nothing is left."""
    time = jnp.min(state.end)
    ended = state.end == time
    busy = time < jnp.inf
    mine = ended & (arrays.machine == jnp.arange(len(state.free))[:, None])
    freed = jnp.sum(jnp.where(mine, arrays.demand, 0), axis=1, dtype=state.free.dtype)
    released = (state.waiting == 0) & (state.release <= time)
    return state._replace(
        time=jnp.where(busy, time, state.time),
        free=jnp.where(busy, state.free + freed, state.free),
        ready=jnp.where(busy, state.ready | released, state.ready),
        end=jnp.where(ended, jnp.inf, state.end),
        busy=busy,
    )


def _wide() -> bool:
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def _padded(values: np.ndarray, length: int, dtype, fill: int = 0) -> np.ndarray:
    padding = (0, length - len(values))
    return np.pad(np.asarray(values).astype(dtype), padding, constant_values=fill)
