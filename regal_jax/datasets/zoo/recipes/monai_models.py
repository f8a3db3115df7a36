"""MONAI: networks for volumes and images of medicine."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from regal_jax.datasets.zoo.recipes import torch_modules
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

Case = tuple[str, dict[str, Any], tuple[int, ...]]

_2D: dict[str, Any] = {"spatial_dims": 2, "in_channels": 1, "out_channels": 3}
_COLOUR: dict[str, Any] = {"in_channels": 3, "out_channels": 3}
_WIDE = {"channels": (16, 32, 64, 128, 256), "strides": (2, 2, 2, 2)}
_DYNAMIC = {"kernel_size": [3] * 5, "strides": [1, 2, 2, 2, 2], "upsample_kernel_size": [2] * 4}

CASES: tuple[Case, ...] = (
    ("AHNet", {"spatial_dims": 2, "out_channels": 3, "layers": (3, 4, 6, 3)}, (1, 128, 128)),
    ("AttentionUnet", _2D | _WIDE, (1, 128, 128)),
    ("BasicUNet", _2D, (1, 128, 128)),
    ("BasicUNetPlusPlus", _2D, (1, 128, 128)),
    ("DAF3D", {"in_channels": 1, "out_channels": 3}, (1, 64, 64, 64)),
    ("DenseNet121", _2D, (1, 128, 128)),
    ("DynUNet", _2D | _DYNAMIC, (1, 128, 128)),
    ("FlexibleUNet", _COLOUR | {"backbone": "efficientnet-b0"}, (3, 128, 128)),
    ("HighResNet", _2D, (1, 64, 64)),
    ("HoVerNet", {"mode": "fast", "out_classes": 5}, (3, 256, 256)),
    ("LocalNet", _2D | {"num_channel_initial": 16, "extract_levels": (0, 1, 2, 3)}, (1, 64, 64)),
    ("MedNeXt", _2D, (1, 128, 128)),
    ("Quicknat", {"num_classes": 3}, (1, 128, 128)),
    ("RegUNet", _2D | {"num_channel_initial": 16, "depth": 4}, (1, 64, 64)),
    ("SEResNet50", {"spatial_dims": 2, "in_channels": 3, "num_classes": 10}, (3, 128, 128)),
    ("SENet154", {"spatial_dims": 2, "in_channels": 3, "num_classes": 10}, (3, 128, 128)),
    ("SegResNet", {"spatial_dims": 2, "out_channels": 3}, (1, 128, 128)),
    ("SegResNetDS", {"spatial_dims": 2, "out_channels": 3, "dsdepth": 3}, (1, 128, 128)),
    ("SegResNetVAE", {"spatial_dims": 2, "out_channels": 3, "input_image_size": (128, 128)},
     (1, 128, 128)),
    ("UNet", _2D | _WIDE | {"num_res_units": 2}, (1, 128, 128)),
    ("VNet", {"spatial_dims": 2}, (1, 128, 128)),
    ("VQVAE", _2D, (1, 64, 64)),
    ("VoxelMorphUNet", {"spatial_dims": 2, "in_channels": 2, "unet_out_channels": 16}
     | {"channels": (16, 32, 32, 32, 32, 32), "final_conv_channels": (16, 16)}, (2, 128, 128)),
)  # fmt: skip


def recipes() -> Iterator[Recipe]:
    """Every case."""
    torch_modules.import_torchvision()
    import monai.networks.nets as nets

    for name, options, shape in CASES:
        yield torch_modules.module_recipe(
            f"monai/{name}",
            f"monai/{name.rstrip('0123456789')}",
            partial(getattr(nets, name), **options),
            partial(_inputs, shape),
            modes=torch_modules.some_modes(0),
        )


def _inputs(shape: tuple[int, ...], module: torch.nn.Module) -> torch_modules.Inputs:
    return (torch.empty(2, *shape),), {}


SOURCE = Source("monai", ("monai", "torch"), recipes)
