"""Models of sequences, unrolled in time: recurrent networks and state-space convolutions."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_families import Family, tokens
from regal_jax.datasets.zoo.recipes.flax_layers import Attention, Classifier, block
from regal_jax.datasets.zoo.recipes.recipe import each

FRAMES = ((16, 64, 128),)


class Unrolled(nn.Module):
    """Stacked recurrent cells, step by step."""

    cell: Callable[[int], nn.RNNCellBase]
    steps: int
    layers: int = 1
    width: int = 256

    @nn.compact
    def __call__(self, x):
        frames = [x[:, step] for step in range(self.steps)]
        for _ in range(self.layers):
            frames = self._layer(frames)
        return nn.Dense(64)(frames[-1]), jnp.stack(frames, axis=1)

    def _layer(self, frames):
        cell, outputs = self.cell(self.width), []
        carry = cell.initialize_carry(_key(), frames[0].shape)
        for frame in frames:
            carry, output = cell(carry, frame)
            outputs.append(output)
        return outputs


def _key():
    return jax.random.key(0)


class Seq2Seq(nn.Module):
    """A recurrent encoder and a decoder that attends to all its states at each step."""

    steps: int
    width: int = 256

    @nn.compact
    def __call__(self, source, target):
        embed = nn.Embed(4096, self.width)
        states, cell = [], nn.GRUCell(self.width)
        carry = jnp.zeros((source.shape[0], self.width))
        for step in range(self.steps):
            carry, state = cell(carry, embed(source[:, step]))
            states.append(state)
        memory = jnp.stack(states, axis=1)
        attention, cell, head = Attention(4), nn.GRUCell(self.width), nn.Dense(4096)
        logits = []
        for step in range(self.steps):
            context = attention(carry[:, None], memory)[:, 0]
            read = jnp.concatenate([embed(target[:, step]), context], axis=-1)
            carry, state = cell(carry, read)
            logits.append(head(state))
        return logits


class Wavefront(nn.Module):
    """A two-dimensional recurrence: each cell reads those above and to the left."""

    rows: int
    columns: int
    width: int = 128

    @nn.compact
    def __call__(self, x):
        gate, value = nn.Dense(self.width), nn.Dense(self.width)
        zeros = jnp.zeros((x.shape[0], self.width))
        states: dict = {}
        for row in range(self.rows):
            for column in range(self.columns):
                above = states.get((row - 1, column), zeros)
                left = states.get((row, column - 1), zeros)
                read = jnp.concatenate([x[:, row, column], above, left], axis=-1)
                weight = nn.sigmoid(gate(read))
                mixed = weight * above + (1 - weight) * left
                states[row, column] = mixed + nn.tanh(value(read))
        return nn.Dense(10)(states[self.rows - 1, self.columns - 1])


class StateSpace(nn.Module):
    """A diagonal state-space layer as one long convolution by FFT (S4D)."""

    states: int = 32

    @nn.compact
    def __call__(self, x):
        length, width = x.shape[1:]
        normal = nn.initializers.normal(0.5)
        decay = self.param("decay", normal, (width, self.states))
        weight = self.param("weight", normal, (width, self.states))
        powers = -jnp.exp(decay)[..., None] * jnp.arange(length)
        kernel = jnp.einsum("cn,cnl->lc", weight, jnp.exp(powers))
        size = 2 * length
        product = jnp.fft.rfft(x, size, axis=1) * jnp.fft.rfft(kernel, size, axis=0)
        y = nn.gelu(jnp.fft.irfft(product, size, axis=1)[:, :length])
        return nn.Dense(width)(y) * nn.sigmoid(nn.Dense(width)(y))


class StateSpaceLayer(nn.Module):
    """Norm, state space, residual."""

    @nn.compact
    def __call__(self, x):
        return x + StateSpace()(nn.LayerNorm()(x))


class StateSpaceModel(nn.Module):
    """Layers of state-space convolutions."""

    layers: int
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(256)(x)
        for _ in range(self.layers):
            x = block(StateSpaceLayer, self.remat)()(x)
        return Classifier(10)(x)


class SelectiveScan(nn.Module):
    """A selective state space (Mamba-like), its scan a tree of doubling shifts."""

    @nn.compact
    def __call__(self, x):
        width = x.shape[-1]
        hidden, gate = jnp.split(nn.Dense(2 * width)(nn.LayerNorm()(x)), 2, axis=-1)
        hidden = nn.silu(nn.Conv(width, (4,), padding="CAUSAL", feature_group_count=width)(hidden))
        decay = nn.sigmoid(nn.Dense(width)(hidden))
        state = (1 - decay) * nn.Dense(width)(hidden)
        shift = 1
        while shift < x.shape[1]:
            state = state + decay * _shifted(state, shift, 0.0)
            decay = decay * _shifted(decay, shift, 1.0)
            shift *= 2
        return x + nn.Dense(width)(state * nn.silu(gate))


def _shifted(x, shift, fill):
    padding = [(0, 0), (shift, 0), (0, 0)]
    return jnp.pad(x, padding, constant_values=fill)[:, : x.shape[1]]


class SelectiveModel(nn.Module):
    """Layers of selective scans."""

    layers: int
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(256)(x)
        for _ in range(self.layers):
            x = block(SelectiveScan, self.remat)()(x)
        return Classifier(10)(x)


class ConvLSTMStack(nn.Module):
    """Convolutional LSTMs over frames of video."""

    steps: int
    layers: int

    @nn.compact
    def __call__(self, video):
        frames = [video[:, step] for step in range(self.steps)]
        for _ in range(self.layers):
            cell = nn.ConvLSTMCell(32, (3, 3))
            carry = cell.initialize_carry(_key(), frames[0].shape)
            outputs = []
            for frame in frames:
                carry, output = cell(carry, frame)
                outputs.append(output)
            frames = outputs
        return [nn.Conv(1, (1, 1))(frame) for frame in frames[-2:]]


def _cells(cell: type, *sizes: tuple[int, int]) -> list[dict]:
    return [{"cell": cell, "steps": steps, "layers": layers} for steps, layers in sizes]


FAMILIES = (
    Family("lstm", Unrolled, FRAMES, _cells(nn.OptimizedLSTMCell, (8, 1), (16, 2))),
    Family("gru", Unrolled, FRAMES, _cells(nn.GRUCell, (8, 1), (16, 2))),
    Family("seq2seq", Seq2Seq, (tokens(16, 32), tokens(16, 32)), each("steps", 4, 10)),
    Family("wavefront_rnn", Wavefront, ((16, 16, 16, 64),), [{"rows": 4, "columns": 4},
                                                             {"rows": 6, "columns": 6}]),
    Family("s4", StateSpaceModel, ((8, 1024, 16),), each("layers", 1, 4)),
    Family("selective_scan", SelectiveModel, ((8, 512, 16),), each("layers", 1, 3)),
    Family("conv_lstm", ConvLSTMStack, ((8, 16, 32, 32, 3),), [{"steps": 4, "layers": 1},
                                                               {"steps": 8, "layers": 3}]),
)  # fmt: skip
