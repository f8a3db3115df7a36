"""Schedules as chains of ops, one a device, whatever the devices are called."""

import numpy as np


def previous_ops(placement: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    """int32[N, O]: the op that the device of each op runs right before it, -1 for a device's first.

    Equal rows are schedules that differ in the names of devices alone.

    Args:
      placement: int[N, O], device per op.
      sequence: int[N, O], the ops; each device runs its own in that order.
    """
    device = np.take_along_axis(placement, sequence, axis=1)
    by_device = np.argsort(device, axis=1, kind="stable")
    op = np.take_along_axis(sequence, by_device, axis=1)
    device = np.take_along_axis(device, by_device, axis=1)
    before = np.where(device[:, 1:] == device[:, :-1], op[:, :-1], -1)
    previous = np.full(op.shape, -1, np.int32)
    np.put_along_axis(previous, op[:, 1:], before, axis=1)
    return previous
