"""timm: up to eight variants of every module of its registry."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import torch

from regal_jax.datasets.zoo.recipes import torch_modules
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

MOST_VARIANTS = 8


def recipes() -> Iterator[Recipe]:
    """Every family's variants; the first also with Adam and with checkpointing."""
    torch_modules.import_torchvision()
    import timm

    families = defaultdict(list)
    for name in timm.list_models():
        families[timm.models.model_entrypoint(name).__module__.split(".")[-1]].append(name)
    for family, names in sorted(families.items()):
        for rank, name in enumerate(torch_modules.evenly(names, MOST_VARIANTS)):
            yield torch_modules.module_recipe(
                f"timm/{name}",
                f"timm/{family}",
                partial(timm.create_model, name),
                _inputs,
                modes=torch_modules.some_modes(rank, checkpointing=True),
                checkpoint=_checkpoint,
            )


def _inputs(module: torch.nn.Module) -> torch_modules.Inputs:
    shape = getattr(module, "pretrained_cfg", {}).get("input_size", (3, 224, 224))
    return torch_modules.image(*shape)(module)


def _checkpoint(module) -> None:
    module.set_grad_checkpointing(True)


SOURCE = Source("timm", ("timm", "torch"), recipes)
