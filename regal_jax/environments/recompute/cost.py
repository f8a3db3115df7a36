"""Peak memory and work of runs, some of them again, in pure JAX: a scan over the runs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from regal_jax.graphs.batching import GraphArrays


class _State(NamedTuple):
    """After some runs, R being those of the whole schedule with padding.

    Attributes:
      since, until: int32[T], rows of the latest making and of its last reader so far; -1 for none.
      change: [R + 2], bytes more than in the row before, of what has been made anew since.
      work: us so far.
    """

    since: jax.Array
    until: jax.Array
    change: jax.Array
    work: jax.Array


def peak_and_work(graph: GraphArrays, runs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(bytes in memory at most, us of all runs) on one device (BUILD_NOTES.md, section 3).

    Exact with 64-bit types. For a batch of schedules or of graphs: ``jax.vmap``.

    Args:
      graph: O ops.
      runs: int32[R], the ops as they run, some again, then -1; each op runs, after what it reads.
    """
    rows = jnp.arange(1, len(runs) + 1, dtype=jnp.int32)

    def step(state: _State, run):
        return _after(graph, state, *run), None

    state, _ = jax.lax.scan(step, _at_start(graph, runs), (rows, runs))
    until = jnp.where(graph.persistent & (state.until >= 0), len(runs), state.until)
    change = _ended(graph, state._replace(until=until), until >= 0).change
    workspace = jnp.where(runs >= 0, graph.workspace[runs], 0)
    usage = jnp.cumsum(change[:-1]).at[1:].add(workspace)
    return jnp.max(usage), state.work


def _at_start(graph: GraphArrays, runs: jax.Array) -> _State:
    none = jnp.full(graph.producer.shape, -1, jnp.int32)
    return _State(
        since=jnp.where(graph.producer < 0, 0, none),
        until=none,
        change=jnp.zeros(len(runs) + 2, graph.size.dtype),
        work=jnp.zeros((), graph.duration.dtype),
    )


def _after(graph: GraphArrays, state: _State, row: jax.Array, op: jax.Array) -> _State:
    """One run later; the same for padding."""
    reads = jnp.where((graph.edge_op == op) & (op >= 0), row, -1)
    until = state.until.at[graph.edge_tensor].max(reads, mode="drop")
    made = (graph.producer == op) & (op >= 0) & ~(graph.persistent & (state.since >= 0))
    state = _ended(graph, state._replace(until=until), made & (state.since >= 0))
    return state._replace(
        since=jnp.where(made, row, state.since),
        until=jnp.where(made, row, state.until),
        work=state.work + jnp.where(op >= 0, graph.duration[op], 0),
    )


def _ended(graph: GraphArrays, state: _State, which: jax.Array) -> _State:
    """Counts what the latest making of some tensors holds."""
    size = jnp.where(which, graph.size, 0)
    change = state.change.at[state.since].add(size).at[state.until + 1].add(-size)
    return state._replace(change=change)
