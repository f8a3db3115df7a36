"""Networks over graphs and sets of points."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_families import Family, tokens
from regal_jax.datasets.zoo.recipes.flax_layers import MLP, Classifier
from regal_jax.datasets.zoo.recipes.recipe import each

_GRAPH = ((512, 32), (2048, 8), tokens(2048), tokens(2048))


class MessagePassing(nn.Module):
    """Edges read their nodes, nodes sum their edges, a global vector reads all."""

    rounds: int
    width: int = 128

    @nn.compact
    def __call__(self, nodes, edges, senders, receivers):
        nodes, edges = nn.Dense(self.width)(nodes), nn.Dense(self.width)(edges)
        common = jnp.zeros((1, self.width))
        for _ in range(self.rounds):
            ends = [nodes[senders], nodes[receivers]]
            read = jnp.concatenate([edges, *ends], axis=-1)
            edges = edges + MLP((self.width,) * 2)(read)
            sums = jax.ops.segment_sum(edges, receivers, nodes.shape[0])
            update = MLP((self.width,) * 2)(jnp.concatenate([nodes, sums], axis=-1))
            nodes = nodes + update + common
            means = [nodes.mean(axis=0, keepdims=True), edges.mean(axis=0, keepdims=True)]
            common = MLP((self.width,) * 2)(jnp.concatenate([common, *means], axis=-1))
        return nn.Dense(1)(nodes), nn.Dense(10)(common)


class GraphAttention(nn.Module):
    """Graph attention with each head ops of its own."""

    layers: int
    heads: int = 4
    width: int = 32

    @nn.compact
    def __call__(self, nodes, edges, senders, receivers):
        for _ in range(self.layers):
            heads = [self._head(nodes, senders, receivers) for _ in range(self.heads)]
            nodes = nn.elu(jnp.concatenate(heads, axis=-1))
        return nn.Dense(10)(nodes)

    def _head(self, nodes, senders, receivers):
        values, count = nn.Dense(self.width)(nodes), nodes.shape[0]
        scores = nn.Dense(1)(values)[senders] + nn.Dense(1)(values)[receivers]
        weights = jnp.exp(nn.leaky_relu(scores, 0.2))
        total = jax.ops.segment_sum(weights, receivers, count)
        mixed = jax.ops.segment_sum(weights * values[senders], receivers, count)
        return mixed / (total + 1e-6)


class Relational(nn.Module):
    """Several relations, each with its own weights and edges, summed (R-GCN)."""

    layers: int
    relations: int
    width: int = 128

    @nn.compact
    def __call__(self, nodes, edges, senders, receivers):
        groups = list(zip(*(jnp.split(ends, self.relations) for ends in (senders, receivers)),
                          strict=True))  # fmt: skip
        for _ in range(self.layers):
            parts = [nn.Dense(self.width)(nodes)]
            for sources, sinks in groups:
                messages = nn.Dense(self.width)(nodes)[sources]
                parts.append(jax.ops.segment_sum(messages, sinks, nodes.shape[0]))
            nodes = nn.relu(sum(parts))
        return nn.Dense(10)(nodes)


class PointCloud(nn.Module):
    """Sets of points through shared networks and learned transforms (PointNet)."""

    depth: int

    @nn.compact
    def __call__(self, points):
        x = points
        for level in range(self.depth):
            pooled = MLP((64, 128))(x).max(axis=1)
            matrix = MLP((128, x.shape[-1] ** 2))(pooled).reshape(-1, x.shape[-1], x.shape[-1])
            x = nn.relu(nn.Dense(32)(x @ matrix))
            context = jnp.broadcast_to(x.max(axis=1, keepdims=True), x.shape)
            x = nn.Dense(32)(jnp.concatenate([x, context], axis=-1)) if level % 2 else x
        return Classifier(40)(x), nn.Dense(50)(x)


FAMILIES = (
    Family("message_passing", MessagePassing, _GRAPH, each("rounds", 1, 3)),
    Family("graph_attention", GraphAttention, _GRAPH, each("layers", 1, 2)),
    Family("relational_gcn", Relational, _GRAPH, [
        {"layers": 1, "relations": 4}, {"layers": 2, "relations": 8},
    ]),
    Family("pointnet", PointCloud, ((16, 1024, 3),), each("depth", 1, 2)),
)  # fmt: skip
