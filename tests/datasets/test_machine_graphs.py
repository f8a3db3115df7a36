"""Random and real graphs on three machine types: statistics against the paper's appendix C.3."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regal_jax as rj
from regal_jax.datasets import machine_graphs as module
from regal_jax.datasets.layered import layered_graph
from regal_jax.datasets.machine_graphs import (
    FAMILIES,
    machine_graph,
    machine_graphs,
    machine_type_of,
    zoo_machine_graph,
)
from regal_jax.errors import GraphError, OptionError


def mean_close(values, mean, deviation):
    """Whether a mean of independent numbers is within five standard errors."""
    return abs(np.mean(values) - mean) < 5 * deviation / math.sqrt(len(values))


@pytest.mark.parametrize("family", FAMILIES)
def test_columns(family):
    graph = machine_graph(family, 3, 200)
    assert graph.num_ops == graph.num_tensors == 200
    assert graph.capacity.tolist() == [1, 1, 4]
    assert set(graph.demand.tolist()) == {1}
    assert set(graph.size.tolist()) == {0}
    assert set(graph.machine_type.tolist()) == {0, 1, 2}
    assert graph.duration.min() >= 1
    np.testing.assert_array_equal(graph.duration, np.rint(graph.duration))
    assert (graph.name, graph.family, graph.source) == (f"{family} 200 3", family, "synthetic")


@pytest.mark.parametrize("family", FAMILIES)
def test_machine_types_follow_the_capacities(family):
    types = np.concatenate([g.machine_type for g in machine_graphs(family, "train", 100, 60)])
    for machine_type, share in enumerate((1 / 6, 1 / 6, 2 / 3)):
        assert mean_close(types == machine_type, share, math.sqrt(share * (1 - share)))


def test_durations_are_the_projected_mixture():
    """Mean, and share of durations of 1, by the moments of clipped Gaussians."""
    durations = module._durations(np.random.default_rng(0), 200_000)
    mean, at_most_zero, below_two = 0.0, 0.0, 0.0
    mixture = zip([0.3, 0.3, 0.3, 0.1], [0.5, 1, 3, 5], [0.5, 1, 1, 1], strict=True)
    for weight, mu, sigma in mixture:
        negative = math.erfc(mu / sigma / math.sqrt(2)) / 2
        density = math.exp(-((mu / sigma) ** 2) / 2) / math.sqrt(2 * math.pi)
        mean += weight * (mu * (1 - negative) + sigma * density)
        at_most_zero += weight * math.erfc((mu - 0.005) / sigma / math.sqrt(2)) / 2
        below_two += weight * math.erfc((mu - 2) / sigma / math.sqrt(2)) / 2
    assert mean_close(durations, 100 * mean + 1, 160)
    assert mean_close(durations == 1, at_most_zero, 0.3)
    assert mean_close(durations < 201, below_two, 0.5)


def test_layered_topology():
    graph = machine_graph("layered", (1, 4), 150)
    np.testing.assert_array_equal(graph.op_pairs, layered_graph((1, 4), 150).op_pairs)


def test_erdos_renyi_edges():
    """5 % of all pairs, whichever their numbers."""
    graphs = list(machine_graphs("erdos_renyi", "test", 120, 12))
    pairs = 120 * 119 / 2
    deviation = math.sqrt(pairs * 0.05 * 0.95)
    assert mean_close([len(graph.edges) for graph in graphs], 0.05 * pairs, deviation)
    edges = np.concatenate([graph.op_pairs for graph in graphs])
    assert mean_close(edges[:, 0] < edges[:, 1], 0.5, 1.5)  # directed by a random order


def test_block_model_edges():
    """Four blocks of ops in a row: 0.3 inside, 0.001 between."""
    edges = [g.op_pairs for g in machine_graphs("stochastic_block_model", "valid", 100, 30)]
    inside, between = 4 * 25 * 24 / 2, 6 * 25 * 25
    within = [np.sum(pairs[:, 0] // 25 == pairs[:, 1] // 25) for pairs in edges]
    across = [len(pairs) - same for pairs, same in zip(edges, within, strict=True)]
    assert mean_close(within, 0.3 * inside, math.sqrt(inside * 0.21))
    assert mean_close(across, 0.001 * between, math.sqrt(between * 0.001))


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_are_disjoint_and_reproducible(family):
    sets = [list(machine_graphs(family, split, 40, 12)) for split in ("train", "valid", "test")]
    assert len({graph.fingerprint for graph in itertools.chain(*sets)}) == 36
    assert len({graph.name for graph in itertools.chain(*sets)}) == 36
    assert list(machine_graphs(family, "valid", 40, 5)) == sets[1][:5]
    assert machine_graph(family, (2, 3), 40) == sets[2][3]


def test_numbers_of_graphs():
    assert module.COUNTS == {"train": 3000, "valid": 300, "test": 300}
    assert sum(1 for _ in machine_graphs("layered", "valid", 2)) == 300


@pytest.mark.parametrize(
    ("family", "num_ops"), [("barabasi", 9), ("layered", 0), ("stochastic_block_model", 3)]
)
def test_graph_options(family, num_ops):
    with pytest.raises(OptionError):
        machine_graph(family, 0, num_ops)


@pytest.mark.parametrize(
    "arguments", [("x", "train"), ("layered", "all"), ("layered", "test", 9, -1)]
)
def test_set_options(arguments):
    """Told at once, before the first graph is asked for."""
    with pytest.raises(OptionError):
        machine_graphs(*arguments)


@pytest.mark.parametrize(
    ("machine_type", "kinds"),
    [
        (0, "dot_general conv_general_dilated mm addmm convolution Gemm MatMul einsum LSTM"),
        (0, "_scaled_dot_product_flash_attention_for_cpu Conv convolution_backward dot"),
        (1, "transpose Reshape gather scatter-add slice concatenate cat copy_ clone pad Concat"),
        (1, "broadcast_in_dim index dynamic_update_slice convert_element_type stack Split"),
        (2, "add mul gelu tanh fusion native_layer_norm _softmax reduce_sum max_pool2d Relu if"),
        (2, "select_n rsqrt zeros_like iota bernoulli_ unheard_of"),
    ],
)
def test_type_of_kind(machine_type, kinds):
    assert {kind: machine_type_of(kind) for kind in kinds.split()} == dict.fromkeys(
        kinds.split(), machine_type
    )


def test_real_graphs():
    def model(x, w, v):
        return jnp.concatenate([jnp.tanh(x @ w).T @ v, v]).sum()

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((8, 4), (4, 6), (8, 5))]
    graph = rj.from_jax(model, *shapes)
    typed = zoo_machine_graph(graph)
    type_of = dict(zip(typed.op_kinds, typed.machine_type.tolist(), strict=True))
    kinds = {"dot_general": 0, "tanh": 2, "transpose": 1, "concatenate": 1, "reduce_sum": 2}
    assert type_of == kinds
    assert typed.capacity.tolist() == [1, 1, 4]
    assert set(typed.demand.tolist()) == {1}
    np.testing.assert_array_equal(typed.duration, graph.duration)
    np.testing.assert_array_equal(typed.edges, graph.edges)
    np.testing.assert_array_equal(typed.size, graph.size)


def test_kinds_are_needed():
    with pytest.raises(GraphError, match=r"ops\.kind"):
        zoo_machine_graph(machine_graph("layered", 0, 10))
