"""Message passing: equations 1-5 in plain numpy, its symmetries, and how far it sees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.graphs.batching import GraphShape
from regal_jax.graphs.rewrites.transforms import permute
from regal_jax.policies.networks.message_passing import MLP, GraphValue, MessagePassing
from tests.policies.cases import chain, inputs_of, random_graph, random_params

SIZE, ROUNDS = 4, 2
WIDE = GraphShape(ops=13, tensors=30, edges=60, output_window=4, edge_window=8)


def module(**options):
    return MessagePassing(**{"size": SIZE, "rounds": ROUNDS, **options})


def dense(params, x):
    return x @ params["kernel"] + params.get("bias", 0.0)


def mlp(params, x):
    return dense(params["Dense_1"], np.maximum(dense(params["Dense_0"], x), 0))


def equations_1_to_5(params, inputs, rounds, *, aggregation="sum"):
    """As in the paper, edge by edge: the first message layer sees [h_s, h_t, h_e] at once."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, float), params["params"])
    shared = params["round"]
    h, h_e = mlp(params["encode_node"], inputs.nodes), mlp(params["encode_edge"], inputs.edges)
    ends, edge = shared["message_ends"]["kernel"], params["message_edge"]
    halves = {"message": slice(0, SIZE), "reverse_message": slice(SIZE, 2 * SIZE)}

    def message(which, s, t, e):
        part = halves[which]
        sender, receiver = ends[:, : 2 * SIZE][:, part], ends[:, 2 * SIZE :][:, part]
        kernel = np.concatenate([sender, receiver, edge["kernel"][:, part]])
        hidden = np.concatenate([h[s], h[t], h_e[e]]) @ kernel + edge["bias"][part]
        return dense(shared[which], np.maximum(hidden, 0))

    for _ in range(rounds):
        along, against = np.zeros_like(h), np.zeros_like(h)
        counts = np.zeros((2, len(h), 1))
        for e, (s, t) in enumerate(zip(inputs.senders, inputs.receivers, strict=True)):
            if s == len(h):
                continue  # padding
            along[t] += message("message", s, t, e)
            against[s] += message("reverse_message", s, t, e)
            counts[0, t] += 1
            counts[1, s] += 1
        if aggregation == "mean":
            along, against = along / np.maximum(counts[0], 1), against / np.maximum(counts[1], 1)
        gathered = along + against
        h = mlp(shared["node"], np.concatenate([h, gathered], axis=1))
    return h


@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_equals_equations_1_to_5(aggregation):
    inputs = inputs_of(random_graph(0))
    network = module(aggregation=aggregation)
    params = random_params(network.init, jax.random.key(0), inputs)
    expected = equations_1_to_5(params, inputs, ROUNDS, aggregation=aggregation)
    np.testing.assert_allclose(network.apply(params, inputs), expected, rtol=2e-4, atol=1e-4)


def test_permuting_the_graph_permutes_the_representations():
    graph, rng = random_graph(1), np.random.default_rng(0)
    op_order, tensor_order = rng.permutation(graph.num_ops), rng.permutation(graph.num_tensors)
    inputs = inputs_of(graph)
    other = inputs_of(permute(graph, op_order, tensor_order))
    statistics = inputs.nodes[:, 3:6]
    other.nodes[:, 3:6] = statistics[op_order]
    params = random_params(module().init, jax.random.key(0), inputs)
    state, moved = module().apply(params, inputs), module().apply(params, other)
    np.testing.assert_allclose(moved, state[op_order], rtol=1e-4, atol=1e-5)
    assert np.ptp(state, axis=0).max() > 1e-2  # nodes do differ


def test_padding_changes_nothing():
    graph = random_graph(2)
    inputs, padded = inputs_of(graph), inputs_of(graph, WIDE)
    params = random_params(module().init, jax.random.key(0), inputs)
    state = module().apply(params, padded)[: graph.num_ops]
    np.testing.assert_allclose(state, module().apply(params, inputs), rtol=1e-5, atol=1e-6)


def test_gradients_do_not_see_padding():
    graph = random_graph(2)
    inputs, padded = inputs_of(graph), inputs_of(graph, WIDE)
    params = random_params(module().init, jax.random.key(0), inputs)

    def total(params, inputs):
        state = module().apply(params, inputs)
        return jnp.sum(jnp.where(inputs.real[:, None], state, 0.0) ** 2)

    gradient = jax.jit(jax.grad(total))
    exact, wide = gradient(params, inputs), gradient(params, padded)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), exact, wide)


@pytest.mark.parametrize("rounds", [1, 3])
def test_information_travels_one_hop_a_round_both_ways(rounds):
    inputs, middle = inputs_of(chain(9)), 4
    network = module(rounds=rounds)
    params = random_params(network.init, jax.random.key(0), inputs)
    # Every unit stays active, so that a change is never hidden by a ReLU.
    params = jax.tree.map(lambda leaf: jnp.abs(leaf) + 0.05, params)
    changed = inputs.replace(nodes=inputs.nodes + (np.arange(9) == middle)[:, None])
    before, after = network.apply(params, inputs), network.apply(params, changed)
    seen = np.any(np.asarray(before) != np.asarray(after), axis=1)
    assert seen.tolist() == [abs(op - middle) <= rounds for op in range(9)]


def test_an_edge_feature_reaches_both_ends():
    inputs = inputs_of(chain(4))
    network = module(rounds=1)
    params = jax.tree.map(
        lambda leaf: jnp.abs(leaf) + 0.05, random_params(network.init, jax.random.key(0), inputs)
    )
    changed = inputs.replace(edges=inputs.edges + np.array([[0], [1], [0]], np.float32))
    before, after = network.apply(params, inputs), network.apply(params, changed)
    seen = np.any(np.asarray(before) != np.asarray(after), axis=1)
    assert seen.tolist() == [False, True, True, False]


def test_a_graph_without_edges():
    inputs = inputs_of(chain(1))
    state = module().apply(random_params(module().init, jax.random.key(0), inputs), inputs)
    assert state.shape == (1, SIZE)
    assert np.all(np.isfinite(state))


def test_graph_value_is_a_mean_over_real_nodes():
    graph = random_graph(3)
    inputs, padded = inputs_of(graph), inputs_of(graph, WIDE)
    value = GraphValue(SIZE, ROUNDS)
    params = random_params(value.init, jax.random.key(0), inputs)
    parts = params["params"]
    state = module().apply({"params": parts["MessagePassing_0"]}, inputs)
    pooled = MLP(SIZE).apply({"params": parts["MLP_0"]}, state).mean(axis=0)
    expected = MLP(SIZE, 1).apply({"params": parts["MLP_1"]}, pooled)[0]
    assert value.apply(params, inputs).shape == ()
    np.testing.assert_allclose(value.apply(params, inputs), expected, rtol=1e-5)
    np.testing.assert_allclose(value.apply(params, padded), expected, rtol=1e-5)
