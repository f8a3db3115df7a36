"""segmentation-models-pytorch: every decoder on encoders of different families."""

from collections.abc import Iterator
from functools import partial

from regal_jax.datasets.zoo.recipes import torch_modules
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

ENCODERS = (
    "resnet18",
    "efficientnet-b0",
    "mit_b0",
    "mobilenet_v2",
    "densenet121",
    "xception",
    "tu-convnext_tiny",
    "tu-hrnet_w18",
    "tu-regnety_008",
    "tu-swin_tiny_patch4_window7_224",
)


def recipes() -> Iterator[Recipe]:
    """Decoders by encoders; combinations that the package rejects fail with its reason."""
    torch_modules.import_torchvision()
    import segmentation_models_pytorch as smp

    for decoder in sorted(smp.MODEL_ARCHITECTURES_MAPPING):
        kind = smp.MODEL_ARCHITECTURES_MAPPING[decoder]
        for rank, encoder in enumerate(ENCODERS):
            yield torch_modules.module_recipe(
                f"smp/{kind.__name__}_{encoder}",
                f"smp/{kind.__name__}",
                partial(kind, encoder, encoder_weights=None, classes=10),
                torch_modules.image(3, 224, 224),
                modes=torch_modules.some_modes(rank),
            )


SOURCE = Source("smp", ("segmentation-models-pytorch", "torch"), recipes)
