"""JAX programs that are no plain networks: tile algorithms, simulations, searches, optimizers."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from regal_jax.datasets.zoo.recipes import jax_learning as learning
from regal_jax.datasets.zoo.recipes import jax_linear_algebra as algebra
from regal_jax.datasets.zoo.recipes import jax_networks as networks
from regal_jax.datasets.zoo.recipes import jax_simulations as simulations
from regal_jax.datasets.zoo.recipes import jax_statistics as statistics
from regal_jax.datasets.zoo.recipes import jax_steps
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source, each

Size = Mapping[str, Any]


class Program(NamedTuple):
    """A function, the arguments for one of its sizes, and its sizes (keyword arguments).

    The first ``learned`` arguments are parameters, by which training differentiates."""

    family: str
    function: Callable[..., Any]
    arguments: Callable[..., Sequence[Any]]
    sizes: Sequence[Size]
    modes: tuple[str, ...] = jax_steps.TRAINING
    learned: int = 1


def recipes() -> Iterator[Recipe]:
    """Every size of every program, numbered from 1."""
    for program in PROGRAMS:
        for rank, size in enumerate(program.sizes):
            yield jax_steps.model_recipe(
                f"jax/{program.family}_{rank + 1}",
                f"jax/{program.family}",
                partial(program_model, program, size),
                program.modes,
            )


def program_model(program: Program, size: Size, checkpointed: bool = False) -> jax_steps.Model:
    """The program of one size; with activations that are computed again, if it can."""
    if checkpointed:
        size = {**size, "checkpointed": True}
    arguments = tuple(program.arguments(**size))
    function = partial(program.function, **size)

    def apply(params: Any, state: Any, inputs: Any, training: bool) -> tuple[Any, Any]:
        return function(*params, *inputs), state

    parts = arguments[: program.learned], arguments[program.learned :]
    return jax_steps.Model(apply, parts[0], (), parts[1])


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    """The shape of an array of 32-bit floats."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _arrays(*shapes: tuple[int, ...]) -> Callable[..., Sequence[Any]]:
    """Floats of the same shapes for every size."""
    return lambda **size: [floats(*shape) for shape in shapes]


def _layers(*widths: int) -> list[tuple[Any, Any]]:
    pairs = itertools.pairwise(widths)
    return [(floats(a, b), floats(b)) for a, b in pairs]


def _network(widths: Sequence[int], *shapes: tuple[int, ...]) -> Callable[..., Sequence[Any]]:
    """A network's layers, then floats."""
    return lambda **size: [_layers(*widths), *(floats(*shape) for shape in shapes)]


def _grid(first: str, second: str, *pairs: tuple[Any, Any], **more: Any) -> list[Size]:
    return [{first: a, second: b, **more} for a, b in pairs]


def _optimizer(layers: int, rule: str) -> Sequence[Any]:
    params = [array for pair in _layers(*(512,) * (layers + 1)) for array in pair]
    return [params, params, jax.eval_shape(getattr(optax, rule)(1e-3).init, params)]


def _optimizer_step(
    params: Any, gradients: Any, state: Any, *, layers: int, rule: str
) -> tuple[Any, Any]:
    return learning.optimizer_step(params, gradients, state, rule=rule)


def _shampoo(layers: int, roots: int) -> Sequence[Any]:
    return [[floats(256, 256)] * layers] * 4


def _shampoo_step(*arrays: Any, layers: int, roots: int) -> list:
    return learning.shampoo(*arrays, roots=roots)


def _population(members: int) -> Sequence[Any]:
    layers = _layers(32, 128, 128, 8)
    return [layers, [floats(members, *weight.shape) for weight, _ in layers], floats(64, 32)]


def _ensemble(networks: int, depth: int) -> Sequence[Any]:
    return [[_layers(64, *(128,) * depth, 8)] * networks, floats(128, 64)]


def _ensemble_step(members: Any, x: Any, *, networks: int, depth: int) -> Any:
    return learning.wide_ensemble(members, x)


def _chain(count: int, split_at: int) -> Sequence[Any]:
    widths = [64 * (1 + (7 * i) % 5) for i in range(count + 1)]
    return [[floats(a, b) for a, b in itertools.pairwise(widths)]]


def _matrix_chain(matrices: Any, *, count: int, split_at: int) -> Any:
    return algebra.matrix_chain(matrices, split_at=split_at)


FORWARD = ("inference",)
_SQUARE = _arrays((1024, 1024))
_PAIR = _arrays((1024, 1024), (1024, 1024))
_MATRIX = _arrays((960, 960))
_MIXTURE = _arrays((4096, 16), (32, 16))
_SYSTEM = _arrays((512, 512), (512,))
_ROWS = _arrays((64, 4096))
_CLOUD = _arrays((1024, 3), (1024, 3))
_PLANE = (2, 64, 64, 64, 1)

PROGRAMS = (
    Program("matmul_tiles", algebra.blocked_product, _PAIR, each("count", 2, 4, 6), learned=2),
    Program("strassen", algebra.strassen, _PAIR, each("depth", 1, 2, 3), learned=2),
    Program("winograd", algebra.winograd, _PAIR, each("depth", 1, 2, 3), learned=2),
    Program("cholesky_tiles", algebra.blocked_cholesky, _MATRIX, each("count", 2, 4, 6), FORWARD),
    Program("lu_tiles", algebra.blocked_lu, _MATRIX, each("count", 2, 4, 6), FORWARD),
    Program("qr_tiles", algebra.tiled_qr, _MATRIX, each("count", 2, 4, 8), FORWARD),
    Program("triangular_tiles", algebra.tile_solve, _arrays((960, 960), (960, 16)),
            each("count", 4, 8, 12)),
    Program("conjugate_gradient", algebra.conjugate_gradient, _SYSTEM, each("steps", 3, 10, 30)),
    Program("gmres", algebra.gmres, _SYSTEM, each("steps", 4, 10, 20), FORWARD),
    Program("fft_butterfly", algebra.butterfly, lambda size: [
        jax.ShapeDtypeStruct((size, 1024), jnp.complex64)], each("size", 8, 32, 64), FORWARD),
    Program("matrix_exponential", algebra.polynomial, _arrays((256, 256)),
            each("degree", 6, 12, 24)),
    Program("newton_schulz", algebra.newton_schulz, _SQUARE, each("steps", 2, 5, 12)),
    Program("matrix_chain", _matrix_chain, _chain, _grid(
        "count", "split_at", (12, 2), (18, 2), (24, 3))),
    Program("kalman", statistics.kalman_filter, _arrays((16, 16), (8, 16), (8, 8), (200, 8)),
            each("steps", 3, 10, 30)),
    Program("bitonic_sort", networks.bitonic_sort, _ROWS, each("size", 8, 16, 32), FORWARD),
    Program("odd_even_sort", networks.odd_even_sort, _ROWS, each("size", 8, 16, 32), FORWARD),
    Program("molecular_dynamics", simulations.molecular_dynamics, _CLOUD, _grid(
        "cells", "steps", (4, 1), (8, 2), (16, 2)), learned=2),
    Program("stencil", simulations.stencil, _MATRIX, _grid(
        "count", "steps", (2, 2), (3, 4), (4, 4))),
    Program("multigrid", simulations.multigrid, _arrays((256, 256), (256, 256)), _grid(
        "levels", "cycles", (2, 1), (4, 1), (6, 2))),
    Program("particle_filter", statistics.particle_filter, _arrays((512, 4), (64, 512, 4), (64, 4)),
            each("steps", 3, 10, 30), FORWARD),
    Program("ray_march", simulations.ray_march, _arrays((4096, 3), (4096, 3), (32, 3)), _grid(
        "spheres", "steps", (3, 4), (6, 8), (8, 16))),
    Program("k_means", statistics.k_means, _MIXTURE, _grid(
        "parts", "steps", (4, 2), (8, 5), (16, 8)), FORWARD),
    Program("mixture_em", statistics.mixture_em, _MIXTURE, _grid(
        "parts", "steps", (4, 2), (8, 5), (16, 6)), learned=2),
    Program("beam_search", networks.beam_search, _arrays((4096, 128), (128,)), _grid(
        "width", "steps", (4, 4), (8, 12), (8, 32)), FORWARD),
    Program("tiled_attention", networks.tiled_attention, _arrays(*((2048, 64),) * 3), _grid(
        "rows", "columns", (2, 2), (4, 4), (8, 8)), learned=3),
    Program("map_reduce", networks.map_reduce, _arrays((4096, 64)), _grid(
        "parts", "arity", (8, 2), (32, 2), (64, 4))),
    Program("prefix_network", networks.prefix_sums, _ROWS, each("size", 8, 32, 64)),
    Program("alignment", networks.alignment, _arrays((512, 8), (512, 8)), each("count", 2, 4, 8),
            learned=2),
    Program("hamiltonian", statistics.hamiltonian, _arrays((64, 32), (64, 32), (64, 32)), _grid(
        "chains", "steps", (2, 2), (8, 3), (32, 2)), FORWARD, learned=3),
    Program("wavelets", networks.wavelets, _SQUARE, each("levels", 2, 4, 7)),
    Program("game_tree", networks.monte_carlo_tree, _arrays((64, 128), (128, 128)), _grid(
        "depth", "branching", (2, 2), (3, 3), (6, 2)), learned=2),
    Program("page_rank", statistics.page_rank, lambda count, steps: [
        floats(count, count, 256, 256)], _grid("count", "steps", (2, 3), (4, 5), (6, 8))),
    Program("multipole", simulations.n_body_tree, _arrays((4096,)), each("depth", 3, 5, 6)),
    Program("option_lattice", simulations.option_lattice, _arrays((1024,)), each("steps", 4, 8,
                                                                                 16)),
    Program("sinkhorn", statistics.sinkhorn, _arrays((512, 256)), each("steps", 2, 8, 20)),
    *(
        Program(f"{rule}_update", _optimizer_step, _optimizer, each("layers", 1, 4, 12, rule=rule),
                FORWARD)
        for rule in ("adamw", "lamb", "adafactor", "rmsprop", "lion", "yogi")
    ),
    Program("shampoo_update", _shampoo_step, _shampoo, _grid(
        "layers", "roots", (1, 3), (4, 4), (8, 6)), FORWARD),
    Program("pinn_poisson", learning.poisson_loss, _network((3, 64, 64, 64, 1), (256, 3)),
            each("dimensions", 1, 2, 3)),
    Program("pinn_flow", learning.heat_loss, _network(_PLANE, (256, 2)), each("order", 1, 2, 3)),
    Program("pinn_hessian", learning.hessian_loss, _network(_PLANE, (64, 2)), [{}]),
    Program("maml", learning.meta_loss, lambda tasks, steps: [
        _layers(4, 64, 64, 4), floats(tasks, 32, 4)], _grid(
        "tasks", "steps", (1, 1), (2, 2), (4, 3))),
    Program("hypernetwork", learning.hypernetwork, lambda depth: [
        _layers(16, 128, 64 * 64), floats(depth, 16), floats(128, 64)], each("depth", 2, 6, 16),
        learned=2),
    Program("policy_rollout", learning.policy_rollout, _network((3, 64, 64, 1), (256, 2)),
            each("steps", 3, 10, 30)),
    Program("implicit_surface", learning.implicit_surface, lambda depth: [
        _layers(3, *(128,) * depth, 1), floats(1024, 3)], each("depth", 2, 4, 8)),
    Program("evolution", learning.population_step, _population, each("members", 4, 16, 48)),
    Program("ensemble", _ensemble_step, _ensemble, _grid("networks", "depth", (2, 2), (5, 3),
                                                         (10, 4))),
)  # fmt: skip

SOURCE = Source("jax", ("jax",), recipes)
