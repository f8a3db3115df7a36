"""The page of the corpus: well-formed, complete, safe against hostile names, reproducible."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from regal_jax.errors import OptionError, RegalError
from regal_jax.studies.zoo import card as zoo_card
from regal_jax.studies.zoo import page as zoo_page
from tests.reporting.html_pages import check_labels, check_self_contained, read_page

HOSTILE = "</script><b>&\"'<!--\u2028"


def row(index, **changes):
    fields = {
        "name": f"zoo/model_{index}:training",
        "family": f"family_{index // 2}",
        "source": "timm-1.0.31/training",
        "mode": "training",
        "split": ("train", "valid", "test")[index % 3],
        "rule_d1": "depth_first",
    }
    fields |= dict.fromkeys(zoo_card.NUMBERS, index + 10)
    fields |= {"bound_d1": 90, "program_d1": 100 + index, "cheap_d1": 100, "best_d1": 100}
    return fields | {"headroom_d1": float(index)} | changes


def write(rows, path, **options):
    zoo_page.write_page(rows, path, **({"title": "Zoo", "notes": "One.\n\nTwo."} | options))
    return read_page(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "zoo.html"


def test_every_row_is_in_the_page(path):
    rows = [row(i) for i in range(25)]
    page = write(rows, path)
    data = json.loads(page.data)
    columns = data["columns"]
    assert data["count"] == 25
    assert columns["name"] == [r["name"] for r in rows]
    assert columns["program_d1"] == list(range(100, 125))
    split = columns["split"]
    assert [split["values"][i] for i in split["index"]] == [r["split"] for r in rows]
    assert columns["package"]["values"] == ["timm"]
    assert columns["headroom_d2"] == [None] * 25
    assert data["download"] == list(zoo_card.COLUMNS)


def test_the_page_is_self_contained(path):
    write([row(0)], path)
    check_self_contained(path)


def test_every_field_of_the_form_has_a_label(path):
    write([row(0)], path)
    check_labels(path)


def test_hostile_text_stays_text(path):
    hostile = dict.fromkeys(zoo_card.LABELS, HOSTILE) | {"rule_d1": HOSTILE}
    page = write(
        [row(0, **hostile), row(1)], path, title=HOSTILE, notes=f"{{{{ data }}}} {HOSTILE}"
    )
    assert "{{ data }}" in page.text
    assert not any(tag == "b" for tag, _ in page.tags)
    columns = json.loads(page.data)["columns"]
    assert columns["name"][0] == HOSTILE
    assert columns["rule_d1"]["values"][0] == HOSTILE
    assert HOSTILE.split("\u2028")[0] in page.text
    assert "<" not in page.data


def test_the_headlines(path):
    rows = [
        row(0, headroom_d1=0, program_d1=90, best_d1=90, cheap_d1=90),
        row(1, headroom_d1=1.9, headroom_d2="2.5"),
        row(2, headroom_d1="", program_d1="", best_d1="", cheap_d1="", bound_d1=""),
        row(3, source="flax-0.12/jax-0.10/inference", mode="inference", headroom_d1=7),
    ]
    text = " ".join(write(rows, path).text.split())
    assert "graphs 4 46 ops in all" in text
    assert "sources 2 2 variants" in text
    assert "ops in a graph 10 – 13 median 12" in text
    assert "worth scheduling 66.7 % ≥ 2 % in any setting, of 3" in text
    assert "trivial 33.3 % program order at its bound, one device, of 3" in text
    assert "one device 3 33.3 % 1.9 % 1.9 % 7.0 % 33.3 % 33.3 % 33.3 %" in text
    assert "two devices, four microbatches 0 – – – – – – –" in text
    assert "source training inference all timm 3 3 flax 1 1 all 3 1 4" in text


def test_nothing_measured_and_one_row(path):
    bare = {"name": "a", "ops": 3}
    text = write([bare], path, notes="").text
    assert "none measured" in text
    assert json.loads(read_page(path).data)["columns"]["ops"] == [3]


def test_no_rows_is_an_error(path):
    with pytest.raises(OptionError, match="at least one row"):
        write([], path)
    assert not path.exists()


def test_the_bytes_are_reproducible_and_small(path):
    rows = [row(i, name=f"package/an_ordinary_long_name_{i}:training") for i in range(4000)]
    write(rows, path)
    first = path.read_bytes()
    write([{key: str(value) for key, value in r.items()} for r in rows], path)
    assert path.read_bytes() == first
    assert len(first) < 2_000_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ops": "many"}, "row 2: column 'ops' holds 'many', not a number"),
        ({"bytes": "inf"}, "row 2: column 'bytes' holds 'inf', not a number"),
        ({"work": -1}, "row 2: column 'work' holds -1, which is negative"),
        ({"ops": ""}, "row 2: column 'ops' is empty"),
        ({"name": ""}, "row 2: column 'name' is empty"),
        ({None: ["x"]}, "row 2: has more or fewer fields"),
    ],
)
def test_malformed_rows(changes, message):
    with pytest.raises(RegalError, match=message):
        zoo_card.check_rows([row(0), row(1) | changes])


def test_bytes_stay_exact():
    (checked,) = zoo_card.check_rows([row(0, bytes="9007199254740991", work="1e3", flops="")])
    assert checked["bytes"] == 2**53 - 1
    assert checked["work"] == 1000
    assert checked["flops"] is None


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("timm-1.0.31/fwd", "timm"),
        ("xla-cpu/jax-0.10.2/fwd", "xla-cpu"),
        ("pypi:magika/fwd", "pypi"),
        ("plain", "plain"),
        ("", "unknown"),
    ],
)
def test_packages(source, package):
    assert zoo_card.package(source) == package


def save_card(path, rows, columns=zoo_card.COLUMNS):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def test_a_card_is_read_back(tmp_path):
    rows = [row(0), row(1, family="line\nbreak, \u2028 and comma"), row(2)]
    save_card(tmp_path / "card.csv", rows)
    assert zoo_card.read_card(tmp_path / "card.csv") == zoo_card.check_rows(rows)


def test_malformed_cards_name_file_and_column(tmp_path):
    card = tmp_path / "card.csv"
    with pytest.raises(RegalError, match=r"card\.csv: no such file"):
        zoo_card.read_card(card)
    for content in ("", "name,ops\na,1\n"):
        card.write_text(content)
        with pytest.raises(RegalError, match=r"card\.csv: has no column '(name|family)'; a card"):
            zoo_card.read_card(card)
    save_card(card, [row(0), row(1, depth="deep")])
    with pytest.raises(RegalError, match=r"card\.csv: row 2: column 'depth'.*make it anew"):
        zoo_card.read_card(card)
    save_card(card, [row(0)])
    with card.open("a") as file:
        file.write("cut,off\n")
    with pytest.raises(RegalError, match="row 2: has more or fewer fields"):
        zoo_card.read_card(card)
    card.write_bytes(b"\xff\xfe")
    with pytest.raises(RegalError, match="not UTF-8"):
        zoo_card.read_card(card)


def launch(*arguments):
    script = Path(__file__).parents[3] / "experiments" / "model_zoo_page.py"
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_launcher(tmp_path, path):
    card = tmp_path / "card.csv"
    save_card(card, [row(0), row(1)])
    done = launch(f"--card={card}", f"--output={path}")
    assert done.stdout == f"wrote {path}: 2 graphs\n", done.stderr
    assert len(json.loads(read_page(path).data)["columns"]["name"]) == 2
    card.unlink()
    failed = launch(f"--card={card}", f"--output={path}")
    assert failed.returncode == 1
    assert failed.stderr == f"error: {card}: no such file; name a card with --card=FILE.csv\n"
