"""The pure-JAX cost of runs equals the checker's."""

import functools

import jax
import numpy as np
from hypothesis import given

from regal_jax.environments.recompute import checker
from regal_jax.environments.recompute.cost import peak_and_work
from regal_jax.environments.recompute.instance import scratch_of
from regal_jax.graphs.batching import GraphShape, graph_arrays
from tests.environments.recompute.cases import plans
from tests.environments.recompute.test_kernel import _cost

SHAPE = GraphShape(8, 14, 84, 14, 84)
MOST_RUNS = 40


@functools.cache
def batched():
    return jax.jit(jax.vmap(peak_and_work, in_axes=(None, 0)))


@given(plans())
def test_equals_the_checker(case):
    graph, order, instance, plan = case
    scratch = scratch_of(instance)
    count = _cost(instance, plan, scratch, 0)[0]
    again = order[scratch.runs[:count]] if 0 <= count <= MOST_RUNS else order
    rows = np.full((2, MOST_RUNS), -1, np.int32)
    rows[0, : len(again)], rows[1, : len(order)] = again, order
    with jax.enable_x64(True):
        peak, work = map(np.asarray, batched()(graph_arrays(graph, SHAPE), rows))
    for index, runs in enumerate((again, order)):
        assert peak[index] == max(checker.usage(graph, runs.tolist()))
        assert work[index] == np.cumsum(graph.duration[runs])[-1]
