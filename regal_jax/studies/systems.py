"""The README's table of systems: what each is ahead of its control, from the rows of its page."""

from collections.abc import Callable, Sequence

import numpy as np

from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import markdown_table
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.paired import architectures, paired_table
from regal_jax.studies.gflownet import tables as gflownet_tables
from regal_jax.studies.proofs import report
from regal_jax.studies.regal.tables import paper_of, reference_of
from regal_jax.studies.topoformer import tables as topoformer_tables

Read = Callable[[str], Sequence[Row]]
"""The rows of ``docs/results/NAME.csv``."""


def table(read: Read) -> str:
    """A line a system, in Markdown."""
    lines = [
        *(_proofs, _regal, _regal_paper, _topoformer, _next_op),
        *(_one_shot, _sequencing, _gflownet, _trials),
    ]
    return markdown_table([line(read) for line in lines]) + "\n"


def _line(system: str, what: str, measured: str, page: str) -> dict[str, str]:
    return {
        "system": system,
        "what it does": what,
        "measured": f"{measured} ([rows](docs/results/{page}.md))",
    }


def _proofs(read: Read) -> dict[str, str]:
    answers = list(report.best_known(read("proofs"), "1 device").values())
    optimal = 100 * np.mean([answer.gap <= 0 for answer in answers])
    text = f"{optimal:.0f} % of {len(answers):,} graphs proven optimal on one device"
    return _line("`auto`, `exact` (ours)", "orders by minimum cuts, with proofs", text, "proofs")


def _regal(read: Read) -> dict[str, str]:
    lines = paired_table(read("regal_all_memory"), "regal", architectures())
    less = {
        line["evaluations"]: line["less, %"]
        for line in lines
        if line["over"] == "`dispatch`" and line["setting"] == "as traced"
    }
    parts = ", ".join(f"{less[count]} ({count})" for count in ("1", "20", "5,000"))
    text = f"% less, by evaluations: {parts}"
    return _line("`regal` (ours)", "a network chooses dispatching rules", text, "regal")


def _regal_paper(read: Read) -> dict[str, str]:
    rows = [row for row in read("regal_memory") if row["setting"] == "as traced"]
    own = next(r["method"] for r in rows if r["method"].startswith("regal_paper"))
    reference = reference_of(rows)
    rows = [row for row in rows if row["method"] in (own, reference)]
    lines = searches.summary(rows, "as traced", reference)
    (gain,) = (line.improvement for line in lines if line.method == own)
    published, _ = paper_of("regal_paper", "peak_memory") or (None, 0.0)
    text = f"{gain.text('.1f')} % less memory than BRKGA (paper, its graphs: {published})"
    return _line("REGAL, as published", "a GNN steers BRKGA's mutants", text, "regal")


def _topoformer(read: Read) -> dict[str, str]:
    rows, setting = read("topoformer_layered"), "500 nodes"
    label, reference = "topoformer greedy", topoformer_tables.reference_of(rows)
    (line,) = topoformer_tables.summary(rows, setting, [label], reference)
    published = topoformer_tables.PAPER_TABLE_1[setting][label]["gap"].value
    text = f"{line.gap.text('.1f')} % above approximate DP, greedily (paper: {published})"
    return _line("Topoformer", "one-pass priorities for an order", text, "topoformer")


def _next_op(read: Read) -> dict[str, str]:
    pages = "topoformer_layered", "topoformer_real"
    lines = [line for page in pages for line in paired_table(read(page), "next_op")]
    text = _range(lines, "less memory", "lookahead", "16")
    return _line("`next_op` (ours)", "an order, choice by choice", text, "topoformer")


def _one_shot(read: Read) -> dict[str, str]:
    what = "Gumbel-top-k on machine types"
    pages = "one_shot_graphs", "one_shot_real"
    lines = [line for page in pages for line in paired_table(read(page), "one_shot")]
    text = _range(lines, "shorter", "noisy_rule", "256")
    return _line("One-shot sampling", what, text, "one_shot")


def _sequencing(read: Read) -> dict[str, str]:
    lines = paired_table(read("sequencing"), "sequencing")
    text = _range(lines, "shorter", "giffler_thompson", "256")
    return _line("`sequencing` (ours)", "job shops, choice by choice", text, "sequencing")


def _range(lines: Sequence[dict[str, str]], better: str, control: str, count: str) -> str:
    """The least and largest mean gain over sets of graphs, of a paired table with so many schedules
    each."""
    gains = [
        float(line["less, %"].split()[0])
        for line in lines
        if (line["over"], line["evaluations"]) == (f"`{control}`", count)
    ]
    return (
        f"{min(gains):.1f} to {max(gains):.1f} % {better} than its control `{control}`"
        f" on {len(gains)} sets, best of {count}"
    )


def _gflownet(read: Read) -> dict[str, str]:
    found = _speedups(read, "gflownet", "list_sampling")
    text = f"speedup {found} against sampling without a network"
    return _line("GFlowNet", "many schedules to try on a target", text, "gflownet")


def _trials(read: Read) -> dict[str, str]:
    found = _speedups(read, gflownet_tables.TRIALS, "gflownet")
    text = f"speedup {found} against GFlowNet candidates"
    return _line("trials (ours)", "each learns from those before", text, "gflownet")


def _speedups(read: Read, method: str, control: str) -> str:
    """The least and largest mean difference over targets."""
    rows = read("gflownet_real")
    pairs = gflownet_tables.paired(rows, rows[0]["setting"], method)
    means = [pair.difference.mean for pair in pairs if pair.other == control]
    return f"{min(means):+.2f} to {max(means):+.2f} on {len(means)} targets"
