"""Random plans of recomputation."""

import numpy as np
from hypothesis import strategies as st

from regal_jax.environments.recompute.instance import instance_of
from regal_jax.search.orders import rules
from tests.strategies import computation_graphs


@st.composite
def plans(draw, **sizes):
    """(graph, base order, instance, plan int8[G])."""
    graph = draw(computation_graphs(max_ops=8, max_tensors=14, **sizes))
    order = rules.random_order(graph, draw(st.integers(0, 99)))
    instance = instance_of(graph, order, graph.duration)
    length = len(instance.tensor)
    plan = draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
    return graph, order, instance, np.array(plan, np.int8)
