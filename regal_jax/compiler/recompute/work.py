"""What it takes to run each kernel of a program."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regal_jax.compiler.accelerators.roofline import Kind, convolution, kernel_seconds
from regal_jax.compiler.accelerators.specifications import Specification
from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.graphs.importers.jax.program import flops_of

FLOPS_PER_BYTE = 1.0
"""The price of a byte that a kernel reads or writes, so that cheap kernels aren't free."""

_TYPES = {"bfloat16": "bf16", "float16": "f16", "float64": "f64"}
"""XLA's names of what isn't multiplied as "f32" is."""


def kernel_work(kernels: Kernels, on: Specification | None = None) -> np.ndarray:
    """float64[K]: of a run of each kernel, with the cheap ops inside it.

    Args:
      kernels: of the program.
      on: seconds on this device, by its roofline; without it FLOPs, and the price of the bytes.
    """
    graph = kernels.graph
    flops = _flops(kernels)
    moved = graph.inputs.sums(graph.size) + graph.outputs.sums(graph.size)
    if on is None:
        return flops + FLOPS_PER_BYTE * moved
    kinds = [(_types(kernels, op), _kind(kernels, op)) for op in kernels.ops]
    each = zip(flops, moved, kinds, strict=True)
    return np.array([kernel_seconds(work, size, *kind, on) for work, size, kind in each])


def repeated_flops(kernels: Kernels, runs: Sequence[int]) -> float:
    """FLOPs of kernels in a sequence that had been run before."""
    flops = _flops(kernels)
    return float(flops[list(runs)].sum() - flops.sum())


def _flops(kernels: Kernels) -> np.ndarray:
    program = kernels.program
    flops = np.array([sum(flops_of(one.equation) for one in op.steps) for op in program.ops])
    each = zip(kernels.ops, kernels.insides, strict=True)
    return np.array([flops[[op, *inside.ops]].sum() for op, inside in each], np.float64)


def _types(kernels: Kernels, op: int) -> set[str]:
    """Of what an op makes."""
    avals = [kernels.program.avals[value] for value in kernels.program.ops[op].writes]
    return {_TYPES.get(str(aval.dtype), "f32") for aval in avals if aval is not None}


def _kind(kernels: Kernels, op: int) -> Kind:
    """That of the convolution, if it is one; a filter's gradient has its window as its result."""
    for step in kernels.program.ops[op].steps:
        if step.equation.primitive.name == "conv_general_dilated":
            params, numbers = step.equation.params, step.equation.params["dimension_numbers"]
            groups = max(params["feature_group_count"], params["batch_group_count"])
            window = _elements(step.equation.invars[1].aval, numbers.rhs_spec)
            return convolution(
                groups, min(window, _elements(step.equation.outvars[0].aval, numbers.out_spec))
            )
    return Kind.PRODUCT


def _elements(aval: Any, spec: Sequence[int]) -> int:
    """Of the spatial dimensions."""
    return math.prod(aval.shape[axis] for axis in spec[2:])
