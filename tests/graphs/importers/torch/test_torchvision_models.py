"""Models of torchvision: published counts, and the peak of really running them op by op."""

import collections
import importlib.util

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("torchvision") is None:
    pytest.skip("needs torchvision", allow_module_level=True)

from regal_jax import from_torch  # noqa: E402
from regal_jax.datasets.zoo.recipes.torch_modules import import_torchvision  # noqa: E402
from regal_jax.graphs.importers.torch import lowering, tracing  # noqa: E402
from regal_jax.graphs.topology_hash import topology_hash  # noqa: E402
from tests import torch_interpreter  # noqa: E402
from tests.graphs.cases import peak  # noqa: E402

models = import_torchvision().models

SIZES = {
    "alexnet": 64,
    "convnext_tiny": 32,
    "densenet121": 32,
    "efficientnet_b0": 32,
    "googlenet": 64,
    "mnasnet0_5": 32,
    "mobilenet_v3_small": 32,
    "regnet_y_400mf": 32,
    "resnet18": 32,
    "shufflenet_v2_x0_5": 64,
    "squeezenet1_1": 64,
    "swin_t": 64,
}
"""Models and the height and width of their images: small, so that running them takes a second."""


def model(name):
    options = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
    return models.get_model(name, weights=None, **options)


def test_resnet50_is_174_ops():
    graph = from_torch(models.resnet50().eval(), torch.empty(1, 3, 224, 224))
    kinds = collections.Counter(kind.rstrip("_") for kind in graph.op_kinds)
    assert graph.num_ops == 174
    assert kinds == {
        "convolution": 53,
        "native_batch_norm": 53,
        "relu": 49,
        "add": 16,
        "max_pool2d_with_indices": 1,
        "mean": 1,
        "addmm": 1,
    }


@pytest.mark.parametrize(
    ("name", "giga_macs"),
    [("resnet50", 4.09), ("vit_b_16", 17.56), ("vgg16", 15.47), ("densenet121", 2.83)],
)
def test_flops_are_those_published(name, giga_macs):
    """Torchvision's table gives multiply-adds; a FLOP count has two for each, and the rest."""
    graph = from_torch(model(name).eval(), torch.empty(1, 3, 224, 224))
    assert graph.flops.sum() / 2e9 == pytest.approx(giga_macs, rel=0.02)


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", list(SIZES))
def test_the_peak_of_program_order_is_the_measured_peak(name, mode):
    torch.manual_seed(0)
    module = model(name).train(mode != "inference")
    image = torch.randn(2, 3, SIZES[name], SIZES[name])
    recorded = tracing.trace(module, (image,), {}, mode=mode, loss=None)
    program = lowering.simplified(recorded)
    graph = lowering.lower(program).build()
    given = torch_interpreter.named_values(module, [image])
    _, measured = torch_interpreter.execute(program, given)
    assert peak(graph) == measured


def test_a_model_traced_twice_has_one_hash():
    hashes = {
        topology_hash(from_torch(model("googlenet").eval(), torch.empty(2, 3, 96, 96)))
        for _ in range(2)
    }
    assert len(hashes) == 1
