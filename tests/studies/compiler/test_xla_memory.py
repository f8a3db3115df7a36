"""Real programs in XLA's orders and ours: what is measured, and tables of it."""

import csv
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.compiler.xla.reschedule import compile_best
from regal_jax.compiler.xla.settings import Options, Search
from regal_jax.datasets import jax_train_steps
from regal_jax.errors import OptionError
from regal_jax.studies.compiler import side_by_side, xla_memory
from tests.experiments.test_launchers_one_shot import launch_again

OPTIONS = Options(Search(("lpmf", "xla_list")))


def row(graph, method, metric, value):
    return {"graph": graph, "method": method, "seed": 0, "metric": metric, "value": value}


def test_bits_are_compared_not_values():
    assert side_by_side.same_bits(
        [jnp.float32(jnp.nan), jnp.ones(2)], [np.float32(np.nan), np.ones(2, "f4")]
    )
    assert not side_by_side.same_bits(jnp.float32(0.0), jnp.float32(-0.0))
    assert not side_by_side.same_bits(jnp.float32(1.0), jnp.nextafter(1.0, 2.0))


def test_differences_are_over_the_largest_number_and_same_holes_are_none():
    holes = [np.array([np.nan, np.inf, 2.0]), np.array([1j, 1 + 1j])]
    assert side_by_side.largest_difference(holes, holes) == 0.0
    other = [np.array([np.nan, np.inf, 2.5]), np.array([1j, 1 + 1j])]
    assert side_by_side.largest_difference(holes, other) == 0.25
    turned = [holes[0], np.array([1j, 1 - 1j])]
    assert side_by_side.largest_difference(holes, turned) == 1.0
    assert side_by_side.largest_difference(np.array([1.0, np.nan]), np.array([1.0, 1.0])) == np.inf
    assert side_by_side.largest_difference([], []) == 0.0


def test_a_program_runs_in_both_orders():
    found = side_by_side.compare("mmoe/inference", OPTIONS, pairs=2)
    assert found["equal"] == 1
    assert found["run_ratio"] > 0
    assert found["run_seconds"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_resident_memory_is_that_of_the_run():
    found = side_by_side.in_process(side_by_side.resident_bytes, "strassen/training", OPTIONS)
    program = side_by_side.program("strassen/training")
    _, report = compile_best(program.jitted().lower(*program.shapes), OPTIONS)
    expected = report.memory[report.chosen].total
    assert 0.5 * expected < found["resident_bytes"] < 2.5 * expected


def test_an_unknown_program_stops_the_study_before_it_begins(tmp_path):
    names = ["strassen/training", "nothing/training"]
    with pytest.raises(OptionError, match="no 'nothing/training'"):
        xla_memory.measure(names, OPTIONS, pairs=0, resident=False, path=tmp_path / "results.csv")
    assert not (tmp_path / "results.csv").exists()


def test_tables_by_hand():
    rows = []
    for graph, default, memory, ours in (("a/training", 400, 200, 100), ("b/inference", 8, 9, 8)):
        rows += [row(graph, "xla_default", "temp_bytes", default)]
        rows += [row(graph, "xla_memory", "temp_bytes", memory)]
        rows += [row(graph, "regal_jax", "temp_bytes", ours)]
        rows += [row(graph, "regal_jax", "temp_ratio", ours / min(default, memory))]
        rows += [row(graph, "regal_jax", "ratio", 1.0)]
    first, second = xla_memory.table(rows)
    assert (first["default"], first["memory"], first["ours"]) == ("400 B", "200 B", "100 B")
    assert (first["temporaries"], second["temporaries"]) == ("0.500", "1.000")
    rows += [row("a/training", "regal_jax", "equal", 1.0)]
    everything, training, inference = xla_memory.summary(rows)
    assert everything["over the better order's"] == f"{0.5**0.5:.3f} (0.50 to 1.00)"
    assert training["temporaries over the default's"] == "0.250 (0.25 to 0.25)"
    assert (everything["number"], everything["same bits"]) == ("2", "1 of 1")
    assert (training["programs"], inference["programs"]) == ("training: others", "inference")
    assert inference["with results"] == "1.000 (1.00 to 1.00)"
    assert "time" not in everything


def test_kinds_are_of_families_that_there_are():
    families = {name.split("/")[0] for name in jax_train_steps.program_names()}
    of_kinds = [family for some in xla_memory.KINDS.values() for family in some]
    assert set(of_kinds) <= families
    assert len(of_kinds) == len(set(of_kinds))


def test_xla_memory_smoke(tmp_path):
    output = launch_again("xla_memory", tmp_path)
    assert "over the better order's" in output
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    own = [row for row in rows if row["method"] == "regal_jax"]
    ours = {(row["graph"], row["metric"]): float(row["value"]) for row in own}
    graphs = {graph for graph, _ in ours}
    assert len(graphs) == 1
    assert all(ours[graph, "equal"] == 1 for graph in graphs)
    assert all(ours[graph, "ratio"] <= 1 for graph in graphs)
