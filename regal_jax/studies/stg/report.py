"""Mean gaps from the optimum by set, method and number of processors."""

from collections import defaultdict
from collections.abc import Sequence

from regal_jax.reporting import results, statistics, tables
from regal_jax.studies.stg.instances import Instance
from regal_jax.studies.stg.runs import BOUND

_COLUMNS = ("set", "graph", "processors", "method", "seed")


def report(instances: Sequence[Instance], rows: Sequence[results.Row]) -> str:
    """A table a set: mean gap by method and number of processors."""
    names = dict.fromkeys(instance.set_name for instance in instances)
    return "\n\n".join(_table(name, instances, rows) for name in names)


def _table(set_name: str, instances: Sequence[Instance], rows: Sequence[results.Row]) -> str:
    of_set = [instance for instance in instances if instance.set_name == set_name]
    gaps = gaps_by_column([row for row in rows if row["set"] == set_name])
    processors = sorted({p for _, p in gaps})
    known = [sum(instance.known[p].is_optimum for instance in of_set) for p in processors]
    lines: list[dict] = [
        {"method": "optimum known"} | dict(zip(map(_header, processors), known, strict=True))
    ]
    for method in dict.fromkeys(method for method, _ in gaps):
        cells = {_header(p): _interval(gaps[method, p]) for p in processors if (method, p) in gaps}
        lines.append({"method": method} | cells)
    title = f"{set_name}, {len(of_set)} graphs: % over the optimum (if unknown, its lower bound)"
    return f"{title}, mean and 95% interval\n{tables.text_table(lines)}"


def gaps_by_column(rows: Sequence[results.Row]) -> dict[tuple[str, int], dict[str, list[float]]]:
    """By method and number of processors, the gaps of each graph in percent, one a seed."""
    values: dict[tuple, dict[str, float]] = defaultdict(dict)
    for row in rows:
        values[tuple(row[column] for column in _COLUMNS)][row["metric"]] = row["value"]
    gaps: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (_, graph, processors, method, _), found in values.items():
        gap = float(statistics.gap_percent(found["makespan"], found[BOUND]))
        gaps[method, int(processors)][graph].append(gap)
    return gaps


def _header(processors: int) -> str:
    return f"{processors} processors"


def _interval(gaps: dict[str, list[float]]) -> str:
    return statistics.mean_interval(gaps).text()
