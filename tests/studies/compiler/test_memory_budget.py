"""Tables of memory budgets, from rows."""

import pytest

from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.errors import OptionError
from regal_jax.studies.compiler import memory_budget, tables
from regal_jax.studies.compiler.memory_budget import (
    BUDGETS,
    FIT,
    FUSES,
    JIT,
    LEAST,
    SLICES,
    Settings,
)

MIB = 2**20


def rows_of(program, needs):
    """Rows of (method, point): (bytes, FLOPs), over the plain program's."""
    common = {"graph": f"{program}/training", "accelerator": "cpu", "jax": "1"}
    return [
        common | {"method": method, "point": point, "metric": metric, "value": str(value)}
        for (method, point), (size, flops) in ({(PLAIN, ""): (1, 1)} | needs).items()
        for metric, value in (("total_bytes", MIB * size), ("flops", 1e9 * flops))
    ] + [common | {"method": PLAIN, "point": "", "metric": LEAST, "value": str(0.55 * MIB)}]


ROWS = rows_of(
    "vit",
    {(f"{FIT} {share}", ""): (share, 1.1) for share in BUDGETS}
    | {("dots_saveable", ""): (0.8, 1.04), ("nothing saved", ""): (0.2, 1.3)}
    | {(FIT, str(n)): one for n, one in enumerate([(0.9, 1.0), (0.6, 1.04), (0.4, 1.1)])},
) + rows_of("unet", {(f"{FIT} {share}", ""): (0.9, 1.0) for share in BUDGETS})


def test_a_cell_is_bytes_and_flops():
    line, other = memory_budget.table(ROWS, FIT)
    assert (line["program"], line["XLA"], line["0.5"]) == ("vit", "1.00 MiB", "0.50 1.100")
    assert (line["dots_saveable"], other["dots_saveable"]) == ("0.80 1.040", "")


def test_budgets_that_are_kept():
    assert [line["within"] for line in memory_budget.budgets(ROWS, FIT)] == ["1 of 2"] * 4
    assert memory_budget.budgets(ROWS, FIT)[0]["FLOPs"] == "1.100 (1.10 to 1.10)"


def test_budgets_that_nothing_can_be_within_are_counted():
    lines = memory_budget.budgets(ROWS, FIT)
    assert [line["none can be"] for line in lines] == ["0", "0", "2", "2"]


@pytest.mark.parametrize(
    ("metric", "value", "column", "said"),
    [(FUSES, "1.0", "by fused sums", "fused"), (SLICES, "4.0", "in slices", "in 4")],
)
def test_budgets_that_are_kept_at_a_price_that_flops_hide_are_counted(metric, value, column, said):
    marked = [row | {"metric": metric, "value": value} for row in ROWS if row["metric"] == "flops"]
    at_half = [row for row in marked if row["method"] == f"{FIT} 0.5"]
    lines = memory_budget.budgets([*ROWS, *at_half], FIT)
    assert [line[column] for line in lines] == ["0", "0", "1", "0"]
    line, other = memory_budget.table([*ROWS, *at_half], FIT)
    assert (line["0.5"], line["0.4"]) == (f"0.50 1.100 {said}", "0.40 1.100")
    assert other["0.5"] == f"0.90 1.000 {said}"


def test_ours_at_a_policy_s_price():
    lines = {line["against"]: line for line in memory_budget.against(ROWS, FIT)}
    dots, nothing = lines["dots_saveable"], lines["nothing saved"]
    assert (dots["its bytes"], dots["its FLOPs"]) == ("0.800", "1.040")
    assert dots["our bytes over its"] == "0.750 (0.75 to 0.75)"
    assert dots["our added FLOPs over its"] == "1.000 (1.00 to 1.00)"
    assert nothing["our bytes over its"] == "2.000 (2.00 to 2.00)"
    assert nothing["at more bytes only"] == "1"


def test_the_page_has_a_part_a_compiler():
    page = tables.memory_budget_page(ROWS + [row | {"accelerator": "h100"} for row in ROWS])
    assert page.count("Against each policy") == 2
    assert "By `rj.fit`. Compiled for CPUs (JAX 1):" in page
    assert "Run on two" not in page


def test_larger_batches_are_a_part_of_their_own():
    larger = [row | {"graph": f"{row['graph']}/training*16"} for row in ROWS]
    page = tables.memory_budget_page([*ROWS, *larger])
    assert page.count("Against each policy") == 2
    assert "By `rj.fit`. Compiled for CPUs, 16 times the batch (JAX 1):" in page


def test_orders_of_ours_are_compared_with_policies_in_such_an_order_too():
    rows = rows_of("vit", {(f"{JIT} 0.5", ""): (0.4, 1.0), (JIT, "0"): (0.4, 1.0)})
    rows += rows_of("vit", {("dots_saveable+", ""): (0.5, 1.05), (FIT, "0"): (0.9, 1.0)})
    (line,) = memory_budget.table(rows, JIT)
    assert line["0.5"] == "0.40 1.000"
    lines = {line["against"]: line for line in memory_budget.against(rows, JIT)}
    assert lines["dots_saveable, our order"]["our bytes over its"] == "0.800 (0.80 to 0.80)"
    assert "dots_saveable+" not in str(memory_budget.against(rows, FIT))
    assert tables.memory_budget_page(rows).count("Against each policy") == 2


def test_half_of_the_bytes_in_a_sentence():
    rows = rows_of("vit", {(f"{JIT} {share}", ""): (share, 1.1) for share in BUDGETS})
    rows += rows_of("unet", {(f"{JIT} {share}", ""): (0.9, 1.0) for share in BUDGETS})
    assert memory_budget.sentence([*ROWS, *rows, *(r | {"accelerator": "h100"} for r in rows)]) == (
        "Compiled for CPUs, 1 of 2 train steps fit half of XLA's bytes, for 1.100 of the FLOPs.\n"
    )


def test_a_program_that_there_is_not(tmp_path):
    with pytest.raises(OptionError, match="programs: no 'gpt'"):
        memory_budget.measure(Settings(programs=("gpt",)), None, tmp_path / "rows.csv")
