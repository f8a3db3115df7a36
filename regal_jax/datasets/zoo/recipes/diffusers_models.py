"""diffusers: denoisers and autoencoders, small and of their default sizes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from regal_jax.datasets.zoo.recipes import torch_modules
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

Options = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]

_STEPS: Shapes = {"timestep": (2,)}


def _latents(channels: int, size: int, *more: int) -> Shapes:
    return {"sample": (2, channels, *more, size, size), **_STEPS}


def _tokens(width: int, length: int = 77) -> Shapes:
    return {"encoder_hidden_states": (2, length, width)}


_CASES: tuple[tuple[str, str, Options, Shapes], ...] = (
    ("UNet2DModel", "default", {"sample_size": 64}, _latents(3, 64)),
    ("UNet1DModel", "default", {"in_channels": 14, "out_channels": 14, "extra_in_channels": 0}
     | {"time_embedding_type": "positional", "use_timestep_embedding": True}
     | {"down_block_types": ("DownResnetBlock1D",) * 3, "up_block_types": ("UpResnetBlock1D",) * 2}
     | {"mid_block_type": "MidResTemporalBlock1D", "out_block_type": "OutConv1DBlock"}
     | {"act_fn": "mish", "block_out_channels": (32, 128, 256)},
     {"sample": (2, 14, 32), **_STEPS}),
    ("UNet2DConditionModel", "sd15", {"cross_attention_dim": 768, "sample_size": 64},
     _latents(4, 64) | _tokens(768)),
    ("UNet3DConditionModel", "default", {"cross_attention_dim": 1024},
     _latents(4, 32, 4) | _tokens(1024)),
    ("StableCascadeUNet", "default", {"in_channels": 16, "out_channels": 16}
     | {"conditioning_dim": 2048, "clip_text_pooled_in_channels": 1280},
     {"sample": (2, 16, 24, 24), "timestep_ratio": (2,), "clip_text_pooled": (2, 1, 1280)}),
    ("AutoencoderKL", "tiny", {}, {"sample": (2, 3, 64, 64)}),
    ("AutoencoderTiny", "default", {}, {"sample": (2, 3, 128, 128)}),
    ("AutoencoderDC", "default", {}, {"sample": (1, 3, 256, 256)}),
    ("AsymmetricAutoencoderKL", "default", {}, {"sample": (2, 3, 64, 64)}),
    ("AutoencoderOobleck", "default", {}, {"sample": (1, 2, 32768)}),
    ("AutoencoderKLWan", "default", {}, {"sample": (1, 3, 5, 64, 64)}),
    ("AutoencoderKLCogVideoX", "default", {}, {"sample": (1, 3, 8, 64, 64)}),
    ("AutoencoderKLMochi", "default", {}, {"sample": (1, 3, 7, 64, 64)}),
    ("AutoencoderKLLTXVideo", "default", {}, {"sample": (1, 3, 9, 64, 64)}),
    ("DiTTransformer2DModel", "default", {"num_layers": 12},
     {"hidden_states": (2, 4, 32, 32), "class_labels": (2,), **_STEPS}),
    ("PixArtTransformer2DModel", "default", {"num_layers": 8, "caption_channels": 512}
     | {"use_additional_conditions": False},
     {"hidden_states": (2, 4, 32, 32), **_tokens(512), **_STEPS}),
    ("SD3Transformer2DModel", "default", {"num_layers": 8},
     {"hidden_states": (2, 16, 64, 64), **_tokens(4096), "pooled_projections": (2, 2048)}
     | _STEPS),
    ("PriorTransformer", "default", {"num_layers": 8},
     {"hidden_states": (2, 768), "timestep": (2,), "proj_embedding": (2, 768)} | _tokens(768)),
    ("SanaTransformer2DModel", "small", {"num_layers": 6},
     {"hidden_states": (2, 32, 32, 32), **_tokens(2304, 64), **_STEPS}),
    ("AuraFlowTransformer2DModel", "small", {"num_mmdit_layers": 2, "num_single_dit_layers": 6},
     {"hidden_states": (2, 4, 64, 64), **_tokens(2048), **_STEPS}),
    ("WanTransformer3DModel", "small", {"num_layers": 6},
     {"hidden_states": (1, 16, 3, 32, 32), **_tokens(4096, 128), "timestep": (1,)}),
)  # fmt: skip


def recipes() -> Iterator[Recipe]:
    """Every case, named by class and variant."""
    torch_modules.import_torchvision()
    for name, variant, options, shapes in _CASES:
        yield torch_modules.module_recipe(
            f"diffusers/{name}_{variant}",
            f"diffusers/{name.removesuffix('Model')}",
            partial(_model, name, options),
            _inputs(shapes),
            modes=torch_modules.some_modes(0, checkpointing=True),
            checkpoint=_checkpoint,
        )


def _model(name: str, options: Options) -> torch.nn.Module:
    import diffusers

    return getattr(diffusers, name)(**options)


def _inputs(shapes: Shapes) -> Callable[[torch.nn.Module], torch_modules.Inputs]:
    def inputs(module: torch.nn.Module) -> torch_modules.Inputs:
        return (), {name: _tensor(name, shape) for name, shape in shapes.items()}

    return inputs


def _tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    if name in ("timestep", "class_labels"):
        return torch.zeros(shape, dtype=torch.long)
    return torch.empty(shape)


def _checkpoint(module: Any) -> None:
    module.enable_gradient_checkpointing()


SOURCE = Source("diffusers", ("diffusers", "torch"), recipes)
