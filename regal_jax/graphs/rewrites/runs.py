"""The graph of a schedule in which ops run again: each run is an op of its own."""

from collections.abc import Sequence

from regal_jax.graphs.computation_graph import ComputationGraph


def graph_of_runs(graph: ComputationGraph, runs: Sequence[int]) -> ComputationGraph:
    """Op ``i`` is run ``i``: it reads what was made last before it, and makes tensors of its own.

    In the order 0, 1, ... it needs what the schedule does, step by step; another order may need
    less. Persistent tensors are made by the first run alone.

    Args:
      graph: O ops.
      runs: ops as they run, each after what makes its inputs.
    """
    tensors: list[int] = []
    producer: list[int] = []
    consumers: list[list[int]] = []
    latest: dict[int, int] = {}

    def make(tensor: int, run: int) -> None:
        latest[tensor] = len(tensors)
        tensors.append(tensor)
        producer.append(run)
        consumers.append([])

    for tensor, op in enumerate(graph.producer.tolist()):
        if op < 0:
            make(tensor, -1)
    reads, writes = graph.inputs.lists(), graph.outputs.lists()
    for run, op in enumerate(runs):
        for tensor in reads[op]:
            consumers[latest[tensor]].append(run)
        for tensor in writes[op]:
            if tensor not in latest or not graph.persistent[tensor]:
                make(tensor, run)
    return ComputationGraph.create(
        producer=producer,
        size=graph.size[tensors],
        persistent=graph.persistent[tensors],
        consumers=consumers,
        num_ops=len(runs),
        duration=graph.duration[list(runs)],
        workspace=graph.workspace[list(runs)],
        name=graph.name,
    )
