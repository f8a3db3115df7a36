"""Pages of results: tables in README.md and docs/results that are made from the CSV files there.

A table stands between ``<!-- results: NAME -->`` and ``<!-- end -->`` and is made from
``docs/results/NAME.csv``. Results that were typed have no rows, and are faults.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from regal_jax.datasets.job_shop import classic_bounds
from regal_jax.environments.schedule import Objective
from regal_jax.errors import RegalError
from regal_jax.graphs import files
from regal_jax.reporting import results, tables
from regal_jax.reporting.results import Row
from regal_jax.reporting.statistics import LEAST_GRAPHS
from regal_jax.studies import recompute, systems
from regal_jax.studies.comparison import curves, growth, peers, searches, torch_budgets, workers
from regal_jax.studies.comparison.paired import architectures, paired_table
from regal_jax.studies.compiler import device_tables, evaluation_speed, memory_budget
from regal_jax.studies.compiler import tables as compiler_tables
from regal_jax.studies.flags import option
from regal_jax.studies.gflownet import convergence
from regal_jax.studies.gflownet import tables as gflownet_tables
from regal_jax.studies.one_shot.tables import PUBLISHED_JOB_SHOPS, PUBLISHED_TPCH, gaps, makespans
from regal_jax.studies.proofs import report as proofs_report
from regal_jax.studies.regal import limits_report, method_times
from regal_jax.studies.regal.tables import paper_of, reference_of, table_1
from regal_jax.studies.topoformer import tables as topoformer_tables

_BLOCK = re.compile(r"(<!-- results: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_RESULT = re.compile(r"\d ?%|\[-?\d[\d.]*, -?\d|\d ?(?:±|\+-) ?\d|\| *[-+]?\d+\.\d")
"""A percentage, an interval, a spread, or a fraction in a table."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is made, and where."""

    folder: str = option(".", "The repository: README.md and docs/results are in it.")
    check: bool = option(False, "Write nothing; exit with 1 where a number has no row.")


def write(folder: Path) -> None:
    """Makes the tables of all pages anew. RegalError for a block without a CSV file."""
    for page in _pages(folder):
        text = page.read_text()
        made = generated(text, folder)
        if made != text:
            files.write_atomically(page, lambda file: file.write(made.encode()))  # noqa: B023


def faults(folder: Path) -> list[str]:
    """A line for each table that differs from its rows, and for each line with typed results."""
    found = []
    for page in _pages(folder):
        text, name = page.read_text(), page.relative_to(folder)
        for block in _BLOCK.finditer(text):
            if block[3] != _table(block[2], folder):
                found.append(f"{name}: results: {block[2]}: differs from its rows")
        typed = typed_results(text)
        found += [
            f"{name}, line {number}: a result that no CSV has: {line}" for number, line in typed
        ]
    return found


def generated(text: str, folder: Path) -> str:
    """A page with its tables made anew."""
    return _BLOCK.sub(lambda block: block[1] + _table(block[2], folder) + block[4], text)


def typed_results(text: str) -> list[tuple[int, str]]:
    """Lines (number, text) with results outside of blocks and code."""
    lines = _without(_BLOCK, _without(_CODE, text)).splitlines()
    return [(number, line) for number, line in enumerate(lines, 1) if _RESULT.search(line)]


def improvements(rows: Sequence[Row]) -> str:
    """Table 1 of REGAL from rows of a comparison: percent over brkga by setting, in Markdown.

    Of rows of several budgets, those of brkga's; ``paired_table`` has the others. Raises RegalError
    for rows of several platforms, without brkga, or with other graphs or seeds for some methods.
    """
    reference, table = reference_of(rows), dict[str, dict[str, str]]()
    budget = next(row["budget"] for row in rows if row["method"] == reference)
    rows = [row for row in rows if row["budget"] == budget]
    for setting in dict.fromkeys(row["setting"] for row in rows):
        count = _check_same_searches(rows, setting, reference)
        for line in searches.summary(rows, setting, reference):
            row = table.setdefault(line.method, {"method": f"`{line.method}`"})
            row[f"{setting} ({count} graphs)"] = line.improvement.text(".1f")
    for label, row in table.items():
        row |= _spent_and_paper([each for each in rows if each["method"] == label])
    return f"{_caption(rows)}\n\n{tables.markdown_table(list(table.values()))}\n"


def _spent_and_paper(rows: Sequence[Row]) -> dict[str, str]:
    """The last columns of a method's line, from its rows."""
    spent = [int(row["evaluations"]) for row in rows if row["metric"] == "cost"]
    improvement, _ = paper_of(rows[0]["method"].split()[0], "peak_memory") or (None, 0.0)
    return {
        "evaluations, mean": f"{sum(spent) / len(spent):,.0f}",
        "REGAL's paper (its graphs)": "" if improvement is None else f"{improvement:g}",
    }


def _check_same_searches(rows: Sequence[Row], setting: str, reference: str) -> int:
    """The number of graphs of a setting. RegalError unless all methods have the same searches."""
    done: dict[str, set] = {}
    for row in rows:
        if row["setting"] == setting and row["metric"] == "cost":
            done.setdefault(row["method"], set()).add((row["graph"], row["seed"]))
    for label, own in done.items():
        if own != done[reference]:
            raise RegalError(
                f"results: {setting}: {label} has {len(own)} searches, {reference}"
                f" {len(done[reference])} or others; finish the comparison"
            )
    return len({graph for graph, _ in done[reference]})


def gaps_of_machines(rows: Sequence[Row]) -> str:
    """Machine problems' gaps from the best, in Markdown."""
    best = {name: float(known["upper_bound"]) for name, known in classic_bounds().items()}
    caption = (
        "Percent above the best known makespans (where none is known: the best in the table), mean"
        " and\n95 % interval over graphs, whose number stands beside the setting."
    )
    return f"{caption}\n\n{tables.markdown_table(gaps(rows, best, PUBLISHED_JOB_SHOPS))}\n"


def makespans_of_tpch(rows: Sequence[Row]) -> str:
    """Makespans of TPC-H, with published ones beside, in Markdown."""
    caption = (
        "Mean makespans and 95 % intervals over graphs, whose number stands beside the setting."
    )
    return f"{caption}\n\n{tables.markdown_table(makespans(rows, PUBLISHED_TPCH))}\n"


def paired_of_machines(method: str, rows: Sequence[Row]) -> str:
    """A method against others with as many schedules, in Markdown; ``auto`` has more."""
    rows = [row for row in rows if row["method"] != "auto"]
    caption = (
        f"How much shorter schedules of `{method}` are than others' of as many: 100 times the mean"
        "\nlogarithm of ratios, paired by graph, with its 95 % interval."
    )
    return f"{caption}\n\n{tables.markdown_table(paired_table(rows, method))}\n"


def paired(rows: Sequence[Row]) -> str:
    """REGAL against each other method at the same budget, in Markdown."""
    seeds, platform = len({row["seed"] for row in rows}), "on the setting's platform"
    if len({row["devices"] for row in rows}) == 1:
        platform = f"{_one(rows, 'devices')} devices"
        if float(_one(rows, "latency")) or float(_one(rows, "per_byte")):
            us, per_byte = _one(rows, "latency"), _one(rows, "per_byte")
            platform += f" ({us} us and {per_byte} us per byte a copy)"
    caption = (
        "How much less `regal` costs than other methods with as many evaluations: 100 times the"
        " mean\nlogarithm of ratios, paired by graph, with its 95 % interval;"
        f" {platform}, {tables.number_of(seeds, 'seed')}."
    )
    return f"{caption}\n\n{tables.markdown_table(paired_table(rows, 'regal'))}\n"


def paired_by_architecture(rows: Sequence[Row]) -> str:
    """``regal`` against other methods on every graph of the test split, in Markdown."""
    graphs, kin = {row["graph"] for row in rows}, architectures()
    caption = (
        f"As above, but {len(graphs):,} graphs of {len({kin(graph) for graph in graphs})}"
        " architectures; means and intervals are over these, each of its\ngraphs' mean;"
        f" {tables.number_of(len({row['seed'] for row in rows}), 'seed')}."
    )
    return f"{caption}\n\n{tables.markdown_table(paired_table(rows, 'regal', kin))}\n"


def published(objective: Objective, rows: Sequence[Row]) -> str:
    """Table 1 of REGAL, or of the workshop paper, with its numbers beside, in Markdown."""
    seeds, devices = len({row["seed"] for row in rows}), _one(rows, "devices")
    parts = [f"{devices} devices, {seeds} seeds; intervals of 95 % over graphs."]
    for title, table in table_1(rows, objective):
        parts += [f"{title}:", tables.markdown_table(table)]
    return "\n\n".join(parts) + "\n"


def early_stops(rows: Sequence[Row]) -> str:
    """Costs and evaluations of ``auto`` where it stops by itself, and with its whole budget."""
    lines = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        some = [row for row in rows if row["setting"] == setting and row["metric"] == "cost"]
        cost = {(row["method"], row["graph"]): row["value"] for row in some}
        graphs = [graph for method, graph in cost if method == "auto"]
        above = [100.0 * (cost["auto", g] / cost["whole budget", g] - 1.0) for g in graphs]
        spent = [int(row["evaluations"]) for row in some if row["method"] == "auto"]
        whole = [int(row["evaluations"]) for row in some if row["method"] == "whole budget"]
        lines.append(
            {
                "setting": setting,
                "graphs": str(len(graphs)),
                "evaluations, mean": f"{sum(spent) / len(spent):,.0f}",
                "whole budget": f"{sum(whole) / len(whole):,.0f}",
                "cost over the whole budget's, %, mean": f"{sum(above) / len(above):.2f}",
                "most": f"{max(above):.2f}",
            }
        )
    return f"{tables.markdown_table(lines)}\n"


TABLES: Mapping[str, Callable[[Sequence[Row]], str]] = MappingProxyType(
    {
        "regal_memory": improvements,
        "regal_memory_paired": paired,
        "regal_makespan_paired": paired,
        "regal_large_paired": paired,
        "regal_all_memory_paired": paired_by_architecture,
        "regal_all_makespan_paired": paired_by_architecture,
        "regal_platforms_paired": paired,
        "regal_table_1": functools.partial(published, "peak_memory"),
        "regal_times": method_times.page,
        "regal_evaluations": limits_report.page,
        "regal_workshop_table_1": functools.partial(published, "makespan"),
        "sequencing": gaps_of_machines,
        "sequencing_paired": functools.partial(paired_of_machines, "sequencing"),
        "one_shot_graphs": gaps_of_machines,
        "one_shot_graphs_paired": functools.partial(paired_of_machines, "one_shot"),
        "one_shot_real": gaps_of_machines,
        "one_shot_real_paired": functools.partial(paired_of_machines, "one_shot"),
        "one_shot_search": gaps_of_machines,
        "one_shot_search_paired": functools.partial(paired_of_machines, "one_shot brkga"),
        "one_shot_projects": gaps_of_machines,
        "one_shot_tpch": makespans_of_tpch,
        "one_shot_tpch_paired": functools.partial(paired_of_machines, "one_shot"),
        "gflownet_robust": gflownet_tables.page,
        "gflownet_real": gflownet_tables.page,
        "gflownet_real_spread": gflownet_tables.page_of_spread,
        "gflownet_real_paired": functools.partial(
            gflownet_tables.page_of_pairs, gflownet_tables.TRIALS
        ),
        "gflownet_real_at_prices": functools.partial(
            gflownet_tables.page_of_pairs,
            gflownet_tables.AT_PRICES,
            others=gflownet_tables.OTHERS_AT_PRICES,
        ),
        "gflownet_pool": functools.partial(
            gflownet_tables.page_of_controls, gflownet_tables.AT_BUDGETS
        ),
        "gflownet_sizes": functools.partial(
            gflownet_tables.page_of_sizes, method="gflownet", control="list_sampling"
        ),
        "gflownet_random": gflownet_tables.page_of_random,
        "gflownet_temperature": gflownet_tables.page_of_means,
        "gflownet_draws": gflownet_tables.page_of_means,
        "gflownet_loss": gflownet_tables.page_of_means,
        "gflownet_convergence": convergence.page,
        "topoformer_layered": functools.partial(
            topoformer_tables.page, topoformer_tables.PAPER_TABLE_1
        ),
        "topoformer_layered_paired": topoformer_tables.page_of_pairs,
        "topoformer_real": functools.partial(
            topoformer_tables.page, topoformer_tables.PAPER_TABLE_2
        ),
        "topoformer_real_paired": topoformer_tables.page_of_pairs,
        "topoformer_encoders": functools.partial(
            topoformer_tables.page, topoformer_tables.PAPER_TABLE_3
        ),
        "topoformer_decoders": functools.partial(
            topoformer_tables.page, topoformer_tables.PAPER_TABLE_4
        ),
        "xla": compiler_tables.xla_page,
        "xla_groups": compiler_tables.xla_groups_page,
        "onnx": compiler_tables.onnx_page,
        "accelerators": compiler_tables.accelerators_page,
        "device_runs": compiler_tables.device_runs_page,
        "evaluation_speed": evaluation_speed.page,
        "peers": peers.page,
        "time_to_quality": curves.page,
        "large_graphs": growth.page,
        "workers": workers.page,
        "search_costs": compiler_tables.search_costs_page,
        "memory_budget": compiler_tables.memory_budget_page,
        "auto_stop": early_stops,
        "proofs": proofs_report.page,
        "proofs_compared": proofs_report.proven,
        "recompute": recompute.page,
        "torch_budgets": torch_budgets.page,
    }
)
"""How each table is made of its rows, those of the file with its name, or the name without what
follows it (``_VIEW``)."""

_VIEW = re.compile("_(paired|spread|at_prices|groups)$")
"""Behind a file's name, which of several tables of its rows."""

ON_TWO = MappingProxyType({"peak memory, D = 2": "memory", "makespan, D = 2": "makespan"})
"""Settings of a sentence, and what they are called there."""

SUMMARIES: Mapping[str, Callable[[systems.Read], str]] = MappingProxyType(
    {
        "surprises": lambda read: compiler_tables.surprises(read("xla"), read("onnx")),
        "systems": systems.table,
        "in_ten_seconds": lambda read: curves.sentence(read("time_to_quality"), ON_TWO),
        "on_a_device": lambda read: device_tables.sentence(read("device_runs")),
        "within_half": lambda read: memory_budget.sentence(read("memory_budget")),
    }
)
"""Tables of several files' rows."""


def _without(pattern: re.Pattern[str], text: str) -> str:
    """A text with blank lines for what matches."""
    return pattern.sub(lambda match: "\n" * match[0].count("\n"), text)


def _pages(folder: Path) -> Iterator[Path]:
    yield folder / "README.md"
    yield from sorted((folder / "docs" / "results").glob("*.md"))


def _table(name: str, folder: Path) -> str:
    def read(file: str) -> Sequence[Row]:
        return results.read_results(folder / "docs" / "results" / f"{file}.csv")

    if name in SUMMARIES:
        return "\n" + SUMMARIES[name](read) + "\n"
    if name not in TABLES:
        known = ", ".join([*TABLES, *SUMMARIES])
        raise RegalError(f"results: {name}: is none of {known}; correct the page")
    return "\n" + TABLES[name](read(_VIEW.sub("", name))) + "\n"


def _caption(rows: Sequence[Row]) -> str:
    budget, devices = _one(rows, "budget"), _one(rows, "devices")
    seeds, reference = len({row["seed"] for row in rows}), reference_of(rows)
    return (
        f"Improvement of peak memory over `{reference}` in percent, mean and 95 % interval over"
        f" graphs\n(fewer than {LEAST_GRAPHS}: the mean alone); at most {int(budget):,}"
        f" evaluations, {devices} devices, {seeds} seeds."
    )


def _one(rows: Sequence[Row], column: str) -> str:
    values = {row[column] for row in rows}
    if len(values) > 1:
        raise RegalError(f"results: rows of several {column}: {', '.join(sorted(values))}")
    return values.pop()
