"""How far schedules go: a table of ever larger graphs, from rows of a benchmark."""

from collections.abc import Sequence

from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import markdown_table
from regal_jax.studies.kept import KEY

METHODS = ("depth_first", "auto")
"""A simple order, and what is compared with it."""
COLUMNS = (KEY, "ops", "devices", "time_limit")


def page(rows: Sequence[Row]) -> str:
    """A line a graph and number of devices, in Markdown."""
    found: dict[tuple[str, str, str], dict[tuple[str, str], float]] = {}
    for row in rows:
        values = found.setdefault((row["graph"], str(row["ops"]), str(row["devices"])), {})
        values[row["method"], row["metric"]] = float(row["value"])
    return f"{markdown_table([_line(*about, values) for about, values in found.items()])}\n"


def _line(
    graph: str, ops: str, devices: str, values: dict[tuple[str, str], float]
) -> dict[str, str]:
    simple, ours = METHODS
    cost = values[ours, "bytes"]
    return {
        "graph": f"`{graph}`",
        "ops": f"{int(ops):,}",
        "devices": devices,
        "bytes over depth first": f"{cost / values[simple, 'bytes']:.3f}",
        "over the bound": f"{cost / values[ours, 'bound']:.3f}",
        "s to read": f"{values[ours, 'read']:.1f}",
        "to schedule": f"{values[ours, 'scheduled']:.1f}",
        "depth first": f"{values[simple, 'scheduled']:.1f}",
        "to check": f"{values[ours, 'checked']:.1f}",
        "GiB": f"{values[ours, 'gib']:.2f}",
    }
