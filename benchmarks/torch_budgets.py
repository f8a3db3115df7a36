"""``recompute`` beside PyTorch's activation memory budget, on the same joint graphs.

    python benchmarks/torch_budgets.py [--models=mlp,resnet18] [--budgets=0.9,0.7,0.5,0.3,0.1]

PyTorch's partitioner (min-cut, then a knapsack of what else to make again) splits a module's joint
graph of losses and gradients into a forward and a backward one. Both, one after the other, and the
joint graph are imported by ``from_torch``: bytes beyond what is given, call by call of ATen without
fusion, and FLOPs, which the knapsack counts, too. Needs torch and torchvision. With ``--csv`` the
numbers are rows of it, and experiments/results_pages.py makes the table.
"""

import argparse
import contextlib
import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch._functorch import config, partitioners
from torch._functorch.aot_autograd import aot_function, make_boxed_func

import regal_jax as rj
from regal_jax.datasets.zoo.recipes.torch_modules import import_torchvision
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import progress, results
from regal_jax.reporting.results import Row
from regal_jax.search.orders.dynamic_programming import order_peak
from regal_jax.search.recompute.search import (
    Plan,
    PlanSearch,
    base_orders,
    plans_within,
    searches_from,
)
from regal_jax.studies import keys
from regal_jax.studies.comparison import torch_budgets
from regal_jax.studies.comparison.torch_budgets import IN_ORDER, OURS, PLAIN, TORCH

EVALUATIONS = 20_000
"""Of an order, of a plan within a limit, and of its improvement."""
STEPS = 8
"""Halvings of the range of bytes in which the least for some FLOPs is looked for."""

Example = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--budgets", default="0.9,0.7,0.5,0.3,0.1")
    parser.add_argument("--csv", help="file that the rows are added to")
    flags = parser.parse_args()
    names, budgets = flags.models.split(","), [float(share) for share in flags.budgets.split(",")]
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"--models: {unknown[0]!r} is none of {', '.join(MODELS)}")
    if not all(0.0 <= budget <= 1.0 for budget in budgets):
        parser.error("--budgets are from 0 to 1")
    rows = []
    for name in progress.each("models", names):
        made = measure(name, budgets)
        rows += made
        if flags.csv:
            results.append_results(flags.csv, made, torch_budgets.COLUMNS)
    print(torch_budgets.page(rows))


def measure(name: str, budgets: Sequence[float]) -> list[Row]:
    """Rows of one model: the plain program, and both at each budget."""
    joint = joint_of(*MODELS[name]())
    graph = joint.graph_of(joint.plain, name)
    orders = base_orders(graph) | {"auto": in_order(graph)}
    searches = searches_from(graph, orders, graph.flops)
    given = int(graph.size[graph.producer < 0].sum())
    plain = order_peak(graph, graph.topological_order)
    found = {("", PLAIN, "bytes"): plain, ("", PLAIN, "flops"): graph.flops.sum()}
    for budget in budgets:
        split = joint.graph_of(joint.split(budget), name)
        size, flops = order_peak(split, split.topological_order), float(split.flops.sum())
        found[budget, TORCH, "bytes"], found[budget, TORCH, "flops"] = size, flops
        found[budget, IN_ORDER, "bytes"] = order_peak(split, in_order(split))
        found[budget, OURS, "bytes"] = least_bytes(searches, flops)
        if plan := best_within(searches, size):
            found[budget, OURS, "flops"] = plan.work
    key = keys.key(graph=graph, budgets=budgets, settings=[EVALUATIONS, STEPS])
    common = {"graph": name, "seed": 0, "key": key, "ops": graph.num_ops}
    common |= {"torch": torch.__version__}
    return [
        common
        | {"budget": budget, "method": method, "metric": metric}
        | {"value": float(value - given if metric == "bytes" else value)}
        for (budget, method, metric), value in found.items()
    ]


def in_order(graph: ComputationGraph) -> np.ndarray:
    """A good order on one device."""
    return rj.optimize(graph, num_devices=1, evaluations=EVALUATIONS).ops_in_order()


def best_within(searches: Mapping[str, PlanSearch], limit: int) -> Plan | None:
    """The plan of least work that is found within a limit."""
    found = plans_within(searches, limit, EVALUATIONS, EVALUATIONS).values()
    return min(found, key=lambda plan: plan.work, default=None)


def least_bytes(searches: Mapping[str, PlanSearch], work: float) -> int:
    """The least bytes that are found to do with so much work."""
    low, high = 0, min(search.plain.peak for search in searches.values())
    for _ in range(STEPS):
        middle = (low + high) // 2
        plan = best_within(searches, middle)
        if plan and plan.work <= work * (1 + 1e-9):
            high = plan.peak
        else:
            low = middle
    return high


class Joint(NamedTuple):
    """A module's joint graph of its loss and gradients, as PyTorch's partitioners get it.

    Attributes:
      module: of all inputs that exist before, and of the loss's gradient.
      inputs: both lists of these. num_outputs: results that are no gradients.
      keywords: what else partitioners are called with.
    """

    module: torch.fx.GraphModule
    inputs: tuple[list, list]
    num_outputs: int
    keywords: Mapping[str, Any]

    def plain(self, *args: Any) -> Any:
        """All of it, each op once."""
        count = len(self.inputs[0])
        return self.module(list(args[:count]), list(args[count:]))

    def split(self, budget: float) -> Callable[..., Any]:
        """The forward graph and then the backward one, as split for a budget in [0, 1]."""
        with config.patch(activation_memory_budget=budget):
            forward, backward = partitioners.min_cut_rematerialization_partition(
                copy.deepcopy(self.module),
                self.inputs,
                num_fwd_outputs=self.num_outputs,
                **self.keywords,
            )

        def both(*args: Any) -> Any:
            count = len(self.inputs[0])
            made = forward(*args[:count])
            kept = made[self.num_outputs :]
            return made[: self.num_outputs], backward(*kept, *args[count:])

        return both

    def graph_of(self, program: Callable[..., Any], name: str) -> ComputationGraph:
        """What ``from_torch`` makes of a program on these inputs."""
        shapes = [
            torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="meta")
            for some in self.inputs
            for one in some
        ]
        return rj.from_torch(program, *shapes, name=name)


def joint_of(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> Joint:
    """The joint graph of a module in training, without statistics of batches and dropout."""
    given = dict(module.named_parameters()) | dict(module.named_buffers())
    found: list[Joint] = []

    def loss(tensors, inputs):
        output = torch.func.functional_call(module, tensors, inputs)
        outputs = [output] if isinstance(output, torch.Tensor) else list(output.values())
        return sum(one.mean() for one in outputs if one.is_floating_point())

    def partition(joint, joint_inputs, *, num_fwd_outputs, **keywords):
        found.append(Joint(joint, joint_inputs, num_fwd_outputs, keywords))
        raise _Traced

    with contextlib.suppress(_Traced):
        aot_function(loss, make_boxed_func, partition_fn=partition)(given, inputs)
    return found[0]


class _Traced(Exception):
    """Nothing has to run once the joint graph is known."""


def _image_model(name: str, **options: Any) -> Example:
    """A model of torchvision without statistics of batches, and sixteen small images."""
    module = import_torchvision().models.get_model(name, weights=None, **options).train()
    for one in module.modules():
        if isinstance(one, torch.nn.BatchNorm2d):
            one.track_running_stats, one.running_mean, one.running_var = False, None, None
            one.num_batches_tracked = None
        if isinstance(one, torch.nn.Dropout):
            one.p = 0.0
    return module, (torch.zeros(16, 3, 64, 64),)


def _mlp() -> Example:
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(256, 256), torch.nn.GELU())]
    return torch.nn.Sequential(*layers), (torch.zeros(2048, 256),)


def _encoder() -> Example:
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 6), (torch.zeros(8, 128, 256),)


class _Unrolled(torch.nn.Module):
    """A recurrent network, step by step."""

    def __init__(self):
        super().__init__()
        self.cell = torch.nn.LSTMCell(64, 128)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        state = None
        for step in inputs:
            state = self.cell(step, state)
        return state[0]


def _lstm() -> Example:
    return _Unrolled(), (torch.zeros(40, 32, 64),)


IMAGE_MODELS = (
    *("resnet18", "vgg11_bn", "densenet121", "squeezenet1_1", "mobilenet_v3_small"),
    *("shufflenet_v2_x1_0", "efficientnet_b0", "mnasnet1_0", "regnet_y_400mf"),
    *("convnext_tiny", "swin_t"),
)
MODELS: Mapping[str, Callable[[], Example]] = MappingProxyType(
    {
        "mlp": _mlp,
        **{name: functools.partial(_image_model, name) for name in IMAGE_MODELS},
        "vit_b_32": functools.partial(_image_model, "vit_b_32", image_size=64),
        "encoder": _encoder,
        "lstm": _lstm,
    }
)
"""By name, a module in training and its inputs."""


if __name__ == "__main__":
    main()
