"""JAX programs to compile: inference, gradients and train steps of the zoo's architectures, and of
two that are loops."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from regal_jax.datasets import scanned_models
from regal_jax.datasets.zoo.recipes import flax_models, jax_programs, jax_steps
from regal_jax.datasets.zoo.recipes.flax_families import can_checkpoint, family_model
from regal_jax.errors import OptionError

MODES = jax_steps.CHECKPOINTED
"""The outputs; the loss and its gradients; those and an update by Adam, with donated state; the
gradients with activations that are computed again, of Flax modules that can."""

VARIANT = 1
"""Which size of each family: the second, as the first ones are tiny."""

FAMILIES = (
    *("randwire_ws", "randwire_ba", "randwire_er", "nasnet", "darts", "amoebanet", "random_cells"),
    *("resnet", "resnet_v2", "densenet", "inception", "fractalnet", "shakenet", "columns", "vgg"),
    *("mobilenet", "squeezenet", "shufflenet", "convnext", "unet", "unet_plus_plus", "hrnet"),
    *("transformer_encoder", "transformer_decoder", "encoder_decoder", "vit", "mlp_mixer"),
    *("moe_dispatched", "moe_dense", "lstm", "gru", "wavefront_rnn", "s4", "selective_scan"),
    *("wavenet", "conv_lstm", "message_passing", "graph_attention", "relational_gcn", "mmoe"),
    *("multi_task", "siamese", "dlrm", "gan", "vae", "realnvp", "neural_ode", "actor_critic"),
    *("strassen", "cholesky_tiles", "fft_butterfly", "molecular_dynamics", "tiled_attention"),
    *("scanned_decoder", "scanned_lstm"),
)


class Program(NamedTuple):
    """A function, its arguments' shapes, and which of them are donated."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[Any, ...]
    donated: tuple[int, ...]

    def jitted(self) -> Any:
        return jax.jit(self.function, donate_argnums=self.donated)

    def arguments(self, seed: int = 0) -> tuple[Any, ...]:
        """Arrays of these shapes: small positive numbers (moments are), and integers 0 to 7."""
        random = np.random.default_rng(seed)

        def array(shape: jax.ShapeDtypeStruct) -> jax.Array:
            if jax.dtypes.issubdtype(shape.dtype, jax.dtypes.prng_key):
                bits = random.integers(0, 8, (*shape.shape, 2), np.uint32)
                return jax.random.wrap_key_data(jax.numpy.asarray(bits))
            if jax.numpy.issubdtype(shape.dtype, jax.numpy.floating):
                return jax.numpy.asarray(abs(random.normal(0, 0.05, shape.shape)), shape.dtype)
            return jax.numpy.asarray(random.integers(0, 8, shape.shape), shape.dtype)

        return jax.tree.map(array, self.shapes)


def program_names() -> list[str]:
    """``family/mode`` of every program; ``family/mode*8`` is one with a batch 8 times as large."""
    return [f"{family}/{mode}" for family in FAMILIES for mode in MODES if _has(family, mode)]


def check_name(name: str) -> None:
    """Raises OptionError for a name that no program has, naming the ones there are."""
    if _parts(name)[0] not in program_names():
        raise OptionError(f"programs: no {name!r}; they are {', '.join(program_names())}")


def program(name: str) -> Program:
    """The program of a name. Raises OptionError (``check_name``)."""
    check_name(name)
    family, mode = _parts(name)[0].split("/")
    model = _of_batch(_model(family, mode == "training_checkpointed"), name)
    return Program(name, *jax_steps.step_of(model, mode))


def with_policy(name: str, policy: Callable[..., Any] | None) -> Program:
    """The program of a name with its whole forward pass in ``jax.checkpoint`` by a policy, None for
    the one that saves nothing. Raises OptionError (``check_name``)."""
    check_name(name)
    family, mode = _parts(name)[0].split("/")
    model = _of_batch(_model(family, False), name)
    apply = jax.checkpoint(model.apply, policy=policy, static_argnums=(3,))
    return Program(name, *jax_steps.step_of(model._replace(apply=apply), mode))


def batch_of(name: str) -> int:
    """How many times as large the batch of a program of this name is; 1 without a number."""
    return _parts(name)[1]


def _parts(name: str) -> tuple[str, int]:
    """``family/mode``, and how many times as large its batch is; a name with no such number whole,
    which no program has."""
    found = re.fullmatch(r"(.*)\*([1-9]\d*)", name)
    return (found[1], int(found[2])) if found else (name, 1)


def _of_batch(model: jax_steps.Model, name: str) -> jax_steps.Model:
    """The model with as large a batch as a program's name says."""
    times = batch_of(name)

    def larger(shape: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        sizes = (shape.shape[0] * times, *shape.shape[1:]) if shape.shape else ()
        return jax.ShapeDtypeStruct(sizes, shape.dtype)

    return model if times == 1 else model._replace(inputs=jax.tree.map(larger, model.inputs))


def _has(family: str, mode: str) -> bool:
    """Programs that aren't networks have no parameters to update."""
    if family not in _flax():
        return mode in _jax()[family].modes
    return mode in jax_steps.ADAM or can_checkpoint(_flax()[family])


def _model(family: str, checkpointed: bool) -> jax_steps.Model:
    if family in _flax():
        variants = _flax()[family].variants
        variant = variants[min(VARIANT, len(variants) - 1)]
        return family_model(_flax()[family], variant, checkpointed)
    found = _jax()[family]
    sizes = found.sizes[min(VARIANT, len(found.sizes) - 1)]
    return jax_programs.program_model(found, sizes, checkpointed)


def _flax() -> dict:
    return {family.name: family for family in flax_models.FAMILIES}


def _jax() -> dict:
    programs = (*jax_programs.PROGRAMS, *scanned_models.PROGRAMS)
    return {program.family: program for program in programs}
