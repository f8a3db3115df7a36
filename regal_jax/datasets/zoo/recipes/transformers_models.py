"""Hugging Face transformers: every model type, from its default configuration alone.

Each type gives its base model with two layers and one with a head at the default size.
Mixtures have at most sixteen experts, computed by batched products: their default depends on data.
Inputs are made from the configuration: token ids, pixels, audio. Models that need more (tokenised
pairs of images and text, boxes, time series) fail with PyTorch's reason.
"""

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from regal_jax.datasets.zoo.recipes import torch_modules
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

BATCH, LENGTH, FRAMES, SAMPLES, FRAMES_OF_SOUND = 4, 128, 8, 16_000, 1000
SMALL_LAYERS = 2
MOST_EXPERTS = 16

_HEADS = (
    "CAUSAL_LM",
    "MASKED_LM",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "IMAGE_CLASSIFICATION",
    "SPEECH_SEQ_2_SEQ",
    "CTC",
    "SEQUENCE_CLASSIFICATION",
    "SEMANTIC_SEGMENTATION",
    "DEPTH_ESTIMATION",
    "VIDEO_CLASSIFICATION",
    "OBJECT_DETECTION",
    "UNIVERSAL_SEGMENTATION",
    "AUDIO_CLASSIFICATION",
)
"""Tables of classes by model type; the first that has the type gives its head."""


def recipes() -> Iterator[Recipe]:
    """Every model type of the library's tables, in their order."""
    torch_modules.import_torchvision()
    from transformers.models.auto import modeling_auto

    for kind, base in modeling_auto.MODEL_MAPPING_NAMES.items():
        names = [base] if isinstance(base, str) else list(base)[:1]
        tables = [getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES") for head in _HEADS]
        heads = [table[kind] for table in tables if isinstance(table.get(kind), str)]
        yield _recipe(kind, names[0], small=True)
        yield _recipe(kind, (heads or names)[0], small=False)


def _recipe(kind: str, name: str, *, small: bool) -> Recipe:
    return torch_modules.module_recipe(
        f"hf/{kind}/{name}{'_small' if small else ''}",
        f"hf/{kind}",
        partial(_model, kind, name, small),
        _inputs,
        modes=torch_modules.some_modes(int(not small), checkpointing=True),
        checkpoint=_checkpoint,
    )


def _model(kind: str, name: str, small: bool) -> torch.nn.Module:
    import transformers

    config = transformers.AutoConfig.for_model(kind)
    for part in _parts(config):
        part.use_cache = False
        _limit(part, _EXPERT_FIELDS, MOST_EXPERTS)
        if small:
            _limit(part, _LAYER_FIELDS, SMALL_LAYERS)
        if small and isinstance(getattr(part, "layer_types", None), list):
            part.layer_types = part.layer_types[:SMALL_LAYERS]
    config._attn_implementation = "eager"
    config._experts_implementation = "batched_mm"
    return getattr(transformers, name)(config)


def _limit(config: Any, fields: tuple[str, ...], most: int) -> None:
    for field in fields:
        value = getattr(config, field, None)
        if isinstance(value, int) and value > most:
            setattr(config, field, most)


_EXPERT_FIELDS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_LAYER_FIELDS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"),
    *("decoder_layers", "num_encoder_layers", "num_decoder_layers", "depth"),
)


def _parts(config: Any) -> list[Any]:
    """A configuration and those inside it."""
    from transformers import PretrainedConfig

    inner = [value for value in vars(config).values() if isinstance(value, PretrainedConfig)]
    return [config, *(part for value in inner for part in _parts(value))]


def _inputs(module: Any) -> torch_modules.Inputs:
    taken = inspect.signature(module.forward).parameters
    needed = {module.main_input_name, *_CHECKED.intersection(_required(taken))}
    if getattr(module.config, "is_encoder_decoder", False) and "decoder_input_ids" in taken:
        needed.add("decoder_input_ids")
    if {"pixel_values", "input_ids"} <= set(taken) and hasattr(module, "text_model"):
        needed |= {"pixel_values", "input_ids"}
    return (), {name: _tensor(name, module.config) for name in sorted(needed)}


_CHECKED = frozenset(("input_ids", "pixel_values", "input_values", "input_features"))


def _required(parameters: Any) -> list[str]:
    return [name for name, value in parameters.items() if value.default is inspect.Parameter.empty]


def _tensor(name: str, config: Any) -> torch.Tensor:
    """An example input of a name, shaped as the configuration says."""
    if name.endswith("input_ids"):
        text = getattr(config, "text_config", None) or config
        length = min(LENGTH, _first(text, LENGTH, "max_position_embeddings"))
        return torch.zeros(BATCH, length, dtype=torch.long)
    if name.startswith("pixel_values"):
        vision = getattr(config, "vision_config", config)
        size = _first(vision, 224, "image_size", "input_size", "img_size")
        height, width = size if isinstance(size, list | tuple) else (size, size)
        channels = _first(vision, 3, "num_channels", "in_channels", "in_chans")
        frames = [_first(vision, FRAMES, "num_frames")] if name.endswith("videos") else []
        frames = frames or ([vision.num_frames] if hasattr(vision, "num_frames") else [])
        return torch.empty(BATCH, *frames, channels, height, width)
    if name == "input_features":
        bins = _first(config, 80, "num_mel_bins", "feature_size", "input_feat_per_channel")
        if hasattr(config, "max_source_positions") and not hasattr(config, "num_conv_layers"):
            return torch.empty(BATCH, bins, 2 * config.max_source_positions)
        return torch.empty(BATCH, FRAMES_OF_SOUND, bins)
    if name == "input_values":
        return torch.empty(BATCH, SAMPLES)
    raise NotImplementedError(f"no example for the input {name}")


def _first(config: Any, default: Any, *fields: str) -> Any:
    values = [getattr(config, field, None) for field in fields]
    return next((value for value in values if value is not None), default)


def _checkpoint(module: Any) -> None:
    module.gradient_checkpointing_enable({"use_reentrant": False})


SOURCE = Source("transformers", ("transformers", "torch"), recipes)
