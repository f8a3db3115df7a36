"""Estimation and clustering as unrolled programs."""

import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.jax_linear_algebra import tree_sum


def kalman_filter(
    transition: jax.Array, observation: jax.Array, noise: jax.Array, seen: jax.Array,
    *, steps: int,
) -> list[jax.Array]:  # fmt: skip
    """Filtered states."""
    size = transition.shape[0]
    mean, spread, unit = jnp.zeros(size), jnp.eye(size), jnp.eye(size)
    filtered = []
    for step in range(steps):
        mean, spread = transition @ mean, transition @ spread @ transition.T + unit
        crossed = spread @ observation.T
        gain = crossed @ jnp.linalg.inv(observation @ crossed + noise)
        mean = mean + gain @ (seen[step] - observation @ mean)
        spread = (unit - gain @ observation) @ spread
        filtered.append(mean)
    return filtered


def particle_filter(particles: jax.Array, noise: jax.Array, seen: jax.Array, *, steps: int) -> list:
    """Move, weigh, resample; the estimates of each step."""
    estimates = []
    for step in range(steps):
        particles = jnp.sin(particles) + noise[step]
        weights = jax.nn.softmax(-((particles - seen[step]) ** 2).sum(axis=-1))
        estimates.append(weights @ particles)
        points = (jnp.arange(particles.shape[0]) + 0.5) / particles.shape[0]
        places = (jnp.cumsum(weights)[None] < points[:, None]).sum(axis=1)
        particles = particles[jnp.minimum(places, particles.shape[0] - 1)]
    return [estimates, particles]


def k_means(points: jax.Array, centres: jax.Array, *, parts: int, steps: int) -> jax.Array:
    """Lloyd's iterations, the points in parts that are mapped and reduced."""
    groups = jnp.split(points, parts)
    for _ in range(steps):
        sums = [_assigned(group, centres) for group in groups]
        total = tree_sum([part for part, _ in sums])
        centres = total / (tree_sum([count for _, count in sums])[:, None] + 1e-6)
    return centres


def _assigned(points: jax.Array, centres: jax.Array) -> tuple[jax.Array, jax.Array]:
    distances = ((points[:, None] - centres[None]) ** 2).sum(axis=-1)
    nearest = jax.nn.one_hot(distances.argmin(axis=1), centres.shape[0])
    return nearest.T @ points, nearest.sum(axis=0)


def mixture_em(points: jax.Array, means: jax.Array, *, parts: int, steps: int) -> list[jax.Array]:
    """Expectation maximisation of a Gaussian mixture with a spread per component."""
    spread, weight = jnp.ones(means.shape[0]), jnp.ones(means.shape[0])
    groups = jnp.split(points, parts)
    for _ in range(steps):
        shares, gaps = [], []
        for group in groups:
            gaps.append(((group[:, None] - means[None]) ** 2).sum(axis=-1))
            score = jnp.log(weight) - 0.5 * gaps[-1] / spread - jnp.log(spread)
            shares.append(jax.nn.softmax(score, axis=1))
        weight = tree_sum([share.sum(axis=0) for share in shares]) + 1e-6
        pairs = list(zip(shares, groups, gaps, strict=True))
        means = tree_sum([share.T @ group for share, group, _ in pairs]) / weight[:, None]
        spread = tree_sum([(share * gap).sum(axis=0) for share, _, gap in pairs]) / weight + 1e-3
    return [means, spread, weight]


def hamiltonian(position: jax.Array, momentum: jax.Array, weight: jax.Array, *,
                chains: int, steps: int) -> list:  # fmt: skip
    """Leapfrog steps of several Monte Carlo chains on one potential, accepted or not."""

    def potential(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(weight @ x) ** 2) + 0.5 * x @ x

    made = []
    for x, p in zip(jnp.split(position, chains), jnp.split(momentum, chains), strict=True):
        x, p = x[0], p[0]
        start = potential(x) + 0.5 * p @ p
        before = x
        for _ in range(steps):
            p = p - 0.05 * jax.grad(potential)(x)
            x = x + 0.1 * p
            p = p - 0.05 * jax.grad(potential)(x)
        made.append(jnp.where(potential(x) + 0.5 * p @ p < start + 0.1, x, before))
    return made


def page_rank(blocks: jax.Array, *, count: int, steps: int) -> list[jax.Array]:
    """Power iterations on a matrix of blocks, each block a product of its own."""
    ranks = [jnp.full(blocks.shape[-1], 1.0 / blocks.shape[-1]) for _ in range(count)]
    for _ in range(steps):
        made = [tree_sum([blocks[i, j] @ ranks[j] for j in range(count)]) for i in range(count)]
        total = tree_sum([x.sum() for x in made])
        ranks = [0.85 * x / total + 0.15 / count for x in made]
    return ranks


def sinkhorn(cost: jax.Array, *, steps: int) -> jax.Array:
    """Optimal transport in the log domain."""
    first, second = jnp.zeros(cost.shape[0]), jnp.zeros(cost.shape[1])
    for _ in range(steps):
        first = -jax.nn.logsumexp(second[None] - cost, axis=1)
        second = -jax.nn.logsumexp(first[:, None] - cost, axis=0)
    return (jnp.exp(first[:, None] + second[None] - cost) * cost).sum()
