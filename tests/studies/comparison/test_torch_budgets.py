"""The table beside PyTorch's memory budgets."""

from regal_jax.studies.comparison import torch_budgets
from regal_jax.studies.comparison.torch_budgets import IN_ORDER, OURS, PLAIN, TORCH


def row(graph, budget, method, metric, value):
    common = {"graph": graph, "seed": 0, "budget": budget}
    return common | {"method": method, "metric": metric, "value": value}


def test_a_line_is_of_a_budget():
    rows = []
    for graph, scale in (("a", 1.0), ("b", 10.0)):
        rows += [row(graph, "", PLAIN, "bytes", 100 * scale), row(graph, "", PLAIN, "flops", 50.0)]
        rows += [
            row(graph, "0.5", TORCH, "bytes", 60 * scale),
            row(graph, "0.5", TORCH, "flops", 60),
        ]
        rows += [row(graph, "0.5", IN_ORDER, "bytes", 50 * scale)]
        rows += [row(graph, "0.5", OURS, "bytes", 40 * scale)]
    rows.append(row("a", "0.5", OURS, "flops", 55.0))  # nothing of ours fits b
    cells = [cell.strip() for cell in torch_budgets.page(rows).splitlines()[2].split("|")[1:-1]]
    assert cells[:2] == ["0.5", "2"]
    starts = ["0.600", "1.200", "1.100", "0.667", "0.800"]
    assert [cell.split(" ")[0] for cell in cells[2:]] == starts
