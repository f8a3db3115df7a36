"""Evaluations on a device beside the host's cores, by hand."""

from regal_jax.studies.compiler import evaluation_speed
from regal_jax.studies.compiler.evaluation_speed import KERNEL, MICROSECONDS, PURE


def test_a_line_a_graph_and_batch():
    common = {"graph": "mlp", "ops": 30, "device": "a GPU", "cores": 16}
    rows = [
        common | {"method": method, "metric": metric, "value": str(value), "batch": batch}
        for batch, pure in ((1000, 0.5), (10_000, 0.1))
        for method, metric, value in (
            (PURE, MICROSECONDS, pure),
            (KERNEL, MICROSECONDS, 0.4),
            (PURE, "first_seconds", 2),
            (PURE, "difference", 1e-7),
        )
    ]
    small, large = evaluation_speed.table(rows)
    assert (small["batch"], small["speed"]) == ("1,000", "0.80")
    assert small["kernel on 16 cores, us"] == "0.4"
    assert (large["batch"], large["speed"]) == ("10,000", "4.00")
    assert large["largest difference"] == "1e-07"
    assert "| `mlp` |" in evaluation_speed.page(rows)
