"""What it takes to run each kernel of a program."""

import numpy as np

from regal_jax.compiler.accelerators.roofline import kernel_seconds
from regal_jax.compiler.accelerators.specifications import Specification
from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.compiler.recompute.emission import Making
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
    kinds = [(_types(kernels, op), _is_convolution(kernels, op)) for op in kernels.ops]
    each = zip(flops, moved, kinds, strict=True)
    return np.array([kernel_seconds(work, size, *kind, on) for work, size, kind in each])


def _flops(kernels: Kernels) -> np.ndarray:
    program = kernels.program
    flops = np.array([sum(flops_of(one.equation) for one in op.steps) for op in program.ops])
    making, kept = Making(program), frozenset(kernels.ops)
    inside = [making.of(program.ops[op].reads, kept).ops for op in kernels.ops]
    return np.array(
        [flops[[op, *ops]].sum() for op, ops in zip(kernels.ops, inside, strict=True)], np.float64
    )


def _types(kernels: Kernels, op: int) -> set[str]:
    """Of what an op makes."""
    avals = [kernels.program.avals[value] for value in kernels.program.ops[op].writes]
    return {_TYPES.get(str(aval.dtype), "f32") for aval in avals if aval is not None}


def _is_convolution(kernels: Kernels, op: int) -> bool:
    steps = kernels.program.ops[op].steps
    return any(one.equation.primitive.name.startswith("conv_general") for one in steps)
