"""Schedules from placements and orders."""

import numpy as np

from regal_jax.search.orders.rules import build_schedule


def schedule_of(graph, placement, order, num_devices=2):
    return build_schedule(
        graph,
        np.array(order, np.int32),
        np.array(placement, np.int32),
        objective="makespan",
        num_devices=num_devices,
    )
