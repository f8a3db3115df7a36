"""Tables of programs on accelerators, from rows."""

import pytest

from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.errors import OptionError
from regal_jax.studies.compiler import accelerator_memory, tables
from regal_jax.studies.compiler.accelerator_memory import IN_TIME, OURS
from tests.compiler.accelerators.targets import compiler_for


def rows_of(program: str, ratio: float, time_ratio: float) -> list[dict]:
    common = {"graph": program, "accelerator": "h100", "jax": "1", "compilations": "4"}
    values = {PLAIN: (1.0, 1.0), OURS: (ratio, time_ratio), IN_TIME: (1.0, 1.0)}
    return [
        common | {"method": method, "metric": metric, "value": value, "segments": f"{method}/1"}
        for method, (size, time) in values.items()
        for metric, value in (("total_bytes", 2**20 * size), ("ratio", size), ("time_ratio", time))
    ]


def test_a_line_a_program():
    (line,) = accelerator_memory.table(rows_of("vit/training", 0.5, 1.25))
    assert line == {
        "program": "vit/training",
        "XLA": "1.00 MiB",
        "ours": "512 KiB",
        "bytes": "0.500",
        "time": "1.250",
        "order/cuts": f"{OURS}/1",
        "in time: bytes": "1.000",
        "in time: time": "1.000",
        "in time: order/cuts": f"{IN_TIME}/1",
    }


def test_means_are_geometric_and_have_intervals_from_ten_programs_on():
    few = rows_of("a/training", 0.25, 1.0) + rows_of("b/inference", 1.0, 1.0)
    everything, training, _ = accelerator_memory.summary(few)
    assert everything["bytes"] == "0.500 (0.25 to 1.00)"
    assert (training["number"], training["bytes"]) == ("1", "0.250 (0.25 to 0.25)")
    many = [row for n in range(12) for row in rows_of(f"{n}/training", 0.5 + n % 2 / 4, 1.0)]
    assert accelerator_memory.summary(many)[0]["bytes"].startswith("0.612 [0.")


def test_the_page_has_a_part_an_accelerator():
    rows = rows_of("a/training", 0.25, 1.0)
    rows += [row | {"accelerator": "v5e"} for row in rows]
    page = tables.accelerators_page(rows)
    assert page.count("Compiled for one") == 2
    assert "at most 4 programs" in page


def test_unknown_programs_are_refused_at_once(tmp_path):
    target = compiler_for("v5e")
    settings = {"compilations": 1, "evaluations": 1, "seed": 0, "path": tmp_path / "results.csv"}
    with pytest.raises(OptionError, match="no 'nothing/training'"):
        accelerator_memory.measure(["nothing/training"], target, **settings)
