import json
from dataclasses import fields

import pytest

from regal_jax.compiler.accelerators import baselines
from regal_jax.compiler.accelerators.measure import Measurement
from regal_jax.errors import LimitError, RegalError


def needs(temporaries: int, accelerator: str = "h100") -> Measurement:
    sizes = {"temporaries": temporaries, "arguments": 50, "outputs": 20, "donated": 10}
    rest = dict.fromkeys((field.name for field in fields(Measurement)), 0) | sizes
    return Measurement(**rest | {"accelerator": accelerator, "capacity": 1000})


def test_the_peak_is_all_that_is_in_memory():
    assert needs(100).peak == 160
    assert needs(100).fits
    assert not needs(1000).fits


def test_what_needs_more_is_told(tmp_path):
    path = tmp_path / "memory.json"
    baselines.check(path, "step", needs(100), 0.0)
    baselines.check(path, "step", needs(110), 0.0625)
    baselines.check(path, "step", needs(90), 0.0)
    baselines.check(path, "step", needs(500, "v5e"), 0.0)
    with pytest.raises(LimitError, match=r"step: 170 B on h100, 6\.2 % above the 160 B"):
        baselines.check(path, "step", needs(110), 0.0624)
    assert json.loads(path.read_text())["peak_bytes"] == {"step": {"h100": 160, "v5e": 560}}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"format": "other"}',
        '{"format": "regal-memory/1", "peak_bytes": {"step": {"h100": -1}}}',
    ],
)
def test_files_that_are_none(tmp_path, text):
    path = tmp_path / "memory.json"
    path.write_text(text)
    with pytest.raises(RegalError, match=r"memory\.json"):
        baselines.check(path, "step", needs(1), 0.0)
    assert path.read_text() == text
