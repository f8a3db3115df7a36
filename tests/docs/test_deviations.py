"""The page of deviations: which parts of docstrings it takes, and from where."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import deviations  # noqa: E402

SOURCE = '''"""A module. Nothing else is said.

Deviation: of the module.
"""

RATE = 1.0
"""A rate (not in
the paper)."""

class Policy:
    """A policy.

    Attributes:
      size: of states.
      clip: of the norm (ours; it is
        large). second: no more.
    """

    def sample(self):
        """A sample. It differs from the textbook's, which isn't published, in that

        - it is ``fast``;
        - it is *short*.
        """
'''


def test_items_are_paragraphs_with_their_bullets_and_arguments():
    found = [(i.name, " ".join(i.text.split())) for i in deviations.items(SOURCE, "m")]
    assert found == [
        ("", "Deviation: of the module."),
        ("RATE", "A rate (not in the paper)."),
        ("Policy", "clip: of the norm (ours; it is large). second: no more."),
        (
            "Policy.sample",
            "A sample. It differs from the textbook's, which isn't published, in that"
            " - it is ``fast``; - it is *short*.",
        ),
    ]


def test_each_item_stands_under_its_paper(tmp_path):
    module = tmp_path / "policies" / "regal" / "policy.py"
    module.parent.mkdir(parents=True)
    module.write_text(SOURCE)
    page = deviations.page(tmp_path)
    assert page.startswith("## REGAL")
    assert "- `RATE`: A rate (not in the paper)." in page
    assert "\n  - it is `fast`;\n  - it is \\*short\\*." in page


def test_a_module_of_no_paper_is_refused(tmp_path):
    (tmp_path / "other.py").write_text(SOURCE)
    with pytest.raises(ValueError, match="other: states a deviation, from which paper"):
        deviations.page(tmp_path)


def test_every_paper_has_some():
    page = deviations.page(ROOT / "regal_jax")
    assert all(f"## {paper}\n" in page for paper in deviations.PAPERS)
