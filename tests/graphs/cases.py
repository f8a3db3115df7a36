"""Graphs that several tests use."""

import numpy as np

from regal_jax.environments.placement.checker import evaluate
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph


def peak(graph: ComputationGraph, order=None) -> int:
    """Bytes that one device needs in an order, by default that of the ops' numbers."""
    schedule = Schedule(
        graph=graph.name,
        objective="peak_memory",
        num_devices=1,
        placement=np.zeros(graph.num_ops, np.int32),
        steps=np.arange(graph.num_ops) if order is None else np.asarray(order, np.int64),
    )
    return int(evaluate(graph, schedule, Platform(1)).peak_memory[0])


def training_step():
    """Weight (tensor 0), batch (1), activation (2) and persistent output (3) of two ops."""
    return ComputationGraph.create(
        num_ops=2,
        producer=[-1, -1, 0, 1],
        size=[100, 10, 20, 5],
        persistent=[True, False, False, True],
        consumers=[[0, 1], [0], [1], []],
        duration=[1, 2],
        workspace=[3, 4],
        op_names=("f", "g"),
        op_kinds=("dot", "add"),
        name="step",
        extra={"": {"a": 1}, "ops": {"line": [7, 8]}, "tensors": {"name": ["w", "x", "y", "z"]}},
    )


def single_input_graph(seed: int, num_ops: int) -> ComputationGraph:
    """Ops that read one tensor or none, of ops before them; no two durations are equal."""
    rng = np.random.default_rng(seed)
    parent = [max(int(rng.integers(-op, op)), -1) for op in range(1, num_ops)]
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=parent,
        size=rng.integers(1, 9, num_ops - 1),
        consumers=[[op] for op in range(1, num_ops)],
        duration=0.1 + rng.random(num_ops),
    )
