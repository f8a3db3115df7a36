"""``recompute`` beside PyTorch's activation memory budget: a table from rows of a benchmark."""

from collections.abc import Sequence

from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import markdown_table
from regal_jax.studies.compiler.accelerator_memory import mean
from regal_jax.studies.kept import KEY

PLAIN, TORCH, OURS = "plain", "torch", "recompute"
IN_ORDER = "torch, our order"
"""PyTorch's ops in an order of ours."""
COLUMNS = (KEY, "ops", "torch", "budget")


def page(rows: Sequence[Row]) -> str:
    """A line a budget, in Markdown: bytes and FLOPs over the plain program's, and ours over
    PyTorch's with no more of the other."""
    of: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in rows:
        found = of.setdefault((str(row["budget"]), row["method"], row["metric"]), {})
        found[row["graph"]] = float(row["value"])
    budgets = dict.fromkeys(budget for budget, _, _ in of if budget)
    return f"{markdown_table([_line(budget, of) for budget in budgets])}\n"


def _line(budget: str, of: dict[tuple[str, str, str], dict[str, float]]) -> dict[str, str]:
    size, flops = (_over(of[budget, TORCH, m], of["", PLAIN, m]) for m in ("bytes", "flops"))
    ours = of[budget, OURS, "bytes"]
    return {
        "budget": budget,
        "models": str(len(size)),
        "PyTorch's bytes": mean(size),
        "its FLOPs": mean(flops),
        "our FLOPs at its bytes": mean(_over(of[budget, OURS, "flops"], of["", PLAIN, "flops"])),
        "our bytes at its FLOPs, over its": mean(_over(ours, of[budget, TORCH, "bytes"])),
        "over its in our order": mean(_over(ours, of[budget, IN_ORDER, "bytes"])),
    }


def _over(some: dict[str, float], others: dict[str, float]) -> dict[str, float]:
    return {model: value / others[model] for model, value in some.items()}
