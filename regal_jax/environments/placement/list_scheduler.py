"""Order from priorities: repeatedly run the ready step of highest priority. Pure JAX, one graph.

Steps of O ops, T tensors and D devices are numbered as in the schedule file: op i is i, the
transfer of tensor t to device d is O + t * D + d.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from regal_jax.environments import bit_order
from regal_jax.environments.placement.chromosome import Genes
from regal_jax.graphs.batching import GraphArrays


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


def list_schedule(graph: GraphArrays, placement: jax.Array, genes: Genes) -> Order:
    """Decodes priorities into an order (REGAL 3.2.1; ties by step index).

    An op is ready when its inputs are on its device; a transfer when its tensor is made.
    """
    num_ops, num_devices = genes.affinity.shape
    transfers = needed_transfers(graph, placement, num_devices)
    num_steps = graph.num_ops + jnp.sum(transfers, dtype=jnp.int32)
    priority = jnp.concatenate([genes.op_priority, genes.transfer_priority.ravel()])
    priority = bit_order.keys(priority)
    waiting = _num_dependencies(graph, num_ops)
    is_source = (waiting == 0) & (jnp.arange(num_ops) < graph.num_ops)
    ready = jnp.full_like(priority, bit_order.LEAST)
    ready = ready.at[:num_ops].set(jnp.where(is_source, priority[:num_ops], bit_order.LEAST))
    edge_step = _edge_steps(graph, placement, num_ops, num_devices)

    def run_next(state):
        count, ready, waiting, position = state
        step = jnp.argmax(ready)
        position = position.at[step].set(count)
        ready = ready.at[step].set(bit_order.LEAST)
        ready = _announce_transfers(graph, step, transfers, priority, ready, num_ops)
        ready, waiting = _announce_ops(graph, step, edge_step, priority, ready, waiting)
        return count + 1, ready, waiting, position

    position = jnp.full(priority.shape, -1, jnp.int32)
    state = (jnp.int32(0), ready, waiting, position)
    position = jax.lax.while_loop(lambda state: state[0] < num_steps, run_next, state)[-1]
    return Order(position[:num_ops], position[num_ops:].reshape(-1, num_devices), num_steps)


def _num_dependencies(graph: GraphArrays, num_ops: int) -> jax.Array:
    """int32[O]: produced tensors each op reads."""
    produced = graph.producer.at[graph.edge_tensor].get(mode="fill", fill_value=-1) >= 0
    zeros = jnp.zeros(num_ops, jnp.int32)
    return zeros.at[graph.edge_op].add(produced.astype(jnp.int32), mode="drop")


def _edge_steps(graph, placement, num_ops, num_devices) -> jax.Array:
    """int32[E]: the step that brings an edge's tensor to its consumer: producer or transfer."""
    producer = graph.producer.at[graph.edge_tensor].get(mode="fill", fill_value=-1)
    device = placement.at[graph.edge_op].get(mode="fill", fill_value=0)
    local = placement[producer] == device
    return jnp.where(local, producer, num_ops + graph.edge_tensor * num_devices + device)


def _announce_transfers(graph, step, transfers, priority, ready, num_ops):
    """Transfers of what an op made are ready."""
    num_devices = transfers.shape[1]
    is_op = step < num_ops
    op = jnp.where(is_op, step, 0)
    at = graph.output_offsets[op] + graph.output_window
    mine = is_op & (at < graph.output_offsets[op + 1])
    tensor = graph.output_tensors.at[at].get(mode="fill", fill_value=0)
    new = mine[:, None] & transfers.at[tensor].get(mode="fill", fill_value=False)
    target = num_ops + tensor[:, None] * num_devices + jnp.arange(num_devices)
    target = jnp.where(new, target, len(ready))
    return ready.at[target].set(priority.at[target].get(mode="fill", fill_value=0), mode="drop")


def _announce_ops(graph, step, edge_step, priority, ready, waiting):
    """Consumers on the device of a new copy wait for one tensor less, then may be ready."""
    num_ops = len(waiting)
    owner = jnp.where(step < num_ops, step, _producer_of_transfer(graph, step, waiting, ready))
    at = graph.edge_offsets[owner] + graph.edge_window
    arrived = (at < graph.edge_offsets[owner + 1]) & (
        edge_step.at[at].get(mode="fill", fill_value=-1) == step
    )
    op = jnp.where(arrived, graph.edge_op.at[at].get(mode="fill", fill_value=0), num_ops)
    waiting = waiting.at[op].add(-1, mode="drop")
    now = arrived & (waiting.at[op].get(mode="fill", fill_value=1) == 0)
    target = jnp.where(now, op, len(ready))
    ready = ready.at[target].set(priority.at[target].get(mode="fill", fill_value=0), mode="drop")
    return ready, waiting


def _producer_of_transfer(graph, step, waiting, ready):
    num_ops, num_tensors = len(waiting), len(graph.producer)
    num_devices = (len(ready) - num_ops) // num_tensors
    return graph.producer[jnp.maximum(step - num_ops, 0) // num_devices]
