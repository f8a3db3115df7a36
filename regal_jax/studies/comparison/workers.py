"""What more workers make of a sweep: measured and simulated speedups, and their table."""

import heapq
from collections.abc import Sequence

from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import markdown_table
from regal_jax.studies.kept import KEY

COLUMNS = (KEY, "workers", "tasks", "mean_seconds", "start")
SPEEDUP = "speedup"


def wall(seconds: Sequence[float], workers: int, start: float) -> float:
    """Seconds until the last task is done, if each worker takes the next one when it is free.

    Args:
      seconds: of each task, in the order they are handed out.
      workers: at least 1. start: seconds before each takes its first task.
    """
    free = [start] * workers
    for task in seconds:
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def page(rows: Sequence[Row]) -> str:
    """A line each number of workers: speedup over one process, and efficiency, in Markdown."""
    lines = []
    for row in rows:
        count, speedup = int(row["workers"]), float(row["value"])
        lines.append(
            {
                "sweep": f"{row['graph']}, {row['method']}",
                "tasks": f"{int(row['tasks']):,}",
                "s a task": f"{float(row['mean_seconds']):.2f}",
                "s to start": f"{float(row['start']):.1f}",
                "workers": str(count),
                "speedup": f"{speedup:.2f}",
                "efficiency": f"{speedup / count:.2f}",
            }
        )
    return f"{markdown_table(lines)}\n"
