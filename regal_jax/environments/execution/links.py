"""What a schedule takes where transfers wait for each other (ours). Plain Python.

In the linear model (``placement.checker``) any number of tensors cross at once. Here each device
sends its tensors one after another, as its ops end: of one op by tensor, then by device. A device
that needs a tensor gets it once.
"""

import numpy as np

from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph


def makespan(
    graph: ComputationGraph, schedule: Schedule, platform: Platform, *, blocking: bool
) -> float:
    """us that a valid schedule takes if each device has one link to all others.

    Args:
      graph, schedule: which must be a valid schedule of the graph.
      platform: latency and time per byte of a transfer, during which its link is taken.
      blocking: whether a device waits until its op's outputs have left before it begins the next
        op; else it goes on while they are sent.
    """
    free, link = np.zeros(schedule.num_devices), np.zeros(schedule.num_devices)
    placement, duration = schedule.placement.tolist(), graph.duration.tolist()
    inputs, outputs = graph.inputs.lists(), graph.outputs.lists()
    readers, size, producer = graph.consumers.lists(), graph.size.tolist(), graph.producer.tolist()
    arrival: dict[tuple[int, int], float] = {}
    end = 0.0
    for op in schedule.ops_in_order().tolist():
        device = placement[op]
        made = [tensor for tensor in inputs[op] if producer[tensor] >= 0]
        start = max([free[device], *(arrival[tensor, device] for tensor in made)])
        finish = start + duration[op]
        sent = max(link[device], finish)
        for tensor in outputs[op]:
            arrival[tensor, device] = finish
            for there in sorted({placement[reader] for reader in readers[tensor]} - {device}):
                sent += platform.latency + size[tensor] * platform.per_byte
                arrival[tensor, there] = sent
        link[device] = sent
        free[device] = sent if blocking else finish
        end = max(end, finish)
    return float(end)
