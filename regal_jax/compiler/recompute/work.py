"""What it takes to run each kernel of a program."""

import numpy as np

from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.compiler.recompute.emission import Making
from regal_jax.graphs.importers.jax.program import flops_of

FLOPS_PER_BYTE = 1.0
"""The price of a byte that a kernel reads or writes, so that cheap kernels aren't free."""


def kernel_work(kernels: Kernels) -> np.ndarray:
    """float64[K]: FLOPs of a run, those of the cheap ops inside it, too, and its bytes' price."""
    program, graph = kernels.program, kernels.graph
    flops = [sum(flops_of(step.equation) for step in op.steps) for op in program.ops]
    making, kept = Making(program), frozenset(kernels.ops)
    inside = [making.of(program.ops[op].reads, kept).ops for op in kernels.ops]
    work = [
        flops[op] + sum(flops[o] for o in ops) for op, ops in zip(kernels.ops, inside, strict=True)
    ]
    moved = graph.inputs.sums(graph.size) + graph.outputs.sums(graph.size)
    return np.array(work, np.float64) + FLOPS_PER_BYTE * moved
