"""Message passing over a computation graph (REGAL eq. 1-5), with jraph."""

from typing import Any, Literal, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp
import jraph

from regal_jax.graphs.features.placement import PolicyInputs

Aggregation = Literal["sum", "mean"]
"""Of the messages that an op gets: eq. 5 has sums; A.5 says that its best model took means."""


class GraphInputs(Protocol):
    """What is read of inputs such as ``PolicyInputs``, which say more."""

    @property
    def nodes(self) -> Any: ...

    @property
    def edges(self) -> Any: ...

    @property
    def senders(self) -> Any: ...

    @property
    def receivers(self) -> Any: ...


class MLP(nn.Module):
    """Two layers of one size (eq. 10, A.5), ReLU between; ``outputs`` of the last layer.

    With ``zero_last`` the last layer starts at zero, so that a new policy is uniform over actions.
    """

    size: int
    outputs: int | None = None
    zero_last: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.relu(nn.Dense(self.size)(x))
        init = nn.initializers.zeros if self.zero_last else nn.linear.default_kernel_init
        return nn.Dense(self.outputs or self.size, kernel_init=init)(x)


class Round(nn.Module):
    """One round: messages along and against every edge (eq. 3, 4), then new node states (eq. 5).

    The first layer of both message MLPs is applied to its three inputs apart: the part of a node is
    computed once a node rather than once an edge, and that of an edge once for all rounds.
    """

    size: int
    aggregation: Aggregation = "sum"

    @nn.compact
    def __call__(self, state: jax.Array, edges: jax.Array, ends: jraph.GraphsTuple) -> jax.Array:
        size = self.size
        second = [nn.Dense(size, name=name) for name in ("message", "reverse_message")]

        def messages(edge, sender, receiver, _):
            hidden = nn.relu(edge + sender[:, : 2 * size] + receiver[:, 2 * size :])
            pairs = zip(second, jnp.split(hidden, 2, axis=1), strict=True)
            return jnp.concatenate([layer(half) for layer, half in pairs], axis=1)

        def gather(_, sent, received, __):
            return received[:, :size] + sent[:, size:]

        aggregate = jraph.segment_mean if self.aggregation == "mean" else jraph.segment_sum
        network = jraph.GraphNetwork(messages, gather, aggregate_edges_for_nodes_fn=aggregate)
        projected = nn.Dense(4 * size, use_bias=False, name="message_ends")(state)
        gathered = network(ends._replace(nodes=projected, edges=edges)).nodes
        return MLP(size, name="node")(jnp.concatenate([state, gathered], axis=1))


class MessagePassing(nn.Module):
    """float32[O, size]: node representations h_v after T rounds with shared weights.

    Attributes:
      size: of node and edge states (32 in A.5).
      rounds: T (16 in A.5).
      aggregation: of the messages along the edges, and of those against them.
    """

    size: int = 32
    rounds: int = 16
    aggregation: Aggregation = "sum"

    @nn.compact
    def __call__(self, inputs: GraphInputs) -> jax.Array:
        state = MLP(self.size, name="encode_node")(inputs.nodes)
        edges = MLP(self.size, name="encode_edge")(inputs.edges)
        edges = nn.Dense(2 * self.size, name="message_edge")(edges)
        ends = jraph.GraphsTuple(
            nodes=None,
            edges=None,
            globals=None,
            senders=inputs.senders,
            receivers=inputs.receivers,
            n_node=jnp.array([len(inputs.nodes)]),
            n_edge=jnp.array([len(inputs.edges)]),
        )
        shared = nn.scan(
            lambda module, state, _: (module(state, edges, ends), None),
            variable_broadcast="params",
            split_rngs={"params": False},
            length=self.rounds,
        )
        one = Round(self.size, self.aggregation, name="round")
        return shared(one, state, None)[0]


class GraphValue(nn.Module):
    """float[]: one number for a graph from its own message passing (eq. 9, mean pooling)."""

    size: int = 32
    rounds: int = 16
    aggregation: Aggregation = "sum"

    @nn.compact
    def __call__(self, inputs: PolicyInputs) -> jax.Array:
        network = MessagePassing(self.size, self.rounds, self.aggregation)
        state = MLP(self.size)(network(inputs))
        total = jnp.sum(jnp.where(inputs.real[:, None], state, 0.0), axis=0)
        mean = total / jnp.maximum(jnp.sum(inputs.real), 1)
        return MLP(self.size, 1)(mean)[0]
