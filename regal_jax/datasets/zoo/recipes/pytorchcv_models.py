"""pytorchcv: up to four variants of every architecture file."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import torch

from regal_jax.datasets.zoo.recipes import torch_modules
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

MOST_VARIANTS = 4


def recipes() -> Iterator[Recipe]:
    """Families are its architecture files, the data set (CIFAR, CUB, ...) left out of the name."""
    torch_modules.import_torchvision()
    from pytorchcv import model_provider

    families = defaultdict(list)
    for name, make in model_provider._models.items():
        families[make.__module__.split(".")[-1]].append(name)
    for family, names in sorted(families.items()):
        for rank, name in enumerate(torch_modules.evenly(names, MOST_VARIANTS)):
            yield torch_modules.module_recipe(
                f"pytorchcv/{name}",
                f"pytorchcv/{family.split('_')[0]}",
                partial(model_provider.get_model, name, pretrained=False),
                _inputs,
                modes=torch_modules.some_modes(rank),
            )


def _inputs(module: torch.nn.Module) -> torch_modules.Inputs:
    size = getattr(module, "in_size", (224, 224))
    size = size if isinstance(size, tuple) else (size,)
    channels = getattr(module, "in_channels", 3)
    (images,), _ = torch_modules.image(channels, *size)(module)
    return ((images, images.clone()) if type(module).__name__ == "RAFT" else (images,)), {}


SOURCE = Source("pytorchcv", ("pytorchcv", "torch"), recipes)
