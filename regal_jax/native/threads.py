"""Compiled work on all cores."""

import functools
import itertools
import os
from collections.abc import Callable
from concurrent import futures

WORTH_A_THREAD = 20_000
"""Ops and edges below which starting threads costs more than it saves (measured)."""


def over_threads(
    run: Callable[[int, int], None], count: int, work: int, num_threads: int | None = None
) -> None:
    """Calls ``run(first, last)`` on parts of 0..count, at once on all cores.

    Args:
      run: compiled work that holds no GIL and writes to its own part only.
      work: ops and edges in all; little of it stays on this thread.
      num_threads: instead of what ``work`` suggests.
    """
    if num_threads is None:
        num_threads = num_cores() if work > WORTH_A_THREAD else 1
    parts = min(num_threads, count)
    if parts <= 1:
        run(0, count)
        return
    bounds = [count * i // parts for i in range(parts + 1)]
    pool = _pool(os.getpid())
    elsewhere = [pool.submit(run, *part) for part in itertools.pairwise(bounds[1:])]
    try:
        run(0, bounds[1])
    finally:
        futures.wait(elsewhere)
    for part in elsewhere:
        part.result()


@functools.cache
def num_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _pool(process: int) -> futures.ThreadPoolExecutor:
    """The threads of a process: a child after a fork has its parent's memory, not its threads."""
    return futures.ThreadPoolExecutor(num_cores(), thread_name_prefix="regal_jax")
