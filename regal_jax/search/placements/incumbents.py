"""What is known of a graph before a search: the best of its cheap schedules, as features of ops."""

import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.search.placements.cheap import cheap_schedules


def cheap_incumbent(problem: PlacementProblem) -> tuple[Schedule, float]:
    """The best of the cheap schedules, of which there are ``cheap.most_schedules``; its cost."""
    found = cheap_schedules(problem.graph, problem.num_devices, problem.objective)
    costs = np.asarray(problem.fitness(np.stack([problem.encode(schedule) for schedule in found])))
    best = int(costs.argmin())
    return found[best], float(costs[best])


def incumbent_features(schedule: Schedule, pinned: int, advantage: float) -> np.ndarray:
    """float32[O, D + 2]: a schedule as features of ops.

    Its device, one-hot, devices renamed such that op ``pinned`` is on device 0; the op's place in
    the order, 0 first and 1 last; and, the same for all ops, ``advantage``: the logarithm of
    another schedule's cost over this one's, cut off at -1 and 1.
    """
    num_ops = len(schedule.placement)
    order = schedule.steps[schedule.steps < num_ops]
    position = np.empty(num_ops)
    position[order] = np.arange(num_ops) / max(num_ops - 1, 1)
    rename = np.arange(schedule.num_devices)
    if num_ops:
        first = schedule.placement[pinned]
        rename[[0, first]] = rename[[first, 0]]
    device = np.eye(schedule.num_devices)[rename[schedule.placement]]
    known = np.full(num_ops, np.clip(advantage, -1.0, 1.0))
    return np.column_stack([device, position, known]).astype(np.float32)
