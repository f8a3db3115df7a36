"""The compiled kernel of machine problems from Python: batches of chromosomes, on all cores."""

import numpy as np

from regal_jax.environments.rcpsp import kernel as rcpsp_kernel
from regal_jax.environments.rcpsp.columns import MachineColumns
from regal_jax.native import packing
from regal_jax.native.threads import over_threads


def evaluate_batch(
    graph: MachineColumns,
    packed: np.ndarray,
    chromosomes: np.ndarray,
    generation: int,
    *,
    with_starts: bool = False,
    num_threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Makespan float64[B] and, if wanted, start times float64[B, O] (else [B, 0]).

    Args:
      graph: what ``columns.machine_columns`` prepared.
      packed: the same in one buffer (``pack``).
      chromosomes: float32[B, genes].
      generation: ``rcpsp_kernel.PARALLEL`` or ``SERIAL``.
      num_threads: all cores by default, where the batch is worth it.
    """
    genes = np.ascontiguousarray(chromosomes, np.float32)
    kernel = rcpsp_kernel.KERNELS[generation]
    num_ops = len(graph.duration)
    makespan = np.empty(len(genes))
    start = np.empty((len(genes), num_ops if with_starts else 0))

    def run(first: int, last: int) -> None:
        scratch = np.empty(scratch_words(graph), np.int64)
        starts = start[first:].ctypes.data if with_starts else 0
        kernel(
            packed.ctypes.data,
            genes[first:].ctypes.data,
            (last - first, genes.shape[1]),
            scratch.ctypes.data,
            (makespan[first:].ctypes.data, 0, starts),
        )

    work = len(genes) * (num_ops + len(graph.successors))
    over_threads(run, len(genes), work, num_threads)
    return makespan, start


def scratch_words(graph: MachineColumns) -> int:
    """int64 words of working memory that the kernel needs for a graph."""
    return rcpsp_kernel.scratch_words(
        len(graph.duration), int(graph.slot_offsets[-1]), len(graph.capacity)
    )


def pack(graph: MachineColumns) -> np.ndarray:
    """int32[P]: all columns in one buffer, what the kernel reads."""
    return packing.pack(graph)
