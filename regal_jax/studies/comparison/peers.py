"""How fast programs of other makers are beside ours, from rows of ``benchmarks``."""

from collections.abc import Mapping, Sequence
from typing import Any

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import markdown_table
from regal_jax.studies import keys
from regal_jax.studies.kept import KEY

COLUMNS = (KEY, "benchmark", "ops", "cores")

RATIO = "time over ours"


def rows(
    benchmark: str,
    graph: ComputationGraph,
    ratios: Mapping[str, float],
    cores: int,
    settings: Mapping[str, Any],
) -> list[Row]:
    """A row a peer: its time over that of ours in the same run. ``benchmark`` says what was
    timed, ``settings`` what else the time depends on."""
    key = keys.key(benchmark=benchmark, graph=graph, settings=settings, machine=keys.machine())
    common = {"graph": graph.name, "seed": 0, "ops": graph.num_ops, "benchmark": benchmark}
    common |= {"cores": cores, "metric": RATIO, KEY: key}
    return [common | {"method": peer, "value": float(ratio)} for peer, ratio in ratios.items()]


def page(rows: Sequence[Row]) -> str:
    """A line a benchmark and graph, a column a peer, in Markdown."""
    peers = dict.fromkeys(row["method"] for row in rows)
    lines: dict[tuple, dict[str, str]] = {}
    for row in rows:
        about = {"what": row["benchmark"], "graph": f"`{row['graph']}`", "ops": row["ops"]}
        about["cores"] = row["cores"]
        line = lines.setdefault((*about.values(),), about | dict.fromkeys(peers, ""))
        line[row["method"]] = f"{float(row['value']):.3g}"
    return f"Times of others over ours:\n\n{markdown_table(list(lines.values()))}\n"
