"""Encoders: their size, what each op sees, and that labels and padding don't matter."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.relations import relations
from regal_jax.policies.networks.topoformer import SEVEN, Encoder, EncoderConfig, Modulation
from regal_jax.policies.topological_order.sampler import Priorities
from tests.oracles.ordering import graph_of, plain_pairs
from tests.policies.cases import chain, random_params
from tests.strategies import computation_graphs

FEATURES, OPS, EDGES = 5, 10, 45
TINY = EncoderConfig(layers=1, size=6, heads=2, head_size=3)
MIXED = dataclasses.replace(
    TINY, heads=0, heads_by_relation="reduction=2,redundant_back=1,closure=1,incomparable=1"
)
"""One relation of each kind, to compile less."""
ENCODERS = (
    *("topoformer", "topoformer_edges", "topoformer_machines"),
    *("transformer", "gat", "gat_both", "mlp"),
)


def padded(graph: ComputationGraph):
    return relations(graph, OPS, EDGES, machines=True)


def features_of(num_ops: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(num_ops, FEATURES)).astype(np.float32)


def with_padding(features: np.ndarray, fill: float = 0.0) -> np.ndarray:
    return np.pad(features, [(0, OPS - len(features)), (0, 0)], constant_values=fill)


@functools.cache
def params_of(config: EncoderConfig):
    inputs = features_of(OPS), padded(chain(2))
    return random_params(Encoder(config).init, jax.random.key(0), *inputs)


@functools.partial(jax.jit, static_argnames="config")
def encode_several(params, features, related, *, config):
    return jax.vmap(Encoder(config).apply, (None, 0, None))(params, features, related)


def encode(params, features, related, *, config) -> np.ndarray:
    """float32[O, size]; shares a compilation with all that looks at ``OPS + 1`` inputs."""
    several = np.repeat(features[None], OPS + 1, axis=0)
    return np.asarray(encode_several(params, several, related, config=config)[0])


def sizes(params) -> int:
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))


def shapes_of(config, module=Encoder, num_features=28):
    features = np.zeros((3, num_features), np.float32)
    return jax.eval_shape(module(config).init, jax.random.key(0), features, relations(chain(3)))


def test_the_default_is_the_network_of_the_paper():
    """C.2: 4 layers of 7 times 10 heads of width 64, MLPs of 256, and the decoder of eq. 7."""
    config = EncoderConfig()
    assert config.num_heads == dict.fromkeys(SEVEN, 10)
    shapes = shapes_of(config, Priorities)["params"]
    layer = shapes["encoder"]["attention_0"]
    assert layer["incomparable_value"]["kernel"].shape == (256, 10, 64)
    assert layer["incomparable_ends"]["kernel"].shape == (256, 10, 2 * 64)
    assert layer["join"]["kernel"].shape == (7 * 10 * 64, 256)
    heads = 7 * 3 * (256 * 640 + 640) + (7 * 640 * 256 + 256)
    mlp, norms = 2 * (256 * 256 + 256), 2 * 2 * 256
    decoder = 256 * 256 + 256 + 256 + 1
    assert sizes(shapes) == 28 * 256 + 256 + 4 * (heads + mlp + norms) + decoder


def test_encoders_have_heads_for_their_relations():
    heads = {name: dataclasses.replace(TINY, encoder=name).num_heads for name in ENCODERS}
    assert heads == {
        "topoformer": dict.fromkeys(SEVEN, 2),
        "topoformer_edges": {"edges": 2, "edges_back": 2},
        "topoformer_machines": dict.fromkeys((*SEVEN, "same_machine"), 2),
        "transformer": {"all": 2},
        "gat": {"edges": 2},
        "gat_both": {"edges": 2, "edges_back": 2},
        "mlp": {},
    }


def test_heads_by_relation():
    config = EncoderConfig(heads=2, heads_by_relation="incomparable=4,redundant=0")
    expected = dict.fromkeys(SEVEN, 2) | {"incomparable": 4}
    del expected["redundant"]
    assert config.num_heads == expected
    assert EncoderConfig(heads=0, heads_by_relation="closure=1").num_heads == {"closure": 1}
    assert EncoderConfig(heads=0).num_heads == {}


@pytest.mark.parametrize(
    ("encoder", "heads", "message"),
    [
        ("topoformer", "edges=2", "'edges=2' is not RELATION=HEADS with one of reduction, "),
        ("topoformer", "closure", "'closure' is not"),
        ("topoformer", "closure=-1", "'closure=-1' is not"),
        ("topoformer", "closure=2,closure_back=many", "'closure_back=many' is not"),
        ("mlp", "edges=2", "no relations"),
    ],
)
def test_heads_by_relation_that_make_no_sense(encoder, heads, message):
    with pytest.raises(OptionError, match=message):
        _ = EncoderConfig(encoder=encoder, heads_by_relation=heads).num_heads


def test_relations_without_heads_have_no_parameters():
    config = dataclasses.replace(TINY, heads_by_relation="redundant=0,closure=1")
    layer = shapes_of(config)["params"]["attention_0"]
    assert not {name for name in layer if name.startswith("redundant_ends")}
    assert layer["closure_ends"]["kernel"].shape == (6, 1, 6)
    assert layer["join"]["kernel"].shape == ((5 * 2 + 1) * 3, 6)
    without = shapes_of(dataclasses.replace(TINY, heads=0))["params"]
    assert not {name for name in without if name.startswith("attention")}
    assert sizes(without) == sizes(shapes_of(dataclasses.replace(TINY, encoder="mlp")))


@pytest.mark.parametrize("encoder", ["topoformer", "gat_both"])
def test_tied_relations_share_their_projections(encoder):
    config = dataclasses.replace(TINY, encoder=encoder, tied=True)
    layer = shapes_of(config)["params"]["attention_0"]
    assert set(layer) == {"tied_ends", "tied_value", "join"}
    with pytest.raises(OptionError, match="same number of heads"):
        _ = dataclasses.replace(
            config, heads_by_relation=f"{next(iter(config.num_heads))}=3"
        ).num_heads


def test_tied_encoders_are_untied_ones_with_equal_parameters():
    untied = encoder_config("topoformer_edges")
    tied = dataclasses.replace(untied, tied=True)
    params = params_of(tied)["params"]

    def untie(layer):
        shared = {
            f"{name}_{part}": layer[f"tied_{part}"]
            for name in ("edges", "edges_back")
            for part in ("ends", "value")
        }
        return {"join": layer["join"], **shared}

    copied = {
        name: untie(part) if name.startswith("attention") else part for name, part in params.items()
    }
    inputs = features_of(OPS), padded(chain(6))
    expected = encode({"params": copied}, *inputs, config=untied)
    found = encode({"params": params}, *inputs, config=tied)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def encoder_config(encoder, layers=1) -> EncoderConfig:
    return dataclasses.replace(TINY, encoder=encoder, layers=layers)


def seen_by(graph: ComputationGraph, config: EncoderConfig, params=None) -> list[set[int]]:
    """Of each real op, the real ops whose features its representation depends on."""
    features = np.repeat(features_of(OPS)[None], OPS + 1, axis=0)
    features[np.arange(OPS), np.arange(OPS)] += 1.0
    params = params or params_of(config)
    found = np.asarray(encode_several(params, features, padded(graph), config=config))
    differs = np.abs(found[:-1] - found[-1]).max(axis=2) > 1e-5
    real = range(graph.num_ops)
    assert not differs[graph.num_ops :, : graph.num_ops].any()
    return [{other for other in real if differs[other, op]} for op in real]


SHORTCUTS = graph_of(7, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 3), (5, 3)])
"""A chain of five ops with a shortcut, an op beside it, and op 6 alone."""


@pytest.mark.parametrize("encoder", ["topoformer", "transformer"])
def test_these_see_every_op_in_one_layer(encoder):
    assert seen_by(SHORTCUTS, encoder_config(encoder)) == [set(range(7))] * 7


def test_an_mlp_sees_an_op_alone():
    assert seen_by(SHORTCUTS, encoder_config("mlp")) == [{op} for op in range(7)]


@pytest.mark.parametrize(
    ("encoder", "layers"), [("topoformer_edges", 1), ("gat_both", 1), ("topoformer_edges", 2)]
)
def test_edges_reach_as_far_as_there_are_layers(encoder, layers):
    found = seen_by(chain(6), encoder_config(encoder, layers))
    assert found == [set(range(op - layers, op + layers + 1)) & set(range(6)) for op in range(6)]


def test_forward_edges_show_what_came_before():
    found = seen_by(SHORTCUTS, encoder_config("gat", 2))
    assert found == [{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3, 5}, {0, 2, 3, 4, 5}, {5}, {6}]


@pytest.mark.parametrize(
    ("relation", "seen"),
    [
        ("reduction", [{0}, {0, 1}, {1, 2}, {2, 3}]),
        ("redundant", [{0}, {1}, {2}, {0, 3}]),
        ("closure", [{0}, {1}, {0, 2}, {1, 3}]),
        ("reduction_back", [{0, 1}, {1, 2}, {2, 3}, {3}]),
        ("redundant_back", [{0, 3}, {1}, {2}, {3}]),
        ("closure_back", [{0, 2}, {1, 3}, {2}, {3}]),
        ("incomparable", [{0, 4}, {1, 4}, {2, 4}, {3, 4}]),
    ],
)
def test_each_relation_shows_its_graph(relation, seen):
    """The chain 0 -> 1 -> 2 -> 3 with the shortcut 0 -> 3, and op 4 alone. What the heads of other
    relations find is not passed on."""
    graph = graph_of(5, [(0, 1), (1, 2), (2, 3), (0, 3)])
    alone = {0, 1, 2, 3, 4} if relation == "incomparable" else {4}
    params = jax.tree.map(np.copy, params_of(TINY))
    kept = np.repeat(np.array(SEVEN) == relation, TINY.heads * TINY.head_size)
    params["params"]["attention_0"]["join"]["kernel"] *= kept[:, None]
    assert seen_by(graph, TINY, params) == [*seen, alone]


def test_ops_of_one_machine_type_that_no_path_joins_see_each_other():
    """Ops 0, 1, 3, 4 and 5 are of one type; 0 -> 1 and 0 -> 2 -> 3. Padding has no type."""
    config = dataclasses.replace(
        encoder_config("topoformer_machines"), heads=0, heads_by_relation="same_machine=2"
    )
    graph = graph_of(6, [(0, 1), (0, 2), (2, 3)])
    graph = graph.replace(machine_type=np.array([1, 1, 0, 1, 1, 1], np.int32))
    expected = [{0, 4, 5}, {1, 3, 4, 5}, {2}, {1, 3, 4, 5}, {0, 1, 3, 4, 5}, {0, 1, 3, 4, 5}]
    assert seen_by(graph, config) == expected


def test_heads_for_machines_need_machine_types():
    config, features = encoder_config("topoformer_machines"), features_of(7)
    with pytest.raises(OptionError, match="needs relations with machine types"):
        Encoder(config).init(jax.random.key(0), features, relations(SHORTCUTS))


@pytest.mark.parametrize("encoder", ENCODERS)
@settings(max_examples=15)
@given(graph=computation_graphs(OPS, machine_types=3), seed=st.integers(0, 99))
def test_other_labels_give_the_same_numbers(encoder, graph, seed):
    config = encoder_config(encoder)
    num_ops, pairs = graph.num_ops, sorted(plain_pairs(graph))
    label = np.random.default_rng(seed).permutation(num_ops)
    other = graph_of(num_ops, [(label[before], label[after]) for before, after in pairs])
    other = other.replace(machine_type=graph.machine_type[np.argsort(label)])
    features = features_of(num_ops, seed)
    moved = np.empty_like(features)
    moved[label] = features
    encoded = functools.partial(encode, params_of(config), config=config)
    found = encoded(with_padding(moved), padded(other))[label]
    expected = encoded(with_padding(features), padded(graph))[:num_ops]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert np.isfinite(expected).all()


@pytest.mark.parametrize("encoder", ["topoformer", "transformer", "gat_both"])
def test_padding_changes_nothing(encoder):
    """Neither that it is there, nor what it holds."""
    config, features = encoder_config(encoder), features_of(7)
    exact = encode(params_of(config), features, relations(SHORTCUTS), config=config)
    for fill in (0.0, 100.0):
        large = with_padding(features, fill)
        found = encode(params_of(config), large, padded(SHORTCUTS), config=config)
        np.testing.assert_allclose(found[:7], exact, rtol=1e-5, atol=1e-5)
        assert np.isfinite(found).all()


def gradient(config, features, related, num_ops):
    """Of the sum of the squares of the real ops' representations."""

    def loss(params):
        return jnp.sum(Encoder(config).apply(params, features, related)[:num_ops] ** 2)

    return jax.jit(jax.grad(loss))(params_of(config))


def test_padding_has_no_gradient():
    """Of 0 / 0, say."""
    features = features_of(7)
    exact = gradient(MIXED, features, relations(SHORTCUTS), 7)
    found = gradient(MIXED, with_padding(features, 100.0), padded(SHORTCUTS), 7)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), found, exact)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(exact)) > 0.1


@pytest.mark.parametrize("config", [MIXED, encoder_config("gat")])
def test_a_single_op_has_a_finite_gradient(config):
    """No edges, no padding, nobody to attend to."""
    for leaf in jax.tree.leaves(gradient(config, features_of(1), relations(graph_of(1, [])), 1)):
        assert np.isfinite(leaf).all()


def test_bfloat16_keeps_parameters_and_results_in_float32():
    config = dataclasses.replace(MIXED, bfloat16=True)
    assert {leaf.dtype for leaf in jax.tree.leaves(shapes_of(config))} == {np.dtype(np.float32)}
    inputs = features_of(OPS), padded(SHORTCUTS)
    found = encode(params_of(MIXED), *inputs, config=config)
    exact = encode(params_of(MIXED), *inputs, config=MIXED)
    assert found.dtype == jnp.float32
    assert 0 < np.abs(found - exact).max() < 0.1 * np.abs(exact).max()


def layer_norm(x, part):
    centred = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-6)
    return centred / deviation * part["scale"] + part["bias"]


def dense(x, part):
    return x @ part["kernel"] + part["bias"]


def test_a_condition_scales_and_shifts_the_first_layer_of_every_mlp():
    """gflownet_robust_scheduling, eq. 27, 28 and 30, for two layers without attention."""
    config, features = encoder_config("mlp", 2), features_of(OPS)
    condition = np.array([0.3, -1.2, 2.0], np.float32)
    inputs = features, padded(chain(6)), condition
    params = random_params(Encoder(config).init, jax.random.key(0), *inputs)
    parts = params["params"]
    expected = dense(features, parts["embed"])
    for layer in range(2):
        normed = layer_norm(expected, parts[f"LayerNorm_{layer}"])
        film = parts[f"film_{layer}"]
        scale, shift = (dense(condition, film[name]) for name in ("scale", "shift"))
        hidden = scale * dense(normed, parts[f"Dense_{2 * layer}"]) + shift
        expected = expected + dense(np.maximum(hidden, 0), parts[f"Dense_{2 * layer + 1}"])
    found = Encoder(config).apply(params, *inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_condition_adds_parameters_and_changes_none():
    features, related = features_of(7), relations(SHORTCUTS)
    with_it = jax.eval_shape(
        Encoder(TINY).init, jax.random.key(0), features, related, np.zeros(3, np.float32)
    )["params"]
    without = jax.eval_shape(Encoder(TINY).init, jax.random.key(0), features, related)["params"]
    assert set(with_it) - set(without) == {"film_0"}
    assert {name: with_it[name] for name in without} == without


def test_a_new_modulation_leaves_alone_what_has_no_condition():
    x, nothing = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.zeros(4, np.float32)
    params = Modulation(3).init(jax.random.key(0), x, nothing)
    np.testing.assert_array_equal(Modulation(3).apply(params, x, nothing), x)
