"""PyTorch's memory budgets on joint graphs: what is split is what was there, and more."""

import pytest

pytest.importorskip("torch")

from benchmarks import torch_budgets
from regal_jax.studies.comparison.torch_budgets import IN_ORDER, OURS, PLAIN, TORCH


def test_budgets_of_a_small_model():
    rows = torch_budgets.measure("mlp", [1.0, 0.3])
    of = {(row["budget"], row["method"], row["metric"]): row["value"] for row in rows}
    plain = of["", PLAIN, "flops"]
    assert of[1.0, TORCH, "flops"] == plain < of[0.3, TORCH, "flops"]
    assert of[1.0, TORCH, "bytes"] == of["", PLAIN, "bytes"]
    assert of[0.3, IN_ORDER, "bytes"] <= of[0.3, TORCH, "bytes"]
    for budget in (1.0, 0.3):
        assert plain <= of[budget, OURS, "flops"] <= of[budget, TORCH, "flops"] * (1 + 1e-9)
        assert of[budget, OURS, "bytes"] <= of[budget, TORCH, "bytes"]
    assert of[0.3, OURS, "bytes"] < 0.5 * of["", PLAIN, "bytes"]
