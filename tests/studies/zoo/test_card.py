"""The card of the corpus, and the tables that are made of it."""

import csv

import pytest

from regal_jax.errors import RegalError
from regal_jax.studies.zoo import card as zoo_card
from regal_jax.studies.zoo import tables


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


def test_tables():
    rows = zoo_card.check_rows(
        [
            row(0, headroom_d1=0),
            row(1, headroom_d1=1.9, headroom_d2="2.5"),
            row(2, headroom_d1=""),
            row(3, source="flax-0.12/jax-0.10/inference", mode="inference", headroom_d1=7),
        ]
    )
    one, two, many = (list(line.values()) for line in tables.headroom_table(rows))
    assert one == ["one device", "3", "33.3 %", "1.9 %", "1.9 %", "7.0 %"]
    assert two == ["two devices", "1", "100.0 %", "2.5 %", "2.5 %", "2.5 %"]
    assert many == ["two devices, four microbatches", "0", *["–"] * 4]
    assert tables.source_table(rows) == [
        {"source": "timm", "training": "3", "inference": "", "all": "3"},
        {"source": "flax", "training": "", "inference": "1", "all": "1"},
        {"source": "all", "training": "3", "inference": "1", "all": "4"},
    ]


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
