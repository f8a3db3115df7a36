"""The card of a zoo: what was measured with the same searches isn't measured again."""

import dataclasses

import pytest

from regal_jax.errors import RegalError
from regal_jax.studies.zoo import card, packing
from regal_jax.studies.zoo.packing import Settings
from tests.policies.cases import chain, random_graph

GRAPHS = [chain(4), random_graph(0)]
SETTINGS = Settings(evaluations=100, workers=1)


def test_a_card_is_measured_once_with_the_same_searches(tmp_path):
    path, seen = tmp_path / "card.csv", []

    def describe(graphs, settings):
        seen.clear()
        packing.describe(graphs, path, settings, lambda name, *_: seen.append(name))
        return card.read_card(path)

    names = [graph.name for graph in GRAPHS]
    first = describe(GRAPHS[:1], SETTINGS)
    assert seen == names[:1]
    assert describe(GRAPHS, SETTINGS)[0] == first[0]
    assert seen == names[1:]
    describe(GRAPHS, dataclasses.replace(SETTINGS, max_ops=3))
    assert seen == names
    path.with_suffix(".key").unlink()
    with pytest.raises(RegalError, match=r"card\.csv: has no card\.key beside it.*move the card"):
        describe(GRAPHS, SETTINGS)
