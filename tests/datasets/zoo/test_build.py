"""Building a zoo: every model once, failures logged, interrupted builds going on."""

import csv

import pytest

pytest.importorskip("pebble")

from regal_jax.datasets.zoo import build, load
from regal_jax.errors import OptionError, RegalError


def graph_files(folder):
    return sorted(folder.glob("graphs/*/*.jsonl.gz"))


def run(folder, *, modes=("inference",), models=r"flax/mlp_[12]", **changes):
    outcomes = []
    options = {"seconds_per_model": 100.0, "workers": 1, "max_ops": 1000} | changes
    build.build(
        folder,
        ["flax"],
        modes=modes,
        models=models,
        on_outcome=lambda outcome, done, total: outcomes.append(outcome),
        **options,
    )
    return outcomes


def test_models_are_made_once_and_a_build_goes_on(tmp_path):
    first = run(tmp_path)
    assert first
    assert not any(outcome.reason for outcome in first)
    assert len(graph_files(tmp_path)) == len(first)
    assert run(tmp_path) == []
    graph_files(tmp_path)[0].unlink()
    assert len(run(tmp_path)) == 1
    graphs = load.model_zoo(subset="inference", folder=tmp_path)
    assert len(graphs) == len(first)
    assert all(graph.name.endswith(":inference") for graph in graphs)
    assert all(graph.family.startswith("flax/") for graph in graphs)


def test_a_rebuild_gives_identical_files(tmp_path):
    for folder in ("a", "b"):
        run(tmp_path / folder, modes=("inference", "training"))
    first, second = (graph_files(tmp_path / folder) for folder in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_failures_are_logged_with_their_reason_and_not_tried_again(tmp_path):
    outcomes = run(tmp_path, max_ops=2)
    assert all("ops are more than 2" in outcome.reason for outcome in outcomes)
    with (tmp_path / "failures.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [outcome.name for outcome in outcomes]
    assert run(tmp_path, max_ops=2) == []


def test_a_model_that_takes_too_long_is_stopped(tmp_path):
    outcomes = run(tmp_path, seconds_per_model=0.01)
    assert {outcome.reason for outcome in outcomes} == {"more than 0.01 s"}


def test_unknown_sources_and_unwritable_folders_are_errors(tmp_path):
    with pytest.raises(OptionError, match="unknown source 'tim': timm"):
        build.find_source("tim")
    (tmp_path / "file").write_text("")
    with pytest.raises(RegalError, match="failures"):
        run(tmp_path / "file")
