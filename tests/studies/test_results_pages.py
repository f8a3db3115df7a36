"""Pages of results: what they show is in the rows, and a typed number is caught."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regal_jax.errors import RegalError
from regal_jax.reporting import results
from regal_jax.studies import results_pages

ROOT = Path(__file__).parents[2]
BLOCK = "# Title\n<!-- results: regal_memory -->\n<!-- end -->\n"


def rows(costs, **columns):
    """Rows of a comparison from {method: [cost by seed]} on one graph."""
    common = {"setting": "as traced", "graph": "g", "evaluations": "5000", "budget": "5000"}
    common |= {"devices": "2", "metric": "cost"} | columns
    return [
        common | {"method": method, "seed": seed, "value": value}
        for method, values in costs.items()
        for seed, value in enumerate(values)
    ]


def with_pages(folder, *pages):
    """A folder with some of this repository's pages and their rows, to be changed."""
    (folder / "README.md").write_text("# Title\n")
    (folder / "docs" / "results").mkdir(parents=True)
    for page in pages:
        for file in (ROOT / "docs" / "results").glob(f"{page}*"):
            shutil.copy(file, folder / "docs" / "results")
    return folder


@pytest.fixture
def repository(tmp_path):
    return with_pages(tmp_path, "regal", "xla", "onnx")


def test_what_the_pages_show_is_in_the_rows():
    assert results_pages.faults(ROOT) == []


def test_a_typed_number_in_a_block_is_caught_and_made_anew(repository):
    page = repository / "docs" / "results" / "regal.md"
    text = page.read_text()
    shown = re.search(r"`regal_paper 5000` *\| *(-?\d+\.\d)", text)
    page.write_text(text[: shown.start(1)] + "99.9" + text[shown.end(1) :])
    assert results_pages.faults(repository) == [
        "docs/results/regal.md: results: regal_memory: differs from its rows"
    ]
    results_pages.write(repository)
    assert page.read_text() == text


def test_a_changed_row_is_caught(repository):
    path = repository / "docs" / "results" / "regal_memory.csv"
    path.write_text(path.read_text().replace(",brkga 5000,0,cost,", ",brkga 5000,0,cost,9"))
    names = ("regal_memory", "regal_memory_paired")
    found = results_pages.faults(repository)
    assert [fault.split(": ")[2] for fault in found] == list(names)


def test_the_launcher_says_what_differs_in_a_line_each(tmp_path):
    repository = with_pages(tmp_path, "xla", "onnx")

    def launch(*flags):
        script = ROOT / "experiments" / "results_pages.py"
        command = [sys.executable, str(script), f"--folder={repository}", *flags]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    page = repository / "docs" / "results" / "xla.md"
    page.write_text("# XLA\nIt needs 28 % less.\n")
    checked = launch("--check")
    assert checked.returncode == 1
    assert checked.stderr.splitlines() == [
        "docs/results/xla.md, line 2: a result that no CSV has: It needs 28 % less."
    ]
    page.write_text("# XLA\n")
    assert launch().returncode == launch("--check").returncode == 0


@pytest.mark.parametrize(
    "line",
    ["It gains 2.2 %.", "| `regal` | 3.6 |", "It has [0.1, 2] more.", "It takes 4.46 ± 0.14."],
)
def test_typed_results_are_found_outside_of_blocks_and_code(line):
    assert results_pages.typed_results(f"# A\n{line}\n") == [(2, line)]
    for inside in (
        f"# A\n```\n{line}\n```\n",
        f"# A\n<!-- results: x -->\n{line}\n<!-- end -->\n",
    ):
        assert results_pages.typed_results(inside) == []


def test_plain_numbers_are_no_results():
    text = "JAX 0.10.2, at most 1,600 ops of 92 graphs\n| timm 1.0.31 | 855 |\n"
    assert results_pages.typed_results(text) == []


def test_improvements_by_hand():
    made = rows({"brkga 5000": [100, 200], "auto 5000": [90, 160]})
    made[-1]["evaluations"] = "1000"
    text = results_pages.improvements(made)
    assert "over `brkga 5000`" in text
    assert "at most 5,000 evaluations, 2 devices, 2 seeds" in text
    line = next(line for line in text.splitlines() if "`auto 5000`" in line)
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells == ["`auto 5000`", "15.0 (n = 1)", "3,000", ""]
    assert "as traced (1 graphs)" in text


def test_ten_graphs_have_an_interval():
    made = [
        row | {"graph": f"g{n}", "value": row["value"] + n * (row["method"] == "brkga")}
        for n in range(10)
        for row in rows({"brkga": [100], "auto": [90]})
    ]
    line = next(line for line in results_pages.improvements(made).splitlines() if "`auto`" in line)
    mean = 100 * sum(1 - 90 / (100 + n) for n in range(10)) / 10
    low, high = map(float, re.search(rf"\| +{mean:.1f} \[(.*), (.*)\]", line).groups())
    assert 10 < low < mean < high < 100 * 19 / 109


@pytest.mark.parametrize(
    ("some", "message"),
    [
        (rows({"regal 5000": [1]}), "no rows of brkga"),
        (rows({"brkga 5000": [1, 2], "regal 5000": [1]}), "finish the comparison"),
        (rows({"brkga 5000": [1]}) + rows({"auto": [1]}, devices="4"), "rows of several devices"),
    ],
)
def test_rows_that_do_not_belong_together_are_refused(some, message):
    with pytest.raises(RegalError, match=message):
        results_pages.improvements(some)


def test_smaller_budgets_are_for_the_paired_table():
    some = rows({"brkga 5000": [2.0], "regal 5000": [1.0]})
    few = rows({"auto 20": [3.0], "regal 20": [2.0]}, budget="20", evaluations="20")
    platform = {"latency": "0.0", "per_byte": "0.0"}
    assert results_pages.improvements(some + few) == results_pages.improvements(some)
    text = results_pages.paired([row | platform for row in some + few])
    assert re.search(r"20 \| `auto` +\| 40\.55 \(n = 1\)", text)
    assert re.search(r"5,000 \| `brkga` +\| 69\.31 \(n = 1\)", text)


def test_rows_of_several_platforms_are_told_apart_by_their_settings():
    common = {"ops": "9", "seed": "0", "metric": "cost", "evaluations": "1", "budget": "1"}
    rows = [
        common
        | {"setting": f"{devices} devices", "devices": devices, "latency": devices, "per_byte": "0"}
        | {"graph": graph, "method": method, "value": value}
        for devices in ("2", "4")
        for graph in ("a", "b")
        for method, value in (("regal 1", 2.0), ("dispatch 1", 2.0 * float(devices)))
    ]
    text = results_pages.paired(rows)
    assert "on the setting's platform, 1 seed" in text
    assert [line.split()[1] for line in text.splitlines()[-2:]] == ["2", "4"]
    assert "69.31" in text.splitlines()[-2]
    assert "138.63" in text.splitlines()[-1]


def test_a_block_needs_its_file_and_its_table(tmp_path):
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "README.md").write_text(BLOCK)
    with pytest.raises(RegalError, match=r"regal_memory\.csv: no such file"):
        results_pages.faults(tmp_path)
    (tmp_path / "README.md").write_text(BLOCK.replace("regal_memory", "other"))
    with pytest.raises(RegalError, match="other: is none of regal_memory"):
        results_pages.faults(tmp_path)


def test_the_rows_that_are_shown_have_keys():
    for path in (ROOT / "docs" / "results").glob("*.csv"):
        assert all(len(row["key"]) == 16 for row in results.read_results(path))
