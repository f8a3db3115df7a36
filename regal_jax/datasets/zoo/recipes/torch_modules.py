"""PyTorch modules as recipes: made without initialising weights, then traced on fake tensors."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import torch

from regal_jax.datasets.zoo.recipes.recipe import Recipe
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.torch.model import from_torch

Inputs = tuple[tuple[Any, ...], Mapping[str, Any]]
BATCH = 8
"""Examples in a batch of every image model."""


def module_recipe(
    name: str,
    family: str,
    make: Callable[[], torch.nn.Module],
    inputs: Callable[[torch.nn.Module], Inputs],
    *,
    modes: tuple[str, ...],
    checkpoint: Callable[[torch.nn.Module], Any] | None = None,
) -> Recipe:
    """A recipe for a module.

    ``inputs`` gives the example (args, kwargs) for the module; ``checkpoint`` switches on its
    activation checkpointing.
    """

    def build(mode: str) -> ComputationGraph:
        with without_initialising():
            module = make()
        module.train(mode != "inference")
        if mode == "training_checkpointed":
            if checkpoint is None:
                raise NotImplementedError("no activation checkpointing")
            checkpoint(module)
        args, kwargs = inputs(module)
        traced: Any = "training" if mode == "training_checkpointed" else mode
        return from_torch(module, *args, mode=traced, **kwargs)

    return Recipe(name, family, modes, build)


def image(*shape: int) -> Callable[[torch.nn.Module], Inputs]:
    """One float tensor of a shape (without the batch) as the only argument."""
    return lambda module: ((torch.empty(BATCH, *shape),), {})


@contextlib.contextmanager
def without_initialising() -> Iterator[None]:
    """Leaves new weights as memory that is never touched: large models cost no time or space."""
    names = [name for name in dir(torch.nn.init) if name.endswith("_") and name[0] != "_"]
    with contextlib.ExitStack() as patches:
        for name in names:
            patches.enter_context(mock.patch.object(torch.nn.init, name, _unchanged))
        for name in ("normal_", "uniform_", "erfinv_", "exponential_"):
            patches.enter_context(mock.patch.object(torch.Tensor, name, _unchanged))
        yield


def _unchanged(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return tensor


def some_modes(rank: int, *, checkpointing: bool = False) -> tuple[str, ...]:
    """All modes for the first of a family, inference and training for the others."""
    if rank:
        return ("inference", "training")
    extra = ("training_checkpointed",) if checkpointing else ()
    return ("inference", "training", "training_adam", *extra)


def evenly(names: list[str], most: int) -> list[str]:
    """At most ``most`` names, evenly over the list, the first and the last among them."""
    if len(names) <= most:
        return names
    return [names[round(i * (len(names) - 1) / (most - 1))] for i in range(most)]


def import_torchvision() -> Any:
    """torchvision, also where its compiled ops don't fit the installed PyTorch.

    Its Python part registers fake kernels for ``nms`` and ``qnms``, so these must be declared then.
    """
    with contextlib.suppress(RuntimeError):
        import torchvision

        return torchvision
    arguments = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", arguments)
    import torchvision

    return torchvision
