"""Generators of images: adversarial pairs, autoencoders, flows; and capsules."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_families import Family
from regal_jax.datasets.zoo.recipes.flax_layers import MLP, block, upsample
from regal_jax.datasets.zoo.recipes.recipe import each

SMALL = (16, 32, 32, 3)
IMAGE = (16, 128, 128, 3)


class Generator(nn.Module):
    """Transposed convolutions from a vector to an image."""

    levels: int

    @nn.compact
    def __call__(self, z):
        x = nn.Dense(4 * 4 * 256)(z).reshape(z.shape[0], 4, 4, 256)
        for level in range(self.levels):
            x = nn.ConvTranspose(256 // 2**level, (4, 4), strides=(2, 2))(x)
            x = nn.relu(nn.GroupNorm(8)(x))
        return nn.tanh(nn.Conv(3, (3, 3))(x))


class Discriminator(nn.Module):
    """Strided convolutions from an image to a score."""

    levels: int

    @nn.compact
    def __call__(self, x):
        for level in range(self.levels):
            x = nn.leaky_relu(nn.Conv(64 * 2**level, (4, 4), strides=2)(x), 0.2)
        return nn.Dense(1)(x.reshape(x.shape[0], -1))


class AdversarialPair(nn.Module):
    """A generator, and a discriminator that scores real and generated images."""

    levels: int

    @nn.compact
    def __call__(self, z, images):
        fake = Generator(self.levels)(z)
        critic = Discriminator(self.levels, name="critic_0")
        real, made = critic(images), critic(fake)
        held = critic(jax.lax.stop_gradient(fake))
        return [nn.softplus(-real) + nn.softplus(held), nn.softplus(-made)]


class CycleGAN(nn.Module):
    """Two translators between image domains, with cycles and critics."""

    depth: int

    @nn.compact
    def __call__(self, a, b):
        forth, back = Translator(self.depth), Translator(self.depth)
        critics = Discriminator(3), Discriminator(3)
        to_b, to_a = forth(a), back(b)
        cycles = [jnp.abs(back(to_b) - a), jnp.abs(forth(to_a) - b)]
        scores = [(critics[1](to_b) - 1) ** 2, (critics[0](to_a) - 1) ** 2]
        same = [jnp.abs(forth(b) - b), jnp.abs(back(a) - a)]
        return [*cycles, *scores, *same]


class Translator(nn.Module):
    """Down, residual blocks, up."""

    depth: int

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(64, (3, 3), strides=2)(nn.relu(nn.Conv(32, (7, 7))(x))))
        for _ in range(self.depth):
            y = nn.relu(nn.GroupNorm(8)(nn.Conv(64, (3, 3))(x)))
            x = x + nn.Conv(64, (3, 3))(y)
        return nn.tanh(nn.Conv(3, (7, 7))(upsample(x)))


class VAE(nn.Module):
    """Encoder, sampled latents in one or several levels (ladder), decoder; its two losses."""

    levels: int
    latents: int = 64

    @nn.compact
    def __call__(self, x, noise):
        states, target = [], x
        for level in range(self.levels):
            x = nn.silu(nn.Conv(32 * 2**level, (3, 3), strides=2)(x))
            states.append(x)
        divergences, decoded = [], jnp.zeros(())
        for state in reversed(states):
            mean, log_scale = jnp.split(nn.Conv(2 * self.latents, (1, 1))(state), 2, axis=-1)
            height, width = state.shape[1:3]
            sample = mean + jnp.exp(log_scale) * noise[:, :height, :width, : self.latents]
            divergences.append(0.5 * (mean**2 + jnp.exp(2 * log_scale)) - log_scale)
            decoded = upsample(nn.silu(nn.Conv(64, (3, 3))(sample) + decoded))
        return (nn.Conv(3, (3, 3))(decoded) - target) ** 2, divergences


class Coupling(nn.Module):
    """RealNVP: one half of the channels scales and shifts the other."""

    flipped: bool

    @nn.compact
    def __call__(self, x):
        left, right = jnp.split(x[..., ::-1] if self.flipped else x, 2, axis=-1)
        log_scale, shift = jnp.split(MLP((256, 256, 2 * left.shape[-1]))(right), 2, axis=-1)
        log_scale = nn.tanh(log_scale)
        made = jnp.concatenate([left * jnp.exp(log_scale) + shift, right], axis=-1)
        return made, log_scale.sum(axis=-1)


class Flow(nn.Module):
    """Couplings in sequence; the negative log-likelihood."""

    couplings: int
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        total = 0.0
        for index in range(self.couplings):
            x, volume = block(Coupling, self.remat)(bool(index % 2))(x)
            total = total + volume
        return 0.5 * (x**2).sum(axis=-1) - total


class Capsules(nn.Module):
    """Capsules with routing by agreement, its iterations unrolled."""

    routings: int
    capsules: int = 10

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(128, (9, 9), padding="VALID")(x))
        x = nn.Conv(64, (9, 9), strides=4, padding="VALID")(x)
        primary = _squashed(x.reshape(x.shape[0], -1, 8))
        shape = (primary.shape[1], self.capsules, 8, 16)
        weights = self.param("weights", nn.initializers.normal(0.1), shape)
        votes = jnp.einsum("bid,iode->bioe", primary, weights)
        logits = jnp.zeros(votes.shape[:3])
        for _ in range(self.routings):
            shares = nn.softmax(logits, axis=2)
            capsules = _squashed((shares[..., None] * votes).sum(axis=1))
            logits = logits + (votes * capsules[:, None]).sum(axis=-1)
        decoded = MLP((512, 1024, 32 * 32 * 3))(capsules.reshape(x.shape[0], -1))
        return jnp.sqrt((capsules**2).sum(axis=-1) + 1e-7), decoded


def _squashed(x):
    square = (x**2).sum(axis=-1, keepdims=True)
    return x * square / (1 + square) / jnp.sqrt(square + 1e-7)


FAMILIES = (
    Family("gan", AdversarialPair, (), [
        {"levels": n, "inputs": ((16, 128), (16, 4 * 2**n, 4 * 2**n, 3))} for n in (2, 3)
    ]),
    Family("cyclegan", CycleGAN, (IMAGE, IMAGE), each("depth", 1, 3)),
    Family("vae", VAE, (SMALL, (16, 16, 16, 64)), each("levels", 1, 2)),
    Family("realnvp", Flow, ((256, 64),), each("couplings", 2, 6)),
    Family("capsules", Capsules, (SMALL,), each("routings", 1, 3)),
)  # fmt: skip
