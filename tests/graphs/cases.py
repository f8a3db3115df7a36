"""Graphs that several tests use."""

from regal_jax.graphs.computation_graph import ComputationGraph


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
