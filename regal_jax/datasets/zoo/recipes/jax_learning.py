"""Programs that learn but are no plain networks: optimizers, physics, meta-learning."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

Layers = list[tuple[jax.Array, jax.Array]]


def dense(layers: Layers, x: jax.Array) -> jax.Array:
    """A tanh network."""
    for weight, bias in layers[:-1]:
        x = jnp.tanh(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def optimizer_step(params: list, gradients: list, state: object, *, rule: str) -> tuple:
    """One update of parameters by a rule of optax."""
    updates, state = getattr(optax, rule)(1e-3).update(gradients, state, params)
    return optax.apply_updates(params, updates), state


def shampoo(params: list, gradients: list, left: list, right: list, *, roots: int) -> list:
    """Preconditioners from both sides, their inverse fourth roots by coupled Newton iterations."""
    made = []
    for weight, slope, rows, columns in zip(params, gradients, left, right, strict=True):
        rows = 0.99 * rows + slope @ slope.T
        columns = 0.99 * columns + slope.T @ slope
        step = _inverse_root(rows, roots) @ slope @ _inverse_root(columns, roots)
        made.append((weight - 1e-3 * step, rows, columns))
    return made


def _inverse_root(matrix: jax.Array, steps: int) -> jax.Array:
    unit = jnp.eye(matrix.shape[0])
    scale = 1.0 / jnp.linalg.norm(matrix)
    root, power = unit * scale**0.25, matrix * scale
    for _ in range(steps):
        change = (5.0 * unit - power) / 4.0
        root, square = root @ change, change @ change
        power = square @ square @ power
    return root


def poisson_loss(layers: Layers, points: jax.Array, *, dimensions: int) -> jax.Array:
    """The residual of a Poisson equation; second derivatives by forward over forward."""

    def value(x: jax.Array) -> jax.Array:
        return dense(layers, x)[:, 0]

    total = jnp.zeros(points.shape[0])
    for axis in range(dimensions):
        direction = jnp.zeros_like(points).at[:, axis].set(1.0)
        total = total + _along(lambda x, d=direction: _along(value, x, d), points, direction)
    return (total + jnp.sin(points).prod(axis=1)) ** 2


def _along(function: Callable, x: jax.Array, direction: jax.Array) -> jax.Array:
    return jax.jvp(function, (x,), (direction,))[1]


def heat_loss(layers: Layers, points: jax.Array, *, order: int) -> list[jax.Array]:
    """Residuals of a flow with derivatives up to an order (Korteweg-de Vries at 3)."""

    def value(x: jax.Array) -> jax.Array:
        return dense(layers, x)[:, 0]

    time = jnp.zeros_like(points).at[:, 0].set(1.0)
    space = jnp.zeros_like(points).at[:, 1].set(1.0)
    spatial, function = [], value
    for _ in range(order):
        function = _derivative(function, space)
        spatial.append(function(points))
    residual = _along(value, points, time) + value(points) * spatial[0] + spatial[-1]
    return [residual**2, (value(points * space) - 1.0) ** 2]


def _derivative(function: Callable, direction: jax.Array) -> Callable:
    return lambda x: _along(function, x, direction)


def hessian_loss(layers: Layers, points: jax.Array) -> list[jax.Array]:
    """A Monge-Ampere residual: the determinant of the whole Hessian of each point."""
    hessians = jax.vmap(jax.hessian(lambda x: dense(layers, x[None])[0, 0]))(points)
    return [(jnp.linalg.det(hessians) - 1.0) ** 2]


def meta_loss(layers: Layers, inputs: jax.Array, *, tasks: int, steps: int) -> list[jax.Array]:
    """Adapts to each task by gradient steps, which are differentiated through (MAML)."""

    def loss(layers: Layers, x: jax.Array) -> jax.Array:
        return ((dense(layers, x) - jnp.sin(x)) ** 2).mean()

    losses = []
    for task in range(tasks):
        own = layers
        for _ in range(steps):
            slopes = jax.grad(loss)(own, inputs[task])
            own = jax.tree.map(lambda weight, slope: weight - 0.01 * slope, own, slopes)
        losses.append(loss(own, inputs[task] + 0.5))
    return losses


def hypernetwork(layers: Layers, code: jax.Array, x: jax.Array, *, depth: int) -> jax.Array:
    """One network makes the weights of every layer of another."""
    width = x.shape[-1]
    for layer in range(depth):
        weight = dense(layers, code[layer : layer + 1]).reshape(width, width)
        x = jnp.tanh(x @ weight) + x
    return x


def policy_rollout(layers: Layers, state: jax.Array, *, steps: int) -> jax.Array:
    """The cost of a controlled pendulum through its simulated steps."""
    angle, speed = state[:, :1], state[:, 1:]
    cost = jnp.zeros_like(angle)
    for _ in range(steps):
        features = jnp.concatenate([jnp.sin(angle), jnp.cos(angle), speed], axis=-1)
        force = dense(layers, features)[:, :1]
        speed = speed + 0.05 * (jnp.sin(angle) + force)
        angle = angle + 0.05 * speed
        cost = cost + angle**2 + 0.1 * speed**2 + 0.01 * force**2
    return cost


def implicit_surface(layers: Layers, points: jax.Array, *, depth: int) -> list[jax.Array]:
    """A signed distance whose gradient has length 1."""
    slopes = jax.vmap(jax.grad(lambda x: dense(layers, x[None])[0, 0]))(points)
    lengths = jnp.sqrt((slopes**2).sum(axis=-1) + 1e-6)
    return [(lengths - 1.0) ** 2, jnp.abs(dense(layers, points)[:, 0])]


def population_step(populations: list, noise: list, x: jax.Array, *, members: int) -> list:
    """Evolution strategies: each member's network with its noise, weighed by fitness."""
    scores = []
    for member in range(members):
        layers = [(w + n[member], b) for (w, b), n in zip(populations, noise, strict=True)]
        scores.append(-((dense(layers, x) - 1.0) ** 2).mean())
    weights = jax.nn.softmax(jnp.stack(scores))
    return [w + jnp.tensordot(weights, n, 1) for (w, _), n in zip(populations, noise, strict=True)]


def wide_ensemble(networks: list[Layers], x: jax.Array) -> list[jax.Array]:
    """Independent networks, their mean and their disagreement."""
    outputs = jnp.stack([dense(layers, x) for layers in networks])
    return [outputs.mean(axis=0), outputs.var(axis=0)]
