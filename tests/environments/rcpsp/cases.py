"""Machine problems for tests: hypothesis strategies and hand-made graphs."""

import numpy as np
from hypothesis import strategies as st

from regal_jax.graphs.computation_graph import ComputationGraph
from tests.strategies import computation_graphs


@st.composite
def machine_graphs(draw: st.DrawFn, max_ops: int = 12, *, whole: bool | None = None):
    """Graphs with up to 3 machine types; durations whole (0 included) or not, with many ties."""
    graph = draw(computation_graphs(max_ops, machine_types=3))
    if whole or (whole is None and draw(st.booleans())):
        return graph
    times = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 1.1, 1e-9])
    duration = draw(st.lists(times, min_size=graph.num_ops, max_size=graph.num_ops))
    return graph.replace(duration=np.array(duration))


@st.composite
def genes(draw: st.DrawFn, count: int) -> np.ndarray:
    """float32[3, count]: genes of which many are equal, zeros and denormals included."""
    values = st.sampled_from([-1.0, -1e-40, -0.0, 0.0, 1e-45, 1e-40, 0.1, 0.5, 1.0, 3.0])
    rows = draw(st.lists(values, min_size=3 * count, max_size=3 * count))
    return np.array(rows, np.float32).reshape(3, count)


def graph_of(edges, *, capacity, duration, **columns) -> ComputationGraph:
    """A graph from pairs of ops."""
    num_ops = len(duration)
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=np.zeros(num_ops, np.int64),
        consumers=[[after for before, after in edges if before == op] for op in range(num_ops)],
        capacity=capacity,
        duration=duration,
        name="hand-made",
        **columns,
    )


def random_graph(seed: int, num_ops: int, num_types: int = 3) -> ComputationGraph:
    """A larger graph with capacities of up to 70 and demands of 0 to all of it."""
    rng = np.random.default_rng(seed)
    pairs = np.sort(rng.integers(0, num_ops, (2 * num_ops, 2)), axis=1)
    relabel = rng.permutation(num_ops)
    pairs = relabel[pairs[pairs[:, 0] < pairs[:, 1]]]
    capacity = rng.integers(1, 71, num_types)
    machine = rng.integers(0, num_types, num_ops)
    return graph_of(
        pairs.tolist(),
        capacity=capacity,
        machine_type=machine,
        demand=rng.integers(0, capacity[machine] + 1),
        duration=rng.integers(0, 9, num_ops).astype(np.float64),
    )
