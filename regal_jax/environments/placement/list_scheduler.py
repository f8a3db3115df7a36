"""Order from priorities: repeatedly run the ready step of highest priority. Pure JAX, one graph.

Steps of O ops, T tensors and D devices are numbered as in the schedule file: op i is i, the
transfer of tensor t to device d is O + t * D + d.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from regal_jax.environments import bit_order
from regal_jax.environments.lockstep import EDGES_AT_ONCE, anywhere
from regal_jax.environments.placement.chromosome import Genes
from regal_jax.environments.tournament import (
    Tournament,
    first_least,
    lowered,
    replaced,
    tournament,
)
from regal_jax.graphs.batching import GraphArrays

NEVER = 2**31 - 1
"""The key of a step that isn't ready: above that of every priority."""


class Order(NamedTuple):
    """When each step runs.

    Attributes:
      op: int32[O], position of the op in the sequence of steps; -1 for padding.
      transfer: int32[T, D], position of the transfer; -1 where none is needed.
      num_steps: int32[].
    """

    op: jax.Array
    transfer: jax.Array
    num_steps: jax.Array


def needed_copies(graph: GraphArrays, placement: jax.Array, num_devices: int) -> jax.Array:
    """bool[T, D]: devices on which a tensor has a consumer."""
    device = placement.at[graph.edge_op].get(mode="fill", fill_value=0)
    needed = jnp.zeros((len(graph.producer), num_devices), bool)
    return needed.at[graph.edge_tensor, device].set(True, mode="drop")


def home_device(graph: GraphArrays, placement: jax.Array) -> jax.Array:
    """int32[T]: the producer's device, -1 without producer."""
    return jnp.where(graph.producer >= 0, placement[graph.producer], -1)


def needed_transfers(graph: GraphArrays, placement: jax.Array, num_devices: int) -> jax.Array:
    """bool[T, D]: copies that a transfer has to make."""
    needed = needed_copies(graph, placement, num_devices)
    home = home_device(graph, placement)[:, None]
    return needed & (home >= 0) & (home != jnp.arange(num_devices))


class _Arrivals(NamedTuple):
    """What steps wait for, L = E + T * D: consumers for their inputs, transfers for their tensors.

    Attributes:
      source: int32[L], the step that brings it; N or -1 for none.
      target: int32[L], the step that waits.
      first, past: int32[N], where those that a step may bring are: all of an op's tensors, or a
        transfer's tensor.
    """

    source: jax.Array
    target: jax.Array
    first: jax.Array
    past: jax.Array


class _State(NamedTuple):
    """Where the list scheduler is, of N = O + T * D steps.

    Attributes:
      num_run: int32[], steps that have run.
      step: int32[], the last of them; at, past: int32[], its arrivals yet to walk.
      ready: keys of the steps that can run, the least of which is next; NEVER for others.
      waiting: int32[N], what a step waits for.
      position: int32[N], when a step ran; -1 if it hasn't.
    """

    num_run: jax.Array
    step: jax.Array
    at: jax.Array
    past: jax.Array
    ready: Tournament
    waiting: jax.Array
    position: jax.Array


def list_schedule(graph: GraphArrays, placement: jax.Array, genes: Genes) -> Order:
    """Decodes priorities into an order (REGAL 3.2.1; ties by step index).

    An op is ready when its inputs are on its device; a transfer when its tensor is made.
    """
    num_ops, num_devices = genes.affinity.shape
    transfers = needed_transfers(graph, placement, num_devices)
    num_steps = graph.num_ops + jnp.sum(transfers, dtype=jnp.int32)
    key = ~bit_order.keys(jnp.concatenate([genes.op_priority, genes.transfer_priority.ravel()]))
    arrivals = _arrivals(graph, placement, transfers)

    def run_next(state: _State) -> _State:
        state = _announce(arrivals, key, state)
        can_run = (state.at >= state.past) & (state.num_run < num_steps)
        return _run(arrivals, state, first_least(state.ready), can_run)

    state = _initial(graph, key, num_ops)
    state = jax.lax.while_loop(lambda state: anywhere(state.num_run < num_steps), run_next, state)
    position = state.position
    return Order(position[:num_ops], position[num_ops:].reshape(-1, num_devices), num_steps)


def _initial(graph: GraphArrays, key: jax.Array, num_ops: int) -> _State:
    zero = jnp.zeros((), jnp.int32)
    waiting = jnp.ones(key.shape, jnp.int32).at[:num_ops].set(_num_dependencies(graph, num_ops))
    is_source = (waiting == 0) & (jnp.arange(len(key)) < graph.num_ops)
    return _State(
        num_run=zero,
        step=zero,
        at=zero,
        past=zero,
        ready=tournament(jnp.where(is_source, key, NEVER), NEVER),
        waiting=waiting,
        position=jnp.full(key.shape, -1, jnp.int32),
    )


def _announce(arrivals: _Arrivals, key: jax.Array, state: _State) -> _State:
    """Some of those that wait for the last step wait for one less, then may be ready."""
    at = state.at + jnp.arange(EDGES_AT_ONCE, dtype=jnp.int32)
    nowhere = state.ready.values.size
    source = arrivals.source.at[at].get(mode="fill", fill_value=-1)
    target = arrivals.target.at[at].get(mode="fill", fill_value=nowhere)
    target = jnp.where((at < state.past) & (source == state.step), target, nowhere)
    waiting = state.waiting.at[target].add(-1, mode="drop")
    left = waiting.at[target].get(mode="fill", fill_value=1)
    new = key.at[target].get(mode="fill", fill_value=NEVER)
    ready = lowered(state.ready, jnp.where(left == 0, target, nowhere), new)
    return state._replace(at=state.at + EDGES_AT_ONCE, ready=ready, waiting=waiting)


def _run(arrivals: _Arrivals, state: _State, step: jax.Array, can_run: jax.Array) -> _State:
    place = jnp.where(can_run, step, state.ready.values.size)
    return state._replace(
        num_run=state.num_run + can_run,
        step=jnp.where(can_run, step, state.step),
        at=jnp.where(can_run, arrivals.first[step], state.at),
        past=jnp.where(can_run, arrivals.past[step], state.past),
        ready=replaced(state.ready, place, NEVER),
        position=state.position.at[place].set(state.num_run, mode="drop"),
    )


def _num_dependencies(graph: GraphArrays, num_ops: int) -> jax.Array:
    """int32[O]: produced tensors each op reads."""
    produced = graph.producer.at[graph.edge_tensor].get(mode="fill", fill_value=-1) >= 0
    zeros = jnp.zeros(num_ops, jnp.int32)
    return zeros.at[graph.edge_op].add(produced.astype(jnp.int32), mode="drop")


def _arrivals(graph: GraphArrays, placement: jax.Array, transfers: jax.Array) -> _Arrivals:
    """Sorted by producer, then tensor: this order is the same for all placements of a graph."""
    num_ops, (num_tensors, num_devices) = len(placement), transfers.shape
    of_copy = jnp.repeat(jnp.arange(num_tensors), num_devices)
    tensor = jnp.concatenate([graph.edge_tensor, of_copy])
    copy = num_ops + jnp.arange(transfers.size, dtype=jnp.int32)
    sent = jnp.where(transfers.ravel(), graph.producer[of_copy], -1)
    source = jnp.concatenate([_edge_steps(graph, placement, num_ops, num_devices), sent])
    target = jnp.concatenate([graph.edge_op, copy])
    producer = graph.producer.at[tensor].get(mode="fill", fill_value=-1)
    producer = jnp.where(producer < 0, num_ops, producer)
    order = jnp.lexsort((tensor, producer))
    of_op = _ranges(producer[order], num_ops)
    of_tensor = _ranges(tensor[order], num_tensors)
    ranges = (
        jnp.concatenate([ops, jnp.repeat(tensors, num_devices)])
        for ops, tensors in zip(of_op, of_tensor, strict=True)
    )
    return _Arrivals(source[order], target[order], *ranges)


def _ranges(group: jax.Array, num_groups: int) -> tuple[jax.Array, jax.Array]:
    """(first, past) int32[G]: the indices of each group; groups stand together."""
    at = jnp.arange(len(group), dtype=jnp.int32)
    zeros = jnp.zeros(num_groups, jnp.int32)
    first = (zeros + len(group)).at[group].min(at, mode="drop")
    return first, zeros.at[group].max(at + 1, mode="drop")


def _edge_steps(graph, placement, num_ops, num_devices) -> jax.Array:
    """int32[E]: the step that brings an edge's tensor to its consumer: producer or transfer."""
    producer = graph.producer.at[graph.edge_tensor].get(mode="fill", fill_value=-1)
    device = placement.at[graph.edge_op].get(mode="fill", fill_value=0)
    local = placement[producer] == device
    return jnp.where(local, producer, num_ops + graph.edge_tensor * num_devices + device)
