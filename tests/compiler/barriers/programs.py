"""Small functions to cut: random ones, and one for each thing that a cut must not break."""

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.compiler.barriers.emission import donated_arguments, program_of
from regal_jax.compiler.barriers.kernels import Kernels, kernels

SHAPE = (4, 4)
CHEAP = (jnp.tanh, jnp.exp2, lambda x: jnp.maximum(x, 0.1), lambda x: x * 0.5 + 1.0)


def random_function(seed: int, length: int = 14):
    """Matrix products, sums and elementwise ops of what came before, at random."""
    random = np.random.default_rng(seed)
    plan = [
        (random.integers(6), random.integers(0, 2 + step, 2).tolist()) for step in range(length)
    ]
    results = random.integers(2 + length // 2, 2 + length, 2).tolist()

    def function(a, b):
        values = [a, b]
        for kind, (left, right) in plan:
            x, y = values[left], values[right]
            if kind < 4:
                values.append(CHEAP[kind](x))
            elif kind == 4:
                values.append(x @ y / 4)
            else:
                values.append(x + jnp.sum(y, axis=0, keepdims=True))
        return [values[number] for number in results]

    return function


def traced(function, *shapes, **options):
    """Traced for float32 matrices, unless told otherwise."""
    shapes = shapes or (jax.ShapeDtypeStruct(SHAPE, jnp.float32),) * 2
    return jax.jit(function, **options).trace(*shapes)


def kernels_of(trace) -> Kernels:
    return kernels(program_of(trace), donated_arguments(trace))


def random_order(graph, seed: int) -> list[int]:
    """A topological order of a graph, at random."""
    random = np.random.default_rng(seed)
    before = [set() for _ in range(graph.num_ops)]
    for first, second in graph.op_pairs.tolist():
        before[second].add(first)
    order, done = [], set()
    while len(order) < graph.num_ops:
        ready = [op for op in range(graph.num_ops) if op not in done and before[op] <= done]
        order.append(int(random.choice(ready)))
        done.add(order[-1])
    return order
