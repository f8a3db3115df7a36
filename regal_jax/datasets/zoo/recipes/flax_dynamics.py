"""Models unrolled through time or iterations: equations, fixed points, agents."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_families import Family
from regal_jax.datasets.zoo.recipes.flax_generative import Generator
from regal_jax.datasets.zoo.recipes.flax_layers import MLP
from regal_jax.datasets.zoo.recipes.flax_trunk import Trunk
from regal_jax.datasets.zoo.recipes.recipe import each

_ACTIONS = ((256, 17), (256, 6), (256, 1), (256, 17))
FIELDS = (128, 256)


class NeuralODE(nn.Module):
    """A field integrated by Runge-Kutta, unrolled; ``stages`` is its order."""

    steps: int
    width: int = 256

    @nn.compact
    def __call__(self, x):
        field = MLP((self.width, self.width, x.shape[-1]), nn.tanh)
        size = 1.0 / self.steps
        for _ in range(self.steps):
            x = _runge_kutta(field, x, size)
        return nn.Dense(10)(x)


def _runge_kutta(field: Callable, x: jax.Array, size: float) -> jax.Array:
    first = field(x)
    second = field(x + size / 2 * first)
    third = field(x + size / 2 * second)
    fourth = field(x + size * third)
    return x + size / 6 * (first + 2 * second + 2 * third + fourth)


class DeepEquilibrium(nn.Module):
    """A layer iterated to its fixed point with Anderson-like mixing of the last iterates."""

    steps: int
    memory: int = 3

    @nn.compact
    def __call__(self, x):
        inside, outside = nn.Dense(256), nn.Dense(256)(x)
        iterates: list = [jnp.zeros_like(outside)]
        for _ in range(self.steps):
            made = [nn.tanh(inside(z) + outside) for z in iterates[-self.memory :]]
            gaps = [(g - z).mean() for g, z in zip(made, iterates[-self.memory :], strict=True)]
            weights = nn.softmax(-(jnp.stack(gaps) ** 2))
            iterates.append(sum(weights[i] * g for i, g in enumerate(made)))
        return nn.Dense(10)(iterates[-1])


class WorldModel(nn.Module):
    """Encoder, recurrent latent dynamics, and heads for pixels, reward and value each step."""

    steps: int

    @nn.compact
    def __call__(self, images, actions):
        encoder, cell, decoder = Trunk(2, 32), nn.GRUCell(256), Generator(3)
        prior, posterior = nn.Dense(64), nn.Dense(64)
        reward, value = MLP((128, 1)), MLP((128, 1))
        state, outputs = jnp.zeros((images.shape[0], 256)), []
        for step in range(self.steps):
            seen = encoder(images[:, step]).mean(axis=(1, 2))
            guess = prior(state)
            latent = posterior(jnp.concatenate([state, seen], axis=-1))
            read = jnp.concatenate([latent, actions[:, step]], axis=-1)
            state, _ = cell(state, read)
            pixels = (decoder(state) - images[:, step]) ** 2
            outputs += [pixels, (guess - latent) ** 2, reward(state), value(state)]
        return outputs


class ActorCritic(nn.Module):
    """A policy, twin critics and their targets on one transition (SAC-like)."""

    critics: int = 2
    width: int = 256

    @nn.compact
    def __call__(self, state, action, reward, after):
        actor = MLP((self.width, self.width, action.shape[-1]))
        chosen, future = nn.tanh(actor(state)), nn.tanh(actor(after))
        critics = [MLP((self.width, self.width, 1)) for _ in range(self.critics)]
        targets = [MLP((self.width, self.width, 1)) for _ in range(self.critics)]
        values = [t(jnp.concatenate([after, future], axis=-1)) for t in targets]
        goal = jax.lax.stop_gradient(reward + 0.99 * jnp.minimum(values[0], values[-1]))
        losses = [(c(jnp.concatenate([state, action], axis=-1)) - goal) ** 2 for c in critics]
        return [*losses, *(-c(jnp.concatenate([state, chosen], axis=-1)) for c in critics)]


FAMILIES = (
    Family("neural_ode", NeuralODE, (FIELDS,), each("steps", 1, 4)),
    Family("deep_equilibrium", DeepEquilibrium, (FIELDS,), each("steps", 4, 12)),
    Family("world_model", WorldModel, ((8, 12, 32, 32, 3), (8, 12, 6)), each("steps", 1, 3)),
    Family("actor_critic", ActorCritic, _ACTIONS, each("critics", 2, 5)),
)  # fmt: skip
