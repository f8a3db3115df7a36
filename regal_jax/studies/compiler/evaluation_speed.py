"""Evaluations of the vmapped pure-JAX cost on a device beside the compiled kernel on its host's
cores, from rows of ``benchmarks/accelerator.py``."""

from collections.abc import Sequence

from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import markdown_table
from regal_jax.studies.kept import KEY

PURE, KERNEL = "pure JAX", "compiled kernel"
MICROSECONDS = "us an evaluation"
COLUMNS = (KEY, "device", "cores", "batch", "ops")


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line a graph and batch."""
    of: dict[tuple, dict] = {}
    for row in rows:
        key = (*(row[name] for name in ("device", "cores", "graph", "ops", "batch")),)
        of.setdefault(key, {})[row["method"], row["metric"]] = float(row["value"])
    return [
        {
            "device": device,
            "graph": f"`{graph}`",
            "ops": str(ops),
            "batch": f"{int(batch):,}",
            "pure JAX, us": f"{found[PURE, MICROSECONDS]:.3g}",
            f"kernel on {cores} cores, us": f"{found[KERNEL, MICROSECONDS]:.3g}",
            "speed": f"{found[KERNEL, MICROSECONDS] / found[PURE, MICROSECONDS]:.2f}",
            "first call, s": f"{found[PURE, 'first_seconds']:.3g}",
            "largest difference": f"{found[PURE, 'difference']:.1g}",
        }
        for (device, cores, graph, ops, batch), found in of.items()
    ]


def page(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    return f"{markdown_table(table(rows))}\n"
