"""Topoformer: attention between ops with heads of their own for each way ops can be related.

neural_topological_ordering, sections 4.1 and C.2. The encoders of its ablation (section 5.3) are
the same network with heads for other relations, or none.
"""

import dataclasses
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.errors import OptionError
from regal_jax.graphs.features.relations import (
    AFTER,
    BEFORE,
    INCOMPARABLE,
    UNRELATED,
    Relations,
)
from regal_jax.policies.networks import attention

EncoderName = Literal[
    "topoformer", "topoformer_edges", "topoformer_machines", "transformer", "gat", "gat_both", "mlp"
]

SEVEN = (
    *("reduction", "redundant", "closure"),
    *("reduction_back", "redundant_back", "closure_back", "incomparable"),
)
"""The graphs of section 4.1: the transitive reduction, the other edges, the closure's other pairs;
the same backwards; and the pairs that no path joins."""

RELATIONS: dict[EncoderName, tuple[str, ...]] = {
    "topoformer": SEVEN,
    "topoformer_edges": ("edges", "edges_back"),
    "topoformer_machines": (*SEVEN, "same_machine"),
    "transformer": ("all",),
    "gat": ("edges",),
    "gat_both": ("edges", "edges_back"),
    "mlp": (),
}
"""What the encoders have heads for. "same_machine", ours, is for pairs of ops of one machine type
that no path joins: those that compete for it, the disjunctive edges of a job shop (as in Zhang et
al. 2020, "Learning to dispatch for job shop scheduling via deep reinforcement learning")."""
_CODES = {"closure": BEFORE, "closure_back": AFTER, "incomparable": INCOMPARABLE}


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """What an encoder is made of; the defaults are the paper's (C.2).

    Attributes:
      encoder: which relations have heads, see ``RELATIONS``; "gat" ones have additive scores.
      layers, size: L and d.
      heads: of each relation. head_size: of queries, keys and values.
      heads_by_relation: other numbers for some, such as "incomparable=4,redundant=0".
      tied: all relations share their projections.
      bfloat16: compute in bfloat16, scores and parameters apart; for accelerators.
    """

    encoder: EncoderName = "topoformer"
    layers: int = 4
    size: int = 256
    heads: int = 10
    head_size: int = 64
    heads_by_relation: str = ""
    tied: bool = False
    bfloat16: bool = False

    @property
    def additive(self) -> bool:
        return self.encoder.startswith("gat")

    @property
    def num_heads(self) -> dict[str, int]:
        """{relation: heads}, without those that have none. OptionError if it can't be read."""
        heads = dict.fromkeys(RELATIONS[self.encoder], self.heads)
        for part in filter(None, self.heads_by_relation.split(",")):
            name, _, number = part.partition("=")
            if name not in heads or not number.isdecimal():
                raise OptionError(
                    f"heads_by_relation: {part!r} is not RELATION=HEADS with one of"
                    f" {', '.join(heads) or 'no relations'}"
                )
            heads[name] = int(number)
        if self.tied and len(set(heads.values())) > 1:
            raise OptionError("tied relations need the same number of heads each")
        return {name: number for name, number in heads.items() if number}


class Encoder(nn.Module):
    """float32[O, size]: op representations h^(L) of eq. 4 and 5.

    With a condition float32[C], the first linear layer of every MLP is scaled and shifted by linear
    functions of it, and the activation is ReLU (gflownet_robust_scheduling, eq. 26 to 30).
    """

    config: EncoderConfig

    @nn.compact
    def __call__(
        self, features: jax.Array, relations: Relations, condition: jax.Array | None = None
    ) -> jax.Array:
        config = self.config
        dtype = jnp.bfloat16 if config.bfloat16 else jnp.float32
        state = nn.Dense(config.size, dtype=dtype, name="embed")(features)
        for layer in range(config.layers):
            if config.num_heads:
                normed = nn.LayerNorm(dtype=dtype)(state)
                state += _Attention(config, dtype, name=f"attention_{layer}")(normed, relations)
            hidden = nn.LayerNorm(dtype=dtype)(state)
            hidden = nn.Dense(config.size, dtype=dtype)(hidden)
            if condition is None:
                hidden = nn.gelu(hidden)
            else:
                hidden = nn.relu(
                    Modulation(config.size, dtype, name=f"film_{layer}")(hidden, condition)
                )
            state += nn.Dense(config.size, dtype=dtype)(hidden)
        return state.astype(jnp.float32)


class Modulation(nn.Module):
    """x scaled and shifted by linear functions of a condition (Perez et al. 2018, FiLM); a new one
    with condition 0 leaves x as it is."""

    size: int
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, condition: jax.Array) -> jax.Array:
        ones = nn.initializers.ones
        scale = nn.Dense(self.size, dtype=self.dtype, bias_init=ones, name="scale")(condition)
        return scale * x + nn.Dense(self.size, dtype=self.dtype, name="shift")(condition)


class TemperatureEmbedding(nn.Module):
    """float32[size]: e_sigma of gflownet_robust_scheduling, eq. 29, of the logarithm of the
    temperature."""

    size: int

    @nn.compact
    def __call__(self, log_temperature: jax.Array) -> jax.Array:
        hidden = nn.relu(nn.Dense(self.size)(jnp.atleast_1d(log_temperature)))
        return nn.relu(nn.Dense(self.size)(hidden))


class _Attention(nn.Module):
    """All heads of a layer, side by side, and back to ``size`` numbers by a linear layer."""

    config: EncoderConfig
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, state: jax.Array, relations: Relations) -> jax.Array:
        config = self.config
        heads = config.num_heads
        project = self._projection(max(heads.values())) if config.tied else None
        found = []
        for name, number in heads.items():
            query, key, value = (project or self._projection(number, name))(state)
            found.append(_attend(name, query, key, value, relations, config))
        joined = jnp.concatenate([part.reshape(len(state), -1) for part in found], axis=1)
        return nn.Dense(config.size, dtype=self.dtype, name="join")(joined)

    def _projection(self, heads: int, name: str = "tied"):
        """state -> (queries, keys, values), float[O, heads, .] each."""
        width = self.config.head_size
        values = nn.DenseGeneral((heads, width), dtype=self.dtype, name=f"{name}_value")
        if self.config.additive:
            ends = nn.DenseGeneral((heads, 2), dtype=self.dtype, name=f"{name}_ends")

            def additive(state):
                return *jnp.split(ends(state), 2, axis=-1), values(state)

            return additive
        both = nn.DenseGeneral((heads, 2 * width), dtype=self.dtype, name=f"{name}_ends")

        def dot(state):
            return *jnp.split(both(state), 2, axis=-1), values(state)

        return dot


def _attend(name: str, query, key, value, relations: Relations, config: EncoderConfig):
    """float[O, H, V]: attention over one relation."""
    if name in _CODES:
        return attention.dense_attention(query, key, value, relations.code, _CODES[name])
    if name == "same_machine":
        code = _same_machine(relations)
        return attention.dense_attention(query, key, value, code, INCOMPARABLE)
    if name == "all":
        code = relations.real[None, :] & jnp.ones_like(relations.real)[:, None]
        return attention.dense_attention(query, key, value, code.astype(jnp.uint8), None)
    senders, receivers = relations.senders, relations.receivers
    if name.endswith("_back"):
        senders, receivers = receivers, senders
    inside = relations.senders < len(relations.real)
    used = {
        "reduction": relations.reduced,
        "redundant": inside & ~relations.reduced,
        "edges": inside,
    }[name.removesuffix("_back")]
    score = attention.additive_scores if config.additive else attention.dot_scores
    scores = score(query, key, senders, receivers)
    return attention.edge_attention(scores, value, senders, receivers, used)


def _same_machine(relations: Relations) -> jax.Array:
    """uint8[O, O]: the codes of pairs of ops of one machine type, UNRELATED for the others."""
    types = relations.machine_type
    if types is None:
        raise OptionError("this encoder needs relations with machine types")
    return jnp.where(types[:, None] == types[None, :], relations.code, UNRELATED)
