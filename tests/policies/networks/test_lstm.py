"""The sequence encoder: two LSTMs in plain numpy, what it sees, and padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.graphs.batching import GraphShape
from regal_jax.policies.networks.lstm import SequenceEncoder
from tests.policies.cases import chain, inputs_of, random_graph, random_params

SIZE = 4
ENCODER = SequenceEncoder(SIZE)
WIDE = GraphShape(ops=13, tensors=30, edges=60, output_window=4, edge_window=8)


def params_of(inputs, scale=0.5):
    return random_params(ENCODER.init, jax.random.key(0), inputs, scale=scale)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def dense(params, x):
    return x @ params["kernel"] + params.get("bias", 0.0)


def lstm(params, rows):
    """float[rows, size]: the outputs of the four-gate LSTM of REGAL's appendix, row by row."""
    memory, output, outputs = np.zeros(SIZE), np.zeros(SIZE), []
    for row in rows:
        gate = {g: dense(params["i" + g], row) + dense(params["h" + g], output) for g in "ifgo"}
        memory = sigmoid(gate["f"]) * memory + sigmoid(gate["i"]) * np.tanh(gate["g"])
        output = sigmoid(gate["o"]) * np.tanh(memory)
        outputs.append(output)
    return np.array(outputs)


def by_hand(params, inputs):
    params = jax.tree.map(lambda leaf: np.asarray(leaf, float), params["params"])
    encode = params["encode_node"]
    rows = dense(encode["Dense_1"], np.maximum(dense(encode["Dense_0"], inputs.nodes), 0))
    ahead = lstm(params["forward"], rows)
    back = lstm(params["backward"], rows[::-1])[::-1]
    return dense(params["join"], np.concatenate([ahead, back], axis=1))


def test_equals_two_lstms_in_numpy():
    inputs = inputs_of(random_graph(0))
    params = params_of(inputs)
    state = ENCODER.apply(params, inputs)
    assert state.shape == (8, SIZE)
    np.testing.assert_allclose(state, by_hand(params, inputs), rtol=1e-4, atol=1e-5)


def test_padding_changes_nothing_whatever_its_features():
    graph = random_graph(2)
    inputs, padded = inputs_of(graph), inputs_of(graph, WIDE)
    params = params_of(inputs)
    expected = ENCODER.apply(params, inputs)
    noise = np.where(padded.real[:, None], padded.nodes, 7.0).astype(np.float32)
    for given in (padded, padded.replace(nodes=noise)):
        state = ENCODER.apply(params, given)
        assert state.shape == (13, SIZE)
        np.testing.assert_allclose(state[: graph.num_ops], expected, rtol=1e-5, atol=1e-6)


def test_gradients_are_finite_and_do_not_see_padding():
    graph = random_graph(2)
    inputs, padded = inputs_of(graph), inputs_of(graph, WIDE)
    params = params_of(inputs)

    def total(params, inputs):
        state = ENCODER.apply(params, inputs)
        return jnp.sum(jnp.where(inputs.real[:, None], state, 0.0) ** 2)

    gradient = jax.jit(jax.grad(total))
    exact, wide = gradient(params, inputs), gradient(params, padded)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), exact, wide)
    assert all(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(exact))


@pytest.mark.parametrize("changed_op", [0, 4, 8])
def test_every_op_is_seen_by_every_op(changed_op):
    inputs = inputs_of(chain(9))
    params = params_of(inputs, scale=1.0)
    changed = inputs.replace(nodes=inputs.nodes + (np.arange(9) == changed_op)[:, None])
    before, after = ENCODER.apply(params, inputs), ENCODER.apply(params, changed)
    assert np.all(np.any(np.asarray(before) != np.asarray(after), axis=1))


def test_edges_are_not_looked_at():
    """The graph is a sequence: only the features of nodes say what is connected to how much."""
    inputs = inputs_of(random_graph(1))
    params = params_of(inputs)
    other = inputs.replace(
        edges=inputs.edges + 1, senders=inputs.receivers, receivers=inputs.senders
    )
    np.testing.assert_array_equal(ENCODER.apply(params, other), ENCODER.apply(params, inputs))


def test_a_batch_of_graphs_of_different_lengths():
    graphs = [random_graph(3, 5), random_graph(4, 9), chain(1)]
    padded = [inputs_of(graph, WIDE) for graph in graphs]
    params = params_of(padded[0])
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *padded)
    states = jax.vmap(ENCODER.apply, (None, 0))(params, stacked)
    for graph, state in zip(graphs, states, strict=True):
        expected = ENCODER.apply(params, inputs_of(graph))
        np.testing.assert_allclose(state[: graph.num_ops], expected, rtol=1e-5, atol=1e-6)
