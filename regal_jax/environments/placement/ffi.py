"""The compiled kernel inside jitted programs (see ``native.bridge``)."""

import numpy as np

from regal_jax.environments.placement import kernel
from regal_jax.native import bridge

TARGET = "regal_jax_evaluate"


def options(
    num_devices: int,
    num_ops: int,
    with_makespan: bool,
    latency: float,
    per_byte: float,
    capacities: tuple[float, ...] | None,
) -> np.ndarray:
    """int32[2 * (6 + D)]: the kernel's options as 8-byte words, capacities [bytes] last."""
    numbers = np.array([latency, per_byte, *(capacities or [np.inf] * num_devices)])
    words = [num_devices, num_ops, with_makespan, capacities is not None]
    return np.concatenate([np.array(words, np.int64), numbers.view(np.int64)]).view(np.int32)


def batch_costs(packed, chromosomes, options: np.ndarray, *, scratch_words: int):
    """float32[N, B]: costs of N graphs' chromosomes (see ``cost.costs``).

    Args:
      packed: int32[N, P], graphs as ``packing.pack`` writes them.
      chromosomes: float32[N, B, genes].
      options: see ``options``.
      scratch_words: 8-byte words of working memory, see ``scratch_words``.
    """
    operands, shape = (packed, chromosomes, options), chromosomes.shape[:2]
    return bridge.call(TARGET, kernel.handle_call, operands, shape, scratch_words=scratch_words)


def scratch_words(num_ops: int, num_tensors: int, num_devices: int) -> int:
    """8-byte words of working memory for graphs of up to this size (see ``kernel``)."""
    copies = num_tensors * num_devices
    return 5 * (num_ops + 1) + 2 * (copies + 1) + 4 * num_devices + 8
