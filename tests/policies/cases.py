"""Small graphs and random inputs that the tests of policies and training share."""

import jax
import numpy as np

from regal_jax.graphs.batching import GraphShape, exact_shape
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.placement import PolicyInputs, policy_inputs


def chain(length: int) -> ComputationGraph:
    """op 0 -> op 1 -> ..., tensors of 1, 2, 3, ... bytes; the last has no consumer."""
    return ComputationGraph.create(
        num_ops=length,
        producer=range(length),
        size=range(1, length + 1),
        consumers=[*([op] for op in range(1, length)), []],
        name=f"chain {length}",
    )


def random_graph(seed: int, num_ops: int = 8) -> ComputationGraph:
    """Two tensors an op, each with up to three later consumers; inputs without producer, too."""
    rng = np.random.default_rng(seed)
    producer = [*range(num_ops), *range(num_ops), -1, -1]
    consumers = [
        sorted({int(op) for op in rng.integers(first + 1, num_ops, 3)})
        if first + 1 < num_ops
        else []
        for first in producer
    ]
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=producer,
        size=rng.integers(1, 100, len(producer)),
        consumers=consumers,
        workspace=rng.integers(0, 20, num_ops),
        duration=rng.integers(1, 9, num_ops).astype(float),
        name=f"random {seed}",
    )


def inputs_of(
    graph: ComputationGraph, shape: GraphShape | None = None, *, seed: int = 0
) -> PolicyInputs:
    """Inputs with random statistics, as of two devices."""
    statistics = np.random.default_rng(seed).random((graph.num_ops, 3)).astype(np.float32)
    return policy_inputs(graph, statistics, shape or exact_shape(graph))


def random_params(init, *args, scale: float = 0.5):
    """Normal numbers in the shapes of ``init(*args)``, which is neither compiled nor run."""
    rng = np.random.default_rng(1)
    shapes = jax.eval_shape(init, *args)
    return jax.tree.map(lambda s: (scale * rng.normal(size=s.shape)).astype(s.dtype), shapes)
