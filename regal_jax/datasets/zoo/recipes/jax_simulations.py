"""Physics and finance as unrolled programs: particles, grids, rays, lattices."""

import itertools

import jax
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.jax_linear_algebra import tree_reduce, tree_sum


def molecular_dynamics(position: jax.Array, velocity: jax.Array, *, cells: int, steps: int) -> list:
    """Velocity Verlet; particles in cells on a ring that act on their neighbours only."""
    size = position.shape[0] // cells
    places = [position[i * size : (i + 1) * size] for i in range(cells)]
    speeds = [velocity[i * size : (i + 1) * size] for i in range(cells)]
    forces = _cell_forces(places)
    for _ in range(steps):
        speeds = [v + 0.005 * f for v, f in zip(speeds, forces, strict=True)]
        places = [x + 0.01 * v for x, v in zip(places, speeds, strict=True)]
        forces = _cell_forces(places)
        speeds = [v + 0.005 * f for v, f in zip(speeds, forces, strict=True)]
    return [places, tree_sum([(v**2).sum() for v in speeds])]


def _cell_forces(places: list[jax.Array]) -> list[jax.Array]:
    total = [_pair_force(x, x) for x in places]
    for i, x in enumerate(places):
        j = (i + 1) % len(places)
        total[i] = total[i] + _pair_force(x, places[j])
        total[j] = total[j] + _pair_force(places[j], x)
    return total


def _pair_force(x: jax.Array, y: jax.Array) -> jax.Array:
    """Lennard-Jones forces of y on x."""
    gap = x[:, None] - y[None]
    inverse = 1.0 / ((gap**2).sum(axis=-1, keepdims=True) + 1e-2)
    sixth = inverse**3
    return (24.0 * inverse * sixth * (2.0 * sixth - 1.0) * gap).sum(axis=1)


def stencil(grid: jax.Array, *, count: int, steps: int) -> list[jax.Array]:
    """A heat equation in tiles, which exchange their borders at every step."""
    size = grid.shape[0] // count
    keys = [(i, j) for i in range(count) for j in range(count)]
    tiles = {(i, j): grid[i * size : (i + 1) * size, j * size : (j + 1) * size] for i, j in keys}
    for _ in range(steps):
        tiles = {key: _relaxed(tiles, key, count) for key in keys}
    return list(tiles.values())


def _relaxed(tiles: dict, key: tuple[int, int], count: int) -> jax.Array:
    i, j = key
    own = tiles[key]
    above, below = tiles[(i - 1) % count, j][-1:], tiles[(i + 1) % count, j][:1]
    left, right = tiles[i, (j - 1) % count][:, -1:], tiles[i, (j + 1) % count][:, :1]
    tall = jnp.concatenate([above, own, below], axis=0)
    wide = jnp.concatenate([left, own, right], axis=1)
    around = tall[:-2] + tall[2:] + wide[:, :-2] + wide[:, 2:]
    return own + 0.1 * (around - 4.0 * own)


def multigrid(grid: jax.Array, right: jax.Array, *, levels: int, cycles: int) -> jax.Array:
    """V-cycles on a Poisson equation."""
    for _ in range(cycles):
        grid = _v_cycle(grid, right, levels)
    return grid


def _v_cycle(grid: jax.Array, right: jax.Array, levels: int) -> jax.Array:
    grid = _smooth(grid, right)
    if levels == 1:
        return _smooth(grid, right)
    residual = right - _laplace(grid)
    half = grid.shape[0] // 2
    coarse = residual.reshape(half, 2, half, 2).mean(axis=(1, 3))
    correction = _v_cycle(jnp.zeros_like(coarse), coarse, levels - 1)
    return _smooth(grid + jnp.repeat(jnp.repeat(correction, 2, 0), 2, 1), right)


def _laplace(grid: jax.Array) -> jax.Array:
    shifts = [jnp.roll(grid, shift, axis) for shift in (1, -1) for axis in (0, 1)]
    return sum(shifts) - 4.0 * grid


def _smooth(grid: jax.Array, right: jax.Array) -> jax.Array:
    return grid + 0.2 * (_laplace(grid) - right)


def ray_march(origins: jax.Array, directions: jax.Array, centres: jax.Array, *,
              spheres: int, steps: int) -> jax.Array:  # fmt: skip
    """Rays to the nearest of smoothly joined spheres, shaded by the field's gradient."""
    travelled = jnp.zeros(origins.shape[0])
    for _ in range(steps):
        points = origins + travelled[:, None] * directions
        travelled = travelled + _distance(points, centres, spheres)
    points = origins + travelled[:, None] * directions
    normals = jax.grad(lambda p: _distance(p, centres, spheres).sum())(points)
    return jnp.clip(normals @ jnp.ones(3), 0.0) * jnp.exp(-0.1 * travelled)


def _distance(points: jax.Array, centres: jax.Array, spheres: int) -> jax.Array:
    parts = [jnp.sqrt(((points - centres[i]) ** 2).sum(axis=-1) + 1e-6) - 1 for i in range(spheres)]
    return -tree_reduce(jnp.logaddexp, [-8.0 * part for part in parts]) / 8.0


def n_body_tree(points: jax.Array, *, depth: int) -> list[jax.Array]:
    """Moments up a binary tree and far fields down it (a one-dimensional multipole method)."""
    leaves = jnp.split(points, 2**depth)
    moments = {(depth, i): jnp.stack([x.sum(), (x**2).sum()]) for i, x in enumerate(leaves)}
    for level in range(depth - 1, -1, -1):
        for i in range(2**level):
            pair = moments[level + 1, 2 * i], moments[level + 1, 2 * i + 1]
            moments[level, i] = pair[0] + jnp.roll(pair[1], 1)
    fields = {(0, 0): jnp.zeros(2)}
    for level in range(1, depth + 1):
        for i in range(2**level):
            far = [moments[level, j] for j in _far_cells(level, i)]
            fields[level, i] = sum(far, jnp.tanh(fields[level - 1, i // 2]))
    return [x * fields[depth, i][0] + fields[depth, i][1] for i, x in enumerate(leaves)]


def _far_cells(level: int, i: int) -> list[int]:
    """Cells whose parents touch this cell's parent, but which don't touch it themselves."""
    parent = i // 2
    near = range(max(0, 2 * parent - 2), min(2**level, 2 * parent + 4))
    return [j for j in near if abs(j - i) > 1]


def option_lattice(price: jax.Array, *, steps: int) -> jax.Array:
    """An American option on a binomial lattice, node by node."""
    up, rate = 1.02, 0.999
    strikes = [jnp.maximum(1.0 - price * up ** (steps - 2 * i), 0.0) for i in range(steps + 1)]
    for step in range(steps - 1, -1, -1):
        held = [rate * 0.5 * (a + b) for a, b in itertools.pairwise(strikes)]
        now = [jnp.maximum(1.0 - price * up ** (step - 2 * i), 0.0) for i in range(step + 1)]
        strikes = [jnp.maximum(a, b) for a, b in zip(held, now, strict=True)]
    return strikes[0]
