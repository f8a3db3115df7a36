"""Task graphs with known optima: what is known of a problem."""

import gzip
import json

import pytest

from regal_jax.errors import RegalError
from regal_jax.studies import stg
from regal_jax.studies.stg import Settings

RECORD = {
    "name": "pair",
    "durations": [2, 3],
    "edges": [[0, 1]],
    "published": {"2": [4, 6], "4": [4, 6]},
    "verified_optimum": {"2": 5, "4": None},
}


@pytest.fixture
def settings(tmp_path):
    with gzip.open(tmp_path / "stg50.jsonl.gz", "wt") as file:
        file.write(json.dumps(RECORD) + "\n")
    return Settings(data_dir=str(tmp_path))


def test_a_proven_optimum_counts_for_more_than_what_is_published(settings):
    ((graph, known),) = stg.read_set(settings, "stg50", 2)
    assert (graph.name, graph.duration.tolist()) == ("pair", [2, 3])
    assert graph.op_pairs.tolist() == [[0, 1]]
    assert known == (5, 5)
    ((_, known),) = stg.read_set(settings, "stg50", 4)
    assert known == (4, 6)


def test_a_number_of_processors_of_which_nothing_is_known(settings):
    with pytest.raises(RegalError, match="line 1, published: nothing is known for 8 processors"):
        stg.read_set(settings, "stg50", 8)
