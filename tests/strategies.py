"""Hypothesis strategies: small computation graphs of every shape the file format allows."""

import numpy as np
from hypothesis import strategies as st

from regal_jax.graphs.computation_graph import ComputationGraph

SIZES = st.one_of(st.just(0), st.integers(0, 20), st.sampled_from([64, 100, 1000, 4096]))
"""Tensor and workspace sizes, bytes: often 0; sums over a small graph are exact in float32."""


@st.composite
def computation_graphs(
    draw: st.DrawFn,
    max_ops: int = 12,
    *,
    min_ops: int = 1,
    max_tensors: int | None = None,
    machine_types: int = 0,
    labelled: bool = False,
) -> ComputationGraph:
    """General graphs of ``min_ops..max_ops`` ops and up to ``max_tensors`` (2 * max_ops) tensors.

    Ops and tensors are numbered in any order, not topologically. Graphs have persistent tensors,
    workspaces, tensors without producer or without consumers, several outputs an op, several
    consumers a tensor, control tensors (size 0), ops without inputs or outputs, and separate
    components. Durations are whole numbers of microseconds, 0 included.

    Args:
      machine_types: if positive, at most so many machine types with capacities, and demands that
        fit them; otherwise the defaults (type 0, demand 1, no capacity).
      labelled: draw names, kinds and unknown keys (``extra``), too.
    """
    num_ops = draw(st.integers(min_ops, max_ops))
    rank = draw(st.permutations(range(num_ops)))
    max_tensors = 2 * max_ops if max_tensors is None else max_tensors
    tensors = draw(_column(_tensors(num_ops), draw(st.integers(0, max_tensors))))
    labels = draw(_labels(num_ops, len(tensors))) if labelled else {}
    machines = draw(_machines(num_ops, machine_types)) if machine_types else {}
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=[producer for producer, *_ in tensors],
        size=[size for _, size, *_ in tensors],
        persistent=[persistent for *_, persistent, _ in tensors],
        consumers=[_later(rank, producer, consumers) for producer, *_, consumers in tensors],
        duration=draw(_column(st.integers(0, 9), num_ops)),
        workspace=draw(_column(SIZES, num_ops)),
        **machines,
        **labels,
    )


@st.composite
def dags(draw: st.DrawFn, max_nodes: int = 12) -> tuple[int, np.ndarray]:
    """(number of nodes, distinct edges int32[E, 2]) of an acyclic graph, nodes in any order."""
    num_nodes = draw(st.integers(1, max_nodes))
    rank = draw(st.permutations(range(num_nodes)))
    node = st.integers(0, num_nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=3 * num_nodes, unique=True))
    edges = [(u, v) for u, v in pairs if rank[u] < rank[v]]
    return num_nodes, np.array(edges, np.int32).reshape(-1, 2)


def _tensors(num_ops: int) -> st.SearchStrategy[tuple[int, int, bool, list[int]]]:
    """(producer, size, persistent, wanted consumers) of one tensor."""
    consumers = st.lists(st.integers(0, num_ops - 1), max_size=6)
    persistent = st.sampled_from([False, False, False, True])
    return st.tuples(st.integers(-1, num_ops - 1), SIZES, persistent, consumers)


def _later(rank: list[int], producer: int, consumers: list[int]) -> list[int]:
    """The consumers that may follow the producer."""
    return [c for c in consumers if producer < 0 or rank[c] > rank[producer]]


def _column(values: st.SearchStrategy, length: int) -> st.SearchStrategy[list]:
    return st.lists(values, min_size=length, max_size=length)


@st.composite
def _machines(draw: st.DrawFn, num_ops: int, most: int) -> dict[str, list[int]]:
    capacity = draw(st.lists(st.integers(1, 5), min_size=1, max_size=most))
    machine_type = draw(_column(st.integers(0, len(capacity) - 1), num_ops))
    demand = [draw(st.integers(0, capacity[machine])) for machine in machine_type]
    return {"machine_type": machine_type, "demand": demand, "capacity": capacity}


@st.composite
def _labels(draw: st.DrawFn, num_ops: int, num_tensors: int) -> dict:
    text = st.text(max_size=3)
    table = st.fixed_dictionaries({}, optional={"colour": st.lists(text, max_size=2)})
    tensor_names = {"name": draw(_column(text, num_tensors))}
    extra = {"": draw(table), "ops": draw(table), "tensors": tensor_names}
    return {
        "op_names": tuple(draw(st.one_of(st.just([]), _column(text, num_ops)))),
        "op_kinds": tuple(draw(st.one_of(st.just([]), _column(text, num_ops)))),
        "flops": draw(st.none() | _column(st.integers(0, 9), num_ops)),
        "bytes_accessed": draw(st.none() | _column(SIZES, num_ops)),
        **{key: draw(text) for key in ("name", "family", "source")},
        "extra": {key: content for key, content in extra.items() if content},
    }
