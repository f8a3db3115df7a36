"""Transformers and their relatives: encoders, decoders, vision, mixers, latent arrays, experts."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_families import Family, tokens
from regal_jax.datasets.zoo.recipes.flax_layers import (
    MLP,
    Attention,
    Classifier,
    FeedForward,
    block,
)
from regal_jax.datasets.zoo.recipes.recipe import each

VOCABULARY = 8192
TEXT = (tokens(16, 128),)
SEQUENCES = ((16, 196, 384),)
IMAGES = ((16, 128, 128, 3),)


class EncoderLayer(nn.Module):
    """Pre-norm attention and MLP; with ``parallel`` both read the same norm."""

    heads: int = 8
    causal: bool = False
    parallel: bool = False

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        attended = Attention(self.heads, self.causal)(y)
        if self.parallel:
            return x + attended + FeedForward()(y)
        x = x + attended
        return x + FeedForward()(nn.LayerNorm()(x))


class DecoderLayer(nn.Module):
    """Causal attention, attention to the encoder, MLP."""

    @nn.compact
    def __call__(self, x, encoded):
        x = x + Attention(causal=True)(nn.LayerNorm()(x))
        x = x + Attention()(nn.LayerNorm()(x), encoded)
        return x + FeedForward()(nn.LayerNorm()(x))


class Embedding(nn.Module):
    """Tokens and their positions."""

    width: int

    @nn.compact
    def __call__(self, ids):
        normal = nn.initializers.normal(0.02)
        positions = self.param("positions", normal, (ids.shape[1], self.width))
        return nn.Embed(VOCABULARY, self.width)(ids) + positions


class LanguageModel(nn.Module):
    """An encoder or, if causal, a decoder, with logits over the vocabulary."""

    layers: int
    width: int = 512
    causal: bool = False
    parallel: bool = False
    remat: bool = False

    @nn.compact
    def __call__(self, ids):
        x = Embedding(self.width)(ids)
        for _ in range(self.layers):
            layer = block(EncoderLayer, self.remat)
            x = layer(causal=self.causal, parallel=self.parallel)(x)
        return nn.Dense(VOCABULARY)(nn.LayerNorm()(x))


class Translator(nn.Module):
    """An encoder and a decoder that reads it at every layer."""

    layers: int
    width: int = 512
    remat: bool = False

    @nn.compact
    def __call__(self, source, target):
        encoded = Embedding(self.width)(source)
        for _ in range(self.layers):
            encoded = block(EncoderLayer, self.remat)()(encoded)
        encoded, x = nn.LayerNorm()(encoded), Embedding(self.width)(target)
        for _ in range(self.layers):
            x = block(DecoderLayer, self.remat)()(x, encoded)
        return nn.Dense(VOCABULARY)(nn.LayerNorm()(x))


class ViT(nn.Module):
    """Patches as tokens."""

    layers: int
    width: int = 384
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(self.width, (16, 16), 16)(x).reshape(x.shape[0], -1, self.width)
        x = x + self.param("positions", nn.initializers.normal(0.02), x.shape[1:])
        for _ in range(self.layers):
            x = block(EncoderLayer, self.remat)(6)(x)
        return [Classifier()(nn.LayerNorm()(x))]


class MixerLayer(nn.Module):
    """An MLP across tokens and one across channels."""

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x).swapaxes(1, 2)
        x = x + MLP((256, x.shape[1]), nn.gelu)(y).swapaxes(1, 2)
        return x + FeedForward()(nn.LayerNorm()(x))


class GatedLayer(nn.Module):
    """gMLP: half of the channels gate the other half, mixed across tokens."""

    @nn.compact
    def __call__(self, x):
        width, length = x.shape[-1], x.shape[1]
        gate, value = jnp.split(nn.gelu(nn.Dense(6 * width)(nn.LayerNorm()(x))), 2, axis=-1)
        gate = nn.Dense(length)(nn.LayerNorm()(gate).swapaxes(1, 2)).swapaxes(1, 2)
        return x + nn.Dense(width)(value * gate)


class LayerStack(nn.Module):
    """One kind of layer, repeated."""

    kind: type[nn.Module]
    layers: int
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        for _ in range(self.layers):
            x = block(self.kind, self.remat)()(x)
        return Classifier()(nn.LayerNorm()(x))


class Perceiver(nn.Module):
    """A few latents that attend to many inputs, then to themselves, again and again."""

    rounds: int
    latents: int = 128
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = nn.LayerNorm()(nn.Dense(256)(x))
        normal = nn.initializers.normal(0.02)
        latents = self.param("latents", normal, (1, self.latents, 256))
        latents = jnp.broadcast_to(latents, (x.shape[0], *latents.shape[1:]))
        for _ in range(self.rounds):
            latents = latents + Attention(1)(nn.LayerNorm()(latents), x)
            latents = latents + FeedForward()(nn.LayerNorm()(latents))
            for _ in range(2):
                latents = block(EncoderLayer, self.remat)()(latents)
        return Classifier()(latents)


class Experts(nn.Module):
    """Tokens dispatched to experts of a fixed capacity, each expert ops of its own."""

    experts: int
    top: int = 2

    @nn.compact
    def __call__(self, x):
        flat = x.reshape(-1, x.shape[-1])
        scores = nn.softmax(nn.Dense(self.experts)(flat))
        capacity = self.top * flat.shape[0] // self.experts
        outputs = jnp.zeros_like(flat)
        for index in range(self.experts):
            weights, chosen = jax.lax.top_k(scores[:, index], capacity)
            made = FeedForward()(flat[chosen]) * weights[:, None]
            outputs = outputs.at[chosen].add(made)
        return outputs.reshape(x.shape)


class DenseExperts(nn.Module):
    """Every expert on every token, mixed by a gate."""

    experts: int

    @nn.compact
    def __call__(self, x):
        gates = nn.softmax(nn.Dense(self.experts)(x))
        made = [FeedForward(2)(x) * gates[..., i : i + 1] for i in range(self.experts)]
        while len(made) > 1:
            pairs = zip(made[::2], made[1::2], strict=False)
            made = [a + b for a, b in pairs] + made[len(made) // 2 * 2 :]
        return made[0]


class ExpertLayer(nn.Module):
    """Attention and a mixture of experts."""

    experts: int
    dense: bool

    @nn.compact
    def __call__(self, x):
        x = x + Attention(causal=True)(nn.LayerNorm()(x))
        kind = DenseExperts if self.dense else Experts
        return x + kind(self.experts)(nn.LayerNorm()(x))


class MixtureOfExperts(nn.Module):
    """A decoder whose layers hold experts."""

    layers: int
    experts: int
    dense: bool
    remat: bool = False

    @nn.compact
    def __call__(self, ids):
        x = Embedding(512)(ids)
        for _ in range(self.layers):
            x = block(ExpertLayer, self.remat)(self.experts, self.dense)(x)
        return nn.Dense(VOCABULARY)(nn.LayerNorm()(x))


class WindowAttention(nn.Module):
    """Attention inside square windows, optionally shifted by half (Swin)."""

    window: int
    shift: int

    @nn.compact
    def __call__(self, x):
        batch, side, _, width = x.shape
        y = jnp.roll(nn.LayerNorm()(x), (-self.shift, -self.shift), (1, 2))
        count = side // self.window
        y = y.reshape(batch, count, self.window, count, self.window, width)
        y = y.transpose(0, 1, 3, 2, 4, 5).reshape(-1, self.window**2, width)
        y = Attention(4)(y).reshape(batch, count, count, self.window, self.window, width)
        y = y.transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)
        x = x + jnp.roll(y, (self.shift, self.shift), (1, 2))
        return x + FeedForward()(nn.LayerNorm()(x))


class WindowedViT(nn.Module):
    """Window attention in stages, patches merged between (Swin)."""

    stages: tuple[int, ...]
    width: int = 96
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(self.width, (4, 4), 4)(x)
        for stage, count in enumerate(self.stages):
            x = nn.Conv(2 * x.shape[-1], (2, 2), 2)(nn.LayerNorm()(x)) if stage else x
            window = min(8, x.shape[1])
            for index in range(count):
                shift = window // 2 if index % 2 else 0
                x = block(WindowAttention, self.remat)(window, shift)(x)
        return Classifier()(nn.LayerNorm()(x))


class CrossModal(nn.Module):
    """Streams of several modalities that attend to one another at every second layer."""

    layers: int
    streams: int = 2
    remat: bool = False

    @nn.compact
    def __call__(self, *inputs):
        streams = [nn.Dense(256)(x) for x in inputs[: self.streams]]
        for layer in range(self.layers):
            streams = [block(EncoderLayer, self.remat)()(x) for x in streams]
            if layer % 2:
                streams = [self._exchanged(streams, i) for i in range(self.streams)]
        return Classifier()(jnp.concatenate(streams, axis=1))

    def _exchanged(self, streams, to):
        others = [x for index, x in enumerate(streams) if index != to]
        return streams[to] + sum(Attention(4)(streams[to], other) for other in others)


_PIXELS = ((8, 1024, 64),)
_STREAMS = tuple((8, length, 256) for length in (196, 77, 128, 64))


def _experts(*sizes: tuple[int, int], dense: bool) -> list[dict]:
    return [{"layers": layers, "experts": count, "dense": dense} for layers, count in sizes]


FAMILIES = (
    Family("transformer_encoder", LanguageModel, TEXT, each("layers", 1, 2)),
    Family("transformer_decoder", LanguageModel, TEXT, each("layers", 1, 2, causal=True)),
    Family("transformer_parallel", LanguageModel, TEXT, each("layers", 2, 6, causal=True,
                                                             parallel=True)),
    Family("encoder_decoder", Translator, (*TEXT, tokens(16, 64)), each("layers", 1, 2)),
    Family("vit", ViT, IMAGES, each("layers", 2, 6)),
    Family("mlp_mixer", LayerStack, SEQUENCES, each("layers", 2, 4, kind=MixerLayer)),
    Family("gmlp", LayerStack, SEQUENCES, each("layers", 2, 6, kind=GatedLayer)),
    Family("perceiver", Perceiver, _PIXELS, each("rounds", 1, 3)),
    Family("moe_dispatched", MixtureOfExperts, TEXT, _experts((1, 4), (2, 8), dense=False)),
    Family("moe_dense", MixtureOfExperts, TEXT, _experts((1, 4), (2, 4), dense=True)),
    Family("swin", WindowedViT, IMAGES, each("stages", (2, 2), (2, 2, 2))),
    Family("cross_modal", CrossModal, _STREAMS, [{"layers": 2}, {"layers": 4, "streams": 3}]),
)  # fmt: skip
