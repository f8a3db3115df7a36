"""Makespan of an order on identical devices."""

import jax
import jax.numpy as jnp

from regal_jax.environments.placement.list_scheduler import Order
from regal_jax.graphs.batching import GraphArrays


def makespan(
    graph: GraphArrays,
    placement: jax.Array,
    order: Order,
    *,
    num_devices: int,
    latency: float = 0.0,
    per_byte: float = 0.0,
) -> jax.Array:
    """[] us: when the last op ends (eq. 2 and 3 of the GFlowNet scheduling paper).

    In order, an op starts when its device is free and its inputs have arrived; an input made on
    another device arrives ``latency + bytes * per_byte`` after its producer ends.
    """
    sequence = jnp.argsort(jnp.where(order.op >= 0, order.op, jnp.iinfo(jnp.int32).max))
    zeros = jnp.zeros_like(graph.duration)

    def run(carry, op):
        free, arrival, last = carry
        device = placement[op]
        finish = jnp.maximum(free[device], arrival[op]) + graph.duration[op]
        arrival = _deliver(graph, placement, op, finish, arrival, latency, per_byte)
        return (free.at[device].set(finish), arrival, jnp.maximum(last, finish)), None

    free = jnp.zeros(num_devices, graph.duration.dtype)
    return jax.lax.scan(run, (free, zeros, free[0]), sequence)[0][-1]


def _deliver(graph, placement, op, finish, arrival, latency, per_byte):
    """Consumers of an op's outputs learn when these arrive."""
    at = graph.edge_offsets[op] + graph.edge_window
    mine = at < graph.edge_offsets[op + 1]
    consumer = graph.edge_op.at[at].get(mode="fill", fill_value=0)
    tensor = graph.edge_tensor.at[at].get(mode="fill", fill_value=0)
    size = graph.size.at[tensor].get(mode="fill", fill_value=0).astype(finish.dtype)
    crosses = placement.at[consumer].get(mode="fill", fill_value=0) != placement[op]
    when = finish + jnp.where(crosses, latency + size * per_byte, 0.0)
    consumer = jnp.where(mine, consumer, len(arrival))
    return arrival.at[consumer].max(when, mode="drop")
