"""torchvision: all its models but the quantised ones."""

import re
from collections.abc import Iterator
from functools import partial

import torch

from regal_jax.datasets.zoo.recipes import torch_modules
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source


def recipes() -> Iterator[Recipe]:
    """Every model; detectors, whose shapes depend on data, fail with that reason."""
    models = torch_modules.import_torchvision().models
    seen: set[str] = set()
    for name in models.list_models():
        if name.startswith("quantized"):
            continue
        builder = models.get_model_builder(name)
        family = builder.__module__.split(".")[-1]
        yield torch_modules.module_recipe(
            f"torchvision/{name}",
            f"torchvision/{family}",
            partial(models.get_model, name, weights=None, **_options(name)),
            partial(_inputs, name),
            modes=torch_modules.some_modes(int(family in seen)),
        )
        seen.add(family)


def _options(name: str) -> dict:
    if name in ("googlenet", "inception_v3"):
        return {"init_weights": False}
    dense = re.match("deeplab|fcn_|lraspp|fasterrcnn|fcos|keypoint|maskrcnn|retina|ssd", name)
    return {"weights_backbone": None} if dense else {}


def _inputs(name: str, module: torch.nn.Module) -> torch_modules.Inputs:
    if name.startswith("raft"):
        frame = torch.empty(2, 3, 128, 160)
        return (frame, frame.clone()), {"num_flow_updates": 4}
    if re.match("fasterrcnn|fcos|keypoint|maskrcnn|retina|ssd", name):
        return ([torch.empty(3, 320, 320)],), {}
    if re.match("mc3|r3d|r2plus1d|s3d|swin3d|mvit", name):
        return torch_modules.image(3, 16, 224, 224)(module)
    size = {"inception_v3": 299, "swin_v2_t": 256, "vit_h_14": 224}.get(name, 224)
    return torch_modules.image(3, size, size)(module)


SOURCE = Source("torchvision", ("torchvision", "torch"), recipes)
