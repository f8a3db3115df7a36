"""Programs of the zoo after XLA's optimisations for CPUs: scheduled modules, fused and assigned."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax

from regal_jax.datasets.zoo.recipes import flax_models, jax_programs, jax_steps
from regal_jax.datasets.zoo.recipes.flax_families import Family, family_model
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.xla.module import from_hlo

VARIANTS = 2
"""Of each family: of the Flax models the first, of the programs the second and the third, as XLA
fuses small ones into one op."""

_FLAX = (
    *("mlp", "multi_task", "mmoe", "siamese", "dlrm", "gan", "vae", "capsules"),
    *("message_passing", "neural_ode", "realnvp", "resnet", "mobilenet", "inception"),
    *("squeezenet", "fractalnet", "columns", "randwire_ws", "darts", "unet", "unet_plus_plus"),
    *("diffusion_unet", "transformer_encoder", "transformer_decoder", "encoder_decoder"),
    *("mlp_mixer", "moe_dispatched", "moe_dense", "lstm", "gru", "wavefront_rnn"),
    *("selective_scan", "s4"),
)

_JAX = (
    *("matmul_tiles", "strassen", "triangular_tiles", "conjugate_gradient", "kalman"),
    *("molecular_dynamics", "stencil", "multigrid", "ray_march", "k_means"),
    *("mixture_em", "tiled_attention", "map_reduce", "wavelets", "game_tree", "page_rank"),
    *("adamw_update", "lamb_update", "shampoo_update", "maml", "policy_rollout", "ensemble"),
)


def recipes() -> Iterator[Recipe]:
    """Two variants of each family listed above."""
    families = {family.name: family for family in flax_models.FAMILIES}
    for name in _FLAX:
        yield from _flax_recipes(families[name])
    programs = {program.family: program for program in jax_programs.PROGRAMS}
    for name in _JAX:
        yield from _jax_recipes(programs[name])


def _flax_recipes(family: Family) -> Iterator[Recipe]:
    for rank, variant in enumerate(family.variants[:VARIANTS]):
        modes = jax_steps.TRAINING if rank else jax_steps.ADAM
        yield _recipe(f"{family.name}_{rank + 1}", family.name, modes,
                      partial(family_model, family, variant))  # fmt: skip


def _jax_recipes(program: jax_programs.Program) -> Iterator[Recipe]:
    for rank, size in enumerate(program.sizes[1 : 1 + VARIANTS], 1):
        yield _recipe(f"{program.family}_{rank + 1}", program.family, program.modes,
                      partial(jax_programs.program_model, program, size))  # fmt: skip


def _recipe(
    name: str, family: str, modes: tuple[str, ...], make: Callable[[], jax_steps.Model]
) -> Recipe:
    def build(mode: str) -> ComputationGraph:
        return from_hlo(_compiled(make(), mode))

    return Recipe(f"xla/{name}", f"xla/{family}", modes, build)


def _compiled(model: jax_steps.Model, mode: str) -> Any:
    """The step compiled for this machine's CPU, with little effort spent on its kernels."""
    step, args, donated = jax_steps.step_of(model, mode)
    lowered = jax.jit(step, donate_argnums=donated, keep_unused=True).trace(*args).lower(
        lowering_platforms=("cpu",)
    )  # fmt: skip
    return lowered.compile({"xla_backend_optimization_level": 0})


SOURCE = Source("xla", ("jax",), recipes)
