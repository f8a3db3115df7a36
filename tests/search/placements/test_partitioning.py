"""Graph partitioning: bytes cut, balance, and what is known of small graphs."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.datasets.pipelines import pipeline
from regal_jax.errors import MissingDependencyError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.microbatches import microbatches
from regal_jax.search.orders import rules
from regal_jax.search.placements import partitioning
from tests.strategies import computation_graphs

PARTITIONERS = {
    "kernighan_lin": partitioning.kernighan_lin,
    "metis": partitioning.metis,
    "mtkahypar": partitioning.mtkahypar,
}
PACKAGES = {"metis": "pymetis", "mtkahypar": "mtkahypar"}
"""What partitioners need that the package doesn't."""


@pytest.fixture(params=sorted(PARTITIONERS))
def partition(request):
    if request.param in PACKAGES:
        pytest.importorskip(PACKAGES[request.param])
    return PARTITIONERS[request.param]


def data_graph(num_ops, edges, size=1):
    """A tensor an edge, of ``size`` bytes or of as many as the edge's third entry says."""
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=[edge[0] for edge in edges],
        size=[edge[2] if len(edge) > 2 else size for edge in edges],
        consumers=[[edge[1]] for edge in edges],
    )


def random_graph(seed, num_ops=8):
    """Each op makes a tensor, which one to three later ops read."""
    rng = np.random.default_rng(seed)
    readers = [rng.integers(op + 1, num_ops, rng.integers(1, 4)) for op in range(num_ops - 1)]
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=rng.integers(0, 50, num_ops),
        consumers=[*(row.tolist() for row in readers), []],
        duration=rng.integers(1, 9, num_ops),
    )


def cut_bytes(graph, placement):
    """Bytes a placement moves between devices, each tensor once to each device that lacks it."""
    producer, tensor, reader = graph.edges.T.astype(np.int64)
    crossing = placement[producer] != placement[reader]
    copies = np.stack([tensor[crossing], placement[reader[crossing]]], axis=1)
    return int(graph.size[np.unique(copies, axis=0)[:, 0]].sum())


def heaviest_first(weight, num_devices):
    """The load of the fullest device when the heaviest goes to the least loaded first."""
    load = [0.0] * num_devices
    for amount in sorted(weight, reverse=True):
        load[load.index(min(load))] += amount
    return max(load)


def most_allowed(weight):
    """What either of two devices may carry, as documented."""
    even = (1 + partitioning.TOLERANCE) * sum(weight) / 2
    return max(even, heaviest_first(weight, 2)) * (1 + 1e-9)


def test_cut_bytes_by_hand():
    """A tensor of 10 bytes goes to each of two other devices once; inputs cost nothing."""
    graph = ComputationGraph.create(
        num_ops=5, producer=[0, -1, 1], size=[10, 100, 3], consumers=[[1, 2, 3, 4], [0, 1], [2]]
    )
    assert cut_bytes(graph, np.array([0, 0, 1, 1, 2])) == 10 + 10 + 3
    assert cut_bytes(graph, np.array([1, 1, 1, 1, 1])) == 0


@settings(max_examples=100, deadline=None)
@given(computation_graphs(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_cut_bytes_is_what_transfers_move(graph, num_devices, random):
    placement = np.array([random.randrange(num_devices) for _ in range(graph.num_ops)], np.int32)
    steps = rules.build_schedule(
        graph,
        graph.topological_order,
        placement,
        objective="peak_memory",
        num_devices=num_devices,
    ).steps
    moved = (steps[steps >= graph.num_ops] - graph.num_ops) // num_devices
    assert cut_bytes(graph, placement) == int(graph.size[moved].sum())


@settings(max_examples=100, deadline=None)
@given(
    computation_graphs(),
    st.integers(1, 5),
    st.integers(0, 2),
    st.sampled_from(sorted(PARTITIONERS)),
    st.sampled_from(["peak_memory", "makespan"]),
)
def test_every_graph_has_a_placement_that_depends_on_the_seed_alone(
    graph, num_devices, seed, name, objective
):
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    weight = rules.op_weights(graph, objective).astype(float)
    placement = PARTITIONERS[name](graph, weight, num_devices, seed=seed)
    assert placement.dtype == np.int32
    assert placement.shape == (graph.num_ops,)
    assert np.all((placement >= 0) & (placement < num_devices))
    again = PARTITIONERS[name](graph, weight, num_devices, seed=seed)
    np.testing.assert_array_equal(placement, again)


@settings(max_examples=150, deadline=None)
@given(computation_graphs())
def test_kernighan_lin_balances_as_documented(graph):
    placement = partitioning.kernighan_lin(graph, graph.duration, 2)
    load = np.bincount(placement, graph.duration, 2)
    assert load.max() <= most_allowed(graph.duration.tolist())


def least_cut(graph):
    """The fewest bytes of all balanced bisections."""
    most = most_allowed(graph.duration.tolist())
    halves = map(np.array, itertools.product((0, 1), repeat=graph.num_ops))
    balanced = (h for h in halves if np.bincount(h, graph.duration, 2).max() <= most)
    return min(cut_bytes(graph, half) for half in balanced)


def test_kernighan_lin_finds_the_best_bisection_of_most_small_graphs():
    graphs = [random_graph(seed) for seed in range(40)]
    found = [cut_bytes(g, partitioning.kernighan_lin(g, g.duration, 2)) for g in graphs]
    best = [least_cut(graph) for graph in graphs]
    assert all(cut >= least for cut, least in zip(found, best, strict=True))
    assert sum(found) <= 1.1 * sum(best)
    assert sum(cut == least for cut, least in zip(found, best, strict=True)) >= 30


def test_two_clusters_are_told_apart(partition):
    """Even ops read each other, odd ops read each other; one thin tensor joins the two."""
    pairs = [(i, j, 100) for i, j in itertools.combinations(range(12), 2) if (i - j) % 2 == 0]
    graph = data_graph(12, [*pairs, (4, 7, 1)])
    placement = partition(graph, np.ones(12), 2)
    assert np.all(placement == placement[0] ^ (np.arange(12) % 2))
    assert cut_bytes(graph, placement) == 1


@pytest.mark.parametrize("num_devices", [2, 3, 4, 5, 7])
def test_a_chain_is_cut_into_even_stages(partition, num_devices):
    graph = data_graph(420, [(i, i + 1) for i in range(419)])
    placement = partition(graph, np.ones(420), num_devices)
    even = 420 / num_devices
    assert np.bincount(placement, minlength=num_devices).max() <= 1.04 * even
    assert cut_bytes(graph, placement) <= 3 * (num_devices - 1)


def test_replicas_are_not_cut(partition):
    replica = data_graph(7, [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (4, 6)])
    graph = microbatches(replica, 8)
    for num_devices in (2, 4, 8):
        placement = partition(graph, np.ones(graph.num_ops), num_devices)
        assert cut_bytes(graph, placement) == 0
        np.testing.assert_array_equal(np.bincount(placement), 56 // num_devices)


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 4), (3, 5), (4, 8), (8, 16)])
def test_stages_that_share_weights_are_found(stages, microbatches):
    graph = pipeline(stages, microbatches, activation_bytes=8, weight_bytes=1000)
    found = partitioning.kernighan_lin(graph, graph.duration, stages, copies=True)
    stage = np.asarray(graph.extra["ops"]["stage"])
    assert len(np.unique(np.stack([stage, found]), axis=1).T) == stages


def test_a_tensor_with_many_readers_is_one_transfer():
    star = ComputationGraph.create(num_ops=101, producer=[0], size=[5], consumers=[range(1, 101)])
    placement = partitioning.kernighan_lin(star, np.ones(101), 2)
    assert cut_bytes(star, placement) == 5
    assert 49 <= placement.sum() <= 52


def test_sizes_beyond_32_bits(partition):
    graph = data_graph(8, [(i, i + 1, 2**49 if i != 3 else 2**20) for i in range(7)])
    weight = np.full(8, 2.0**50)
    placement = partition(graph, weight, 2)
    assert cut_bytes(graph, placement) == 2**20


@pytest.mark.parametrize("num_ops", [0, 1, 2, 3, 4])
def test_few_ops_for_many_devices(partition, num_ops):
    graph = data_graph(num_ops, [(i, i + 1) for i in range(num_ops - 1)])
    for weight in (np.ones(num_ops), np.zeros(num_ops)):
        placement = partition(graph, weight, 3)
        assert placement.shape == (num_ops,)
        assert placement.dtype == np.int32
        assert np.all((placement >= 0) & (placement < 3))


def test_one_device_holds_everything(partition):
    graph = random_graph(0)
    assert partition(graph, graph.duration, 1).tolist() == [0] * 8


def test_real_weights_are_balanced(partition):
    graph = random_graph(1, 300)
    for num_devices in (2, 3, 6):
        load = np.bincount(partition(graph, graph.duration, num_devices), graph.duration)
        assert load.max() <= 1.05 * graph.duration.sum() / num_devices


def test_seeds_lead_to_different_partitions(partition):
    graph = random_graph(2, 200)
    seeds = {tuple(partition(graph, graph.duration, 4, seed=seed).tolist()) for seed in range(5)}
    if partition is not partitioning.mtkahypar:  # whose deterministic preset has its own
        assert len(seeds) > 1


def test_mtkahypar_cuts_fewer_bytes_than_one_level():
    pytest.importorskip("mtkahypar")
    graphs = [random_graph(seed, 200) for seed in range(5)]
    ours, theirs = (
        sum(cut_bytes(graph, PARTITIONERS[name](graph, graph.duration, 4)) for graph in graphs)
        for name in ("kernighan_lin", "mtkahypar")
    )
    assert theirs < ours


@pytest.mark.parametrize(("name", "package"), PACKAGES.items())
def test_packages_are_optional(monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=f"{package}.*solvers"):
        PARTITIONERS[name](random_graph(0), np.ones(8), 2)
