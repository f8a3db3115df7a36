"""Tables of what orders save, and the rows of ONNX files behind one."""

import pytest

from regal_jax.reporting import results
from regal_jax.studies.compiler import onnx_memory, tables
from regal_jax.studies.compiler.onnx_memory import Settings

MEBI = 2**20


def xla_rows(graph, default, memory, ours):
    values = {
        ("xla_default", "temp_bytes"): default * MEBI,
        ("xla_memory", "temp_bytes"): memory * MEBI,
        ("regal_jax", "temp_bytes"): ours * MEBI,
        ("regal_jax", "temp_ratio"): ours / min(default, memory),
    }
    common = {"graph": graph, "seed": 0, "jax": "1.0", "platform": "cpu"}
    return [common | {"method": m, "metric": k, "value": v} for (m, k), v in values.items()]


def test_a_line_a_program():
    rows = xla_rows("a/training", 40, 30, 15) + xla_rows("b/training", 20, 25, 20)
    first, second = tables.xla_lines(rows)
    assert first["`jax.jit`"] == "40.0 MiB"
    assert first["ratio"] == "0.50"
    assert second["ratio"] == "1.00"
    assert "(JAX 1.0, cpu)" in tables.xla_page(rows)


def test_onnx_models_are_measured_once(tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    wide = [helper.make_node("Tile", ["x", "times"], [f"t{k}"]) for k in range(3)]
    narrow = [helper.make_node("ReduceSum", [f"t{k}"], [f"s{k}"], keepdims=0) for k in range(3)]
    total = helper.make_node("Sum", ["s0", "s1", "s2"], ["y"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    times = helper.make_tensor("times", TensorProto.INT64, [1], [8])
    graph = helper.make_graph([*wide, *narrow, total], "toy", [info], [result], [times])
    path, file = tmp_path / "toy.onnx", tmp_path / "results.csv"
    onnx.save(helper.make_model(graph), path)
    settings = Settings(models=(str(path),), evaluations=1000)
    rows = onnx_memory.measure(settings, file)
    assert onnx_memory.measure(settings, file) == rows == results.read_results(file)
    (line,) = tables.onnx_lines(rows)
    peaks = {row["method"]: row["value"] for row in rows}
    assert peaks["bound"] == peaks["regal_jax"] == peaks["file"] - 2 * (4 * 8 * 4 - 4)
    assert line["model"] == "`toy`"


def test_the_first_table_has_both():
    rows = xla_rows("nasnet/training", 366, 308, 131)
    onnx = [
        {"graph": "light_inception_v2", "method": m, "metric": k, "value": v * MEBI}
        for m, k, v in (("file", "peak", 50), ("regal_jax", "peak", 7), ("bound", "lower_bound", 7))
    ]
    lines = tables.surprises(rows, onnx).splitlines()
    assert len(lines) == 4
    cells = [cell.strip() for cell in lines[2].split("|")]
    assert cells[2:5] == ["366 MiB", "308 MiB", "131 MiB"]
    assert "7.00 MiB" in lines[3]
