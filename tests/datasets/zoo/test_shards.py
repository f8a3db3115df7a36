"""Shards keep graphs exactly, and say what is wrong with a damaged one."""

import numpy as np
import pytest
from hypothesis import given

from regal_jax.datasets.zoo import pack, shards
from regal_jax.errors import RegalError
from regal_jax.graphs.importers.roofline import A100, with_profile
from regal_jax.graphs.rewrites.transforms import permute
from tests.policies.cases import chain, random_graph
from tests.strategies import computation_graphs


def annotated(graph, **attributes):
    """A graph with everything that a shard keeps."""
    roles = ["input" if p < 0 else "" for p in graph.producer]
    known = graph.replace(
        flops=np.arange(graph.num_ops, dtype=float) ** 2,
        bytes_accessed=1000 + np.arange(graph.num_ops, dtype=np.int64),
        op_names=(),
        op_kinds=tuple("relu" if i % 2 else "add" for i in range(graph.num_ops)),
        extra={"ops": {"phase": ["forward"] * graph.num_ops}, "tensors": {"role": roles}},
        **attributes,
    )
    return with_profile(known, A100)


@given(computation_graphs())
def test_a_graph_comes_back_as_it_was(tmp_path_factory, graph):
    path = tmp_path_factory.mktemp("shard") / "model_zoo-0.npz"
    graphs = [annotated(graph, name="g", family="f", source="s-1/training"), annotated(chain(5))]
    shards.save_shard(graphs, path)
    assert list(shards.load_shard(path)) == graphs


def test_the_same_graphs_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        shards.save_shard([annotated(random_graph(0))], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("data", [b"", b"not a zip", b"PK\x03\x04 torn"])
def test_damaged_shards_are_one_line(tmp_path, data):
    path = tmp_path / "model_zoo-0.npz"
    path.write_bytes(data)
    with pytest.raises(RegalError, match=r"model_zoo-0\.npz"):
        list(shards.load_shard(path))


def test_a_shard_of_another_format_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", strings=np.frombuffer(b'{"format": "other"}', np.uint8))
    with pytest.raises(RegalError, match="format is 'other'"):
        list(shards.load_shard(tmp_path / "x.npz"))


def test_unknown_work_cannot_be_packed(tmp_path):
    with pytest.raises(RegalError, match="FLOPs and bytes"):
        shards.save_shard([chain(3)], tmp_path / "x.npz")


def test_one_graph_of_every_topology():
    graph, other = annotated(random_graph(0)), annotated(random_graph(1))
    renumbered = permute(graph, np.arange(graph.num_ops)[::-1], range(graph.num_tensors))
    wider = graph.replace(size=2 * graph.size)
    assert pack.distinct([graph, renumbered, wider, other]) == [graph, other]


def test_packing_splits_by_size_and_replaces_older_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "MAX_SHARD_OPS", 10)
    (tmp_path / "model_zoo-7.npz").write_bytes(b"old")
    graphs = [annotated(chain(6), name=name) for name in ("b", "a", "c")]
    paths = pack.save(graphs, tmp_path)
    assert sorted(tmp_path.iterdir()) == paths
    names = [graph.name for path in paths for graph in shards.load_shard(path)]
    assert names == ["a", "b", "c"]
    with pytest.raises(RegalError, match="no graphs"):
        pack.save([], tmp_path)
