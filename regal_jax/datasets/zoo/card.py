"""The card of the shipped zoo: what is known of each graph."""

import csv
from importlib import resources


def card() -> list[dict[str, str]]:
    """A row for each shipped graph: its size, bounds, costs of simple orders, headroom."""
    text = (resources.files(__package__) / "model_zoo.csv").read_text()
    return list(csv.DictReader(text.splitlines()))
