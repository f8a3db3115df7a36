"""Linear algebra by tiles: products, factorisations, transforms and solvers as task graphs.

A matrix is a dict from (row, column) of a tile to the tile.
"""

import cmath
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Tiles = dict[tuple[int, int], jax.Array]


def split(matrix: jax.Array, count: int) -> Tiles:
    """A square matrix in count x count tiles."""
    size = matrix.shape[0] // count
    return {
        (i, j): matrix[i * size : (i + 1) * size, j * size : (j + 1) * size]
        for i in range(count)
        for j in range(count)
    }


def joined(tiles: Tiles, count: int) -> jax.Array:
    """The matrix of a full set of tiles."""
    return jnp.block([[tiles[i, j] for j in range(count)] for i in range(count)])


def blocked_product(a: jax.Array, b: jax.Array, *, count: int) -> jax.Array:
    """A product by tiles, partial products summed one by one."""
    left, right, made = split(a, count), split(b, count), {}
    for i in range(count):
        for j in range(count):
            parts = [left[i, k] @ right[k, j] for k in range(count)]
            made[i, j] = sum(parts[1:], parts[0])
    return joined(made, count)


def tree_sum(parts: list[jax.Array]) -> jax.Array:
    """The sum in pairs, pairs of pairs, and so on."""
    return tree_reduce(jnp.add, parts)


def tree_reduce(combine: Callable, parts: list) -> jax.Array:
    """``combine`` in pairs, pairs of pairs, and so on."""
    while len(parts) > 1:
        pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(parts) // 2 * 2 :]
    return parts[0]


def strassen(a: jax.Array, b: jax.Array, *, depth: int) -> jax.Array:
    """Seven products in place of eight, recursively."""
    if not depth:
        return a @ b
    a11, a12, a21, a22 = _quarters(a)
    b11, b12, b21, b22 = _quarters(b)
    pairs = (
        *((a11 + a22, b11 + b22), (a21 + a22, b11), (a11, b12 - b22), (a22, b21 - b11)),
        *((a11 + a12, b22), (a21 - a11, b11 + b12), (a12 - a22, b21 + b22)),
    )
    m1, m2, m3, m4, m5, m6, m7 = (strassen(x, y, depth=depth - 1) for x, y in pairs)
    return jnp.block([[m1 + m4 - m5 + m7, m3 + m5], [m2 + m4, m1 - m2 + m3 + m6]])


def winograd(a: jax.Array, b: jax.Array, *, depth: int) -> jax.Array:
    """Strassen's product with Winograd's fifteen sums."""
    if not depth:
        return a @ b
    a11, a12, a21, a22 = _quarters(a)
    b11, b12, b21, b22 = _quarters(b)
    s1, t1 = a21 + a22, b12 - b11
    s2, t2 = s1 - a11, b22 - t1
    s3, t3 = a11 - a21, b22 - b12
    s4, t4 = a12 - s2, t2 - b21
    pairs = ((a11, b11), (a12, b21), (s4, b22), (a22, t4), (s1, t1), (s2, t2), (s3, t3))
    p1, p2, p3, p4, p5, p6, p7 = (winograd(x, y, depth=depth - 1) for x, y in pairs)
    u2 = p1 + p6
    u3 = u2 + p7
    return jnp.block([[p1 + p2, u2 + p5 + p3], [u3 - p4, u3 + p5]])


def _quarters(matrix: jax.Array) -> list[jax.Array]:
    tiles = split(matrix, 2)
    return [tiles[key] for key in ((0, 0), (0, 1), (1, 0), (1, 1))]


def blocked_cholesky(matrix: jax.Array, *, count: int) -> list[jax.Array]:
    """The lower factor's tiles, right-looking: potrf, trsm, syrk, gemm."""
    tiles = split(matrix, count)
    for k in range(count):
        tiles[k, k] = jax.lax.linalg.cholesky(tiles[k, k], symmetrize_input=False)
        for i in range(k + 1, count):
            tiles[i, k] = _solve(tiles[k, k], tiles[i, k], left_side=False, transpose_a=True)
        for i in range(k + 1, count):
            for j in range(k + 1, i + 1):
                tiles[i, j] = tiles[i, j] - tiles[i, k] @ tiles[j, k].T
    return [tiles[i, j] for i in range(count) for j in range(i + 1)]


def _solve(a: jax.Array, b: jax.Array, **options: bool) -> jax.Array:
    return jax.lax.linalg.triangular_solve(a, b, lower=True, **options)


def blocked_lu(matrix: jax.Array, *, count: int) -> list[jax.Array]:
    """Both factors' tiles, without pivots across tiles."""
    tiles = split(matrix, count)
    for k in range(count):
        tiles[k, k] = jax.lax.linalg.lu(tiles[k, k])[0]
        for i in range(k + 1, count):
            tiles[k, i] = _solve(tiles[k, k], tiles[k, i], left_side=True, unit_diagonal=True)
            tiles[i, k] = jax.lax.linalg.triangular_solve(tiles[k, k], tiles[i, k])
        for i in range(k + 1, count):
            for j in range(k + 1, count):
                tiles[i, j] = tiles[i, j] - tiles[i, k] @ tiles[k, j]
    return list(tiles.values())


def tiled_qr(matrix: jax.Array, *, count: int) -> list[jax.Array]:
    """The upper factor's tiles; each column is eliminated from the top down."""
    tiles = split(matrix, count)
    for k in range(count):
        _factor(tiles, (k,), k, count)
        for below in range(k + 1, count):
            _factor(tiles, (k, below), k, count)
    return [tiles[i, j] for i in range(count) for j in range(i, count)]


def _factor(tiles: Tiles, rows: tuple[int, ...], k: int, count: int) -> None:
    """Factors the stacked tiles of a column and applies the rotation to those at their right."""
    stacked = jnp.concatenate([tiles[i, k] for i in rows])
    rotation, upper = jax.lax.linalg.qr(stacked, full_matrices=True)
    size = tiles[rows[0], k].shape[0]
    tiles[rows[0], k] = upper[:size]
    for j in range(k + 1, count):
        turned = rotation.T @ jnp.concatenate([tiles[i, j] for i in rows])
        for place, i in enumerate(rows):
            tiles[i, j] = turned[place * size : (place + 1) * size]


def tile_solve(lower: jax.Array, right: jax.Array, *, count: int) -> list[jax.Array]:
    """Forward and back substitution by tiles with a triangular matrix and its transpose."""
    tiles, size = split(lower, count), lower.shape[0] // count
    values = [right[i * size : (i + 1) * size] for i in range(count)]
    for i in range(count):
        for j in range(i):
            values[i] = values[i] - tiles[i, j] @ values[j]
        values[i] = _solve(tiles[i, i], values[i], left_side=True)
    for i in reversed(range(count)):
        for j in range(i + 1, count):
            values[i] = values[i] - tiles[j, i].T @ values[j]
        values[i] = _solve(tiles[i, i], values[i], left_side=True, transpose_a=True)
    return values


def conjugate_gradient(matrix: jax.Array, right: jax.Array, *, steps: int) -> jax.Array:
    """Unrolled iterations."""
    x, residual = jnp.zeros_like(right), right
    direction, square = residual, jnp.vdot(residual, residual)
    for _ in range(steps):
        image = matrix @ direction
        step = square / jnp.vdot(direction, image)
        x, residual = x + step * direction, residual - step * image
        square, before = jnp.vdot(residual, residual), square
        direction = residual + square / before * direction
    return x


def gmres(matrix: jax.Array, right: jax.Array, *, steps: int) -> jax.Array:
    """Arnoldi with modified Gram-Schmidt, then a small least-squares problem."""
    basis, columns = [right / jnp.linalg.norm(right)], []
    for step in range(steps):
        vector, column = matrix @ basis[-1], []
        for known in basis:
            column.append(jnp.vdot(known, vector))
            vector = vector - column[-1] * known
        column.append(jnp.linalg.norm(vector))
        basis.append(vector / column[-1])
        columns.append(jnp.stack([*column, *[jnp.zeros(())] * (steps - 1 - step)]))
    hessenberg = jnp.stack(columns, axis=1)
    rotation, upper = jax.lax.linalg.qr(hessenberg, full_matrices=False)
    weights = jax.lax.linalg.triangular_solve(upper, rotation[0][:, None], left_side=True)
    return jnp.stack(basis[:-1], axis=1) @ weights


def butterfly(x: jax.Array, *, size: int) -> list[jax.Array]:
    """A radix-2 Fourier transform of ``size`` rows, every butterfly on its own."""
    return _transform([x[i] for i in range(size)])


def _transform(rows: list[jax.Array]) -> list[jax.Array]:
    if len(rows) == 1:
        return rows
    even, odd, count = _transform(rows[::2]), _transform(rows[1::2]), len(rows)
    turned = [y * cmath.exp(-2j * cmath.pi * k / count) for k, y in enumerate(odd)]
    pairs = list(zip(even, turned, strict=True))
    return [a + b for a, b in pairs] + [a - b for a, b in pairs]


def polynomial(matrix: jax.Array, *, degree: int) -> jax.Array:
    """A Taylor series of exp by Horner's scheme."""
    unit = jnp.eye(matrix.shape[0])
    factors = [1.0]
    for k in range(1, degree + 1):
        factors.append(factors[-1] / k)
    total: Any = factors[-1] * unit
    for factor in reversed(factors[:-1]):
        total = total @ matrix + factor * unit
    return total


def newton_schulz(matrix: jax.Array, *, steps: int) -> jax.Array:
    """The polar factor by quintic iterations (as in Muon)."""
    x = matrix / jnp.linalg.norm(matrix)
    for _ in range(steps):
        square = x @ x.T
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return x


def matrix_chain(matrices: list[jax.Array], *, split_at: int) -> jax.Array:
    """Products of a chain in the order of a recursive split; all prefixes' traces beside."""

    def product(low: int, high: int) -> jax.Array:
        if high - low == 1:
            return matrices[low]
        middle = low + max(1, (high - low) // split_at)
        return product(low, middle) @ product(middle, high)

    return product(0, len(matrices))
