"""Peak memory of an order without walking it: copies are intervals, usage is a running sum."""

import jax
import jax.numpy as jnp

from regal_jax.environments.placement import list_scheduler
from regal_jax.environments.placement.list_scheduler import Order
from regal_jax.graphs.batching import GraphArrays


def peak_memory(
    graph: GraphArrays, placement: jax.Array, order: Order, num_devices: int
) -> jax.Array:
    """[D] bytes: the most in use on each device at the start and during any step.

    A copy occupies its device from the step that makes it (the start, without producer) through its
    last local use; outputs nobody uses through their own step; persistent tensors at home for ever.
    """
    born, exists = _births(graph, placement, order, num_devices)
    last = _last_uses(graph, placement, order, num_devices)
    last = jnp.maximum(last, born)
    num_slots = len(order.op) + order.transfer.size + 2
    at_home = list_scheduler.home_device(graph, placement)[:, None] == jnp.arange(num_devices)
    kept = graph.persistent[:, None] & (at_home | (graph.producer < 0)[:, None])
    size = jnp.where(exists, graph.size[:, None], 0)
    device = jnp.broadcast_to(jnp.arange(num_devices), size.shape)
    change = jnp.zeros((num_devices, num_slots), size.dtype)
    change = change.at[device, born + 1].add(size)
    change = change.at[device, last + 2].add(jnp.where(kept, 0, -size))
    usage = jnp.cumsum(change, axis=1)
    return jnp.max(usage + _workspaces(graph, placement, order, usage), axis=1)


def _births(graph, placement, order, num_devices):
    """(position of the step that makes each copy, -1 at the start; whether the copy exists)."""
    needed = list_scheduler.needed_copies(graph, placement, num_devices)
    home = list_scheduler.home_device(graph, placement)[:, None] == jnp.arange(num_devices)
    produced = (graph.producer >= 0)[:, None]
    made = jnp.where(home, order.op[graph.producer][:, None], order.transfer)
    return jnp.where(produced, made, -1), jnp.where(produced, home | needed, needed)


def _last_uses(graph, placement, order, num_devices):
    """int32[T, D]: position of the last local use: consumers, and at home outgoing transfers."""
    device = placement.at[graph.edge_op].get(mode="fill", fill_value=0)
    use = order.op.at[graph.edge_op].get(mode="fill", fill_value=-1)
    last = jnp.full((len(graph.producer), num_devices), -1, jnp.int32)
    last = last.at[graph.edge_tensor, device].max(use, mode="drop")
    home = list_scheduler.home_device(graph, placement)[:, None] == jnp.arange(num_devices)
    leaving = jnp.max(order.transfer, axis=1, keepdims=True)
    return jnp.where(home, jnp.maximum(last, leaving), last)


def _workspaces(graph, placement, order, usage):
    """[D, slots]: an op's workspace on its device, in its own step's slot."""
    slot = jnp.where(order.op >= 0, order.op + 1, usage.shape[1])
    return jnp.zeros_like(usage).at[placement, slot].set(graph.workspace, mode="drop")
