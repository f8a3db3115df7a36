"""segmentation-models-pytorch: every decoder on one encoder."""

from collections.abc import Iterator
from functools import partial

from regal_jax.datasets.zoo.recipes import torch_modules
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

ENCODER = "resnet18"


def recipes() -> Iterator[Recipe]:
    """Every decoder; what the package rejects fails with its reason."""
    torch_modules.import_torchvision()
    import segmentation_models_pytorch as smp

    for decoder in sorted(smp.MODEL_ARCHITECTURES_MAPPING):
        kind = smp.MODEL_ARCHITECTURES_MAPPING[decoder]
        yield torch_modules.module_recipe(
            f"smp/{kind.__name__}_{ENCODER}",
            f"smp/{kind.__name__}",
            partial(kind, ENCODER, encoder_weights=None, classes=10),
            torch_modules.image(3, 224, 224),
            modes=torch_modules.some_modes(0),
        )


SOURCE = Source("smp", ("segmentation-models-pytorch", "torch"), recipes)
