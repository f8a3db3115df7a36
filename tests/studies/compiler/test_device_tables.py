"""Tables of programs that ran on a device, by hand."""

from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.studies.compiler import device_tables
from regal_jax.studies.compiler.accelerator_memory import IN_TIME, OURS
from regal_jax.studies.compiler.checkpointed import BY_LAYER

MIB = 2**20


def rows_of(program, plain, ours, layered=None):
    """Rows of {metric: value} of each."""
    return [
        {"graph": program, "method": method, "metric": metric, "value": str(value)}
        for method, of in ((PLAIN, plain), (OURS, ours), (BY_LAYER, layered or {}))
        for metric, value in of.items()
    ]


ROWS = rows_of(
    "vit/training",
    {"total_bytes": 4 * MIB, "peak_bytes": 4 * MIB, "run_seconds": 2e-3, "expected_seconds": 1},
    {"total_bytes": MIB, "peak_bytes": 2 * MIB, "run_seconds": 3e-3, "expected_seconds": 1.2}
    | {"run_ratio": 1.6, "difference": 1e-6},
) + rows_of(
    "unet/training@1GiB",
    {"total_bytes": 4 * MIB},
    {"total_bytes": MIB, "run_seconds": 1e-3},
    {"total_bytes": 2 * MIB, "run_seconds": 2e-3, "peak_bytes": 3 * MIB},
)


def test_a_line_a_program():
    (line,) = device_tables.table(ROWS)
    assert (line["XLA"], line["ours"]) == ("4.00 MiB", "2.00 MiB")
    assert (line["bytes"], line["in use"]) == ("0.250", "0.500")
    assert (line["time"], line["time expected"], line["ours, ms"]) == ("1.600", "1.200", "3")


def test_a_line_a_program_within_a_budget_beside_what_users_do():
    (line,) = device_tables.budgets(ROWS)
    assert (line["program"], line["budget"]) == ("unet/training", "1.00 GiB")
    assert (line["XLA"], line["XLA, ms"], line["ours, ms"]) == ("", "doesn't fit", "1")
    assert (line["by layer"], line["by layer, ms"]) == ("3.00 MiB", "2")
    assert "nothing saved" not in line


def test_a_sentence_for_people():
    ran = {"graph": "vit/training", "method": PLAIN, "metric": "ran", "value": "1.0"}
    rows = [row | {"device": "A GPU"} for row in [ran, *ROWS]]
    assert device_tables.sentence(rows) == (
        "On one A GPU, 1 train steps ran in 0.500 of XLA's bytes, 1.600 of its time.\n"
    )


def test_what_is_as_fast_has_columns_of_its_own():
    more = {"total_bytes": 2 * MIB, "peak_bytes": 3 * MIB, "run_ratio": 1.01}
    rows = [
        {"graph": "vit/training", "method": IN_TIME, "metric": metric, "value": str(value)}
        for metric, value in more.items()
    ]
    (line,) = device_tables.table(ROWS + rows)
    assert (line["in time: in use"], line["in time: time"]) == ("0.750", "1.010")
    assert device_tables.summary(ROWS + rows)[1]["time"] == "1.010 (1.01 to 1.01)"
    assert "in time: time" not in device_tables.table(ROWS)[0]


def test_means_are_of_programs_that_both_ran():
    alone, budget, layered = device_tables.summary(ROWS)
    assert (alone["programs"], alone["number"]) == ("ours", "1")
    assert alone["time"] == "1.600 (1.60 to 1.60)"
    assert (budget["bytes"], budget["time"]) == ("0.250 (0.25 to 0.25)", "")
    assert (layered["programs"], layered["bytes"]) == ("by layer", "0.500 (0.50 to 0.50)")
