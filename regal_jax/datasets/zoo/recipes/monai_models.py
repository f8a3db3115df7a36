"""MONAI: networks for volumes and images of medicine."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from regal_jax.datasets.zoo.recipes import torch_modules
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

Case = tuple[str, dict[str, Any], tuple[int, ...]]

_2D: dict[str, Any] = {"spatial_dims": 2, "in_channels": 1, "out_channels": 3}
_3D: dict[str, Any] = {"spatial_dims": 3, "in_channels": 1, "out_channels": 3}
_COLOUR: dict[str, Any] = {"in_channels": 3, "out_channels": 3}
_PATCHES: dict[str, Any] = {"in_channels": 1, "img_size": (128, 128), "patch_size": (16, 16)} | {
    "spatial_dims": 2
}
_WIDE = {"channels": (16, 32, 64, 128, 256), "strides": (2, 2, 2, 2)}
_DYNAMIC = {"kernel_size": [3] * 5, "strides": [1, 2, 2, 2, 2], "upsample_kernel_size": [2] * 4}

CASES: tuple[Case, ...] = (
    ("AHNet", {"spatial_dims": 2, "out_channels": 3, "layers": (3, 4, 6, 3)}, (1, 128, 128)),
    ("AHNet", {"spatial_dims": 3, "out_channels": 3, "layers": (3, 4, 6, 3)}, (1, 96, 96, 96)),
    ("AttentionUnet", _2D | _WIDE, (1, 128, 128)),
    ("AttentionUnet", _3D | _WIDE, (1, 64, 64, 64)),
    ("AutoEncoder", _2D | _WIDE, (1, 128, 128)),
    ("BasicUNet", _2D, (1, 128, 128)),
    ("BasicUNet", _3D, (1, 64, 64, 64)),
    ("BasicUNetPlusPlus", _2D, (1, 128, 128)),
    ("BasicUNetPlusPlus", _2D | {"deep_supervision": True}, (1, 128, 128)),
    ("BasicUNetPlusPlus", _3D, (1, 64, 64, 64)),
    ("DAF3D", {"in_channels": 1, "out_channels": 3}, (1, 64, 64, 64)),
    ("DenseNet121", _2D, (1, 128, 128)),
    ("DenseNet264", _2D, (1, 128, 128)),
    ("DynUNet", _2D | _DYNAMIC, (1, 128, 128)),
    ("DynUNet", _2D | _DYNAMIC | {"deep_supervision": True, "res_block": True}, (1, 128, 128)),
    ("FlexibleUNet", _COLOUR | {"backbone": "efficientnet-b0"}, (3, 128, 128)),
    ("FlexibleUNet", _COLOUR | {"backbone": "resnet34"}, (3, 128, 128)),
    ("HighResNet", _2D, (1, 64, 64)),
    ("HighResNet", _3D, (1, 32, 32, 32)),
    ("HoVerNet", {"mode": "fast", "out_classes": 5}, (3, 256, 256)),
    ("LocalNet", _2D | {"num_channel_initial": 16, "extract_levels": (0, 1, 2, 3)}, (1, 64, 64)),
    ("MedNeXt", _2D, (1, 128, 128)),
    ("MedNeXt", _2D | {"deep_supervision": True, "blocks_down": (3, 4, 4, 4)}, (1, 128, 128)),
    ("Quicknat", {"num_classes": 3}, (1, 128, 128)),
    ("RegUNet", _2D | {"num_channel_initial": 16, "depth": 4}, (1, 64, 64)),
    ("SEResNet50", {"spatial_dims": 2, "in_channels": 3, "num_classes": 10}, (3, 128, 128)),
    ("SENet154", {"spatial_dims": 2, "in_channels": 3, "num_classes": 10}, (3, 128, 128)),
    ("SegResNet", {"spatial_dims": 2, "out_channels": 3}, (1, 128, 128)),
    ("SegResNet", {"spatial_dims": 3, "out_channels": 3}, (1, 64, 64, 64)),
    ("SegResNetDS", {"spatial_dims": 2, "out_channels": 3, "dsdepth": 3}, (1, 128, 128)),
    ("SegResNetDS2", {"spatial_dims": 2, "out_channels": 3, "dsdepth": 3}, (1, 128, 128)),
    ("SegResNetVAE", {"spatial_dims": 2, "out_channels": 3, "input_image_size": (128, 128)},
     (1, 128, 128)),
    ("SwinUNETR", _2D | {"feature_size": 24}, (1, 128, 128)),
    ("SwinUNETR", _3D | {"feature_size": 24}, (1, 64, 64, 64)),
    ("UNETR", {"in_channels": 1, "out_channels": 3, "img_size": (96, 96, 96)}, (1, 96, 96, 96)),
    ("UNet", _2D | _WIDE | {"num_res_units": 2}, (1, 128, 128)),
    ("UNet", _3D | _WIDE, (1, 64, 64, 64)),
    ("UNet", _2D | _WIDE | {"num_res_units": 4}, (1, 128, 128)),
    ("VNet", {"spatial_dims": 2}, (1, 128, 128)),
    ("VNet", {}, (1, 64, 64, 64)),
    ("VQVAE", _2D, (1, 64, 64)),
    ("ViT", _PATCHES, (1, 128, 128)),
    ("ViTAutoEnc", _PATCHES, (1, 128, 128)),
    ("VoxelMorphUNet", {"spatial_dims": 2, "in_channels": 2, "unet_out_channels": 16}
     | {"channels": (16, 32, 32, 32, 32, 32), "final_conv_channels": (16, 16)}, (2, 128, 128)),
    ("AutoencoderKL", _2D | {"channels": (32, 64, 64), "attention_levels": (False, False, True)}
     | {"num_res_blocks": (2, 2, 2), "norm_num_groups": 16}, (1, 64, 64)),
)  # fmt: skip


def recipes() -> Iterator[Recipe]:
    """Every case; the number tells apart the cases of one network."""
    torch_modules.import_torchvision()
    import monai.networks.nets as nets

    seen: dict[str, int] = {}
    for name, options, shape in CASES:
        rank = seen[name] = seen.get(name, 0) + 1
        yield torch_modules.module_recipe(
            f"monai/{name}_{rank}" if rank > 1 else f"monai/{name}",
            f"monai/{name.rstrip('0123456789')}",
            partial(getattr(nets, name), **options),
            partial(_inputs, shape),
            modes=torch_modules.some_modes(rank - 1),
        )


def _inputs(shape: tuple[int, ...], module: torch.nn.Module) -> torch_modules.Inputs:
    return (torch.empty(2, *shape),), {}


SOURCE = Source("monai", ("monai", "torch"), recipes)
