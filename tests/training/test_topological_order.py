"""REINFORCE over orders: costs, the gradient by a plain formula, devices, and learning."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from regal_jax.datasets.layered import layered_graphs
from regal_jax.graphs import batching
from regal_jax.graphs.batching import GraphShape
from regal_jax.policies.topological_order.policy import OrderingConfig, ordering_policy
from regal_jax.search.orders import sampling
from regal_jax.search.orders.dynamic_programming import order_peak
from regal_jax.training import topological_order as reinforce
from regal_jax.training.ordering_examples import batches
from regal_jax.training.topological_order import OrderingTraining
from tests.cpu_devices import run_on_devices
from tests.oracles import ordering as oracle
from tests.strategies import computation_graphs

POLICY = OrderingConfig(encoder="mlp", size=8, layers=1, dimensions=2)
"""The encoder that compiles fastest; hops and degrees are among the features that it sees."""
CONFIGS = {
    name: OrderingTraining(
        batch_size=2,
        epoch_graphs=20,
        learning_rate=0.02,
        samples=8,
        baseline=name,
        clip_norm=1e9,
    )
    for name in ("greedy_rollout", "leave_one_out")
}
GREEDY = CONFIGS["greedy_rollout"]
GRAPHS = layered_graphs(5, 2, 12)


@functools.cache
def batch():
    """Both graphs, padded to 16 ops."""
    (found,) = batches(GRAPHS, POLICY, 2)
    return found


@functools.cache
def first_state(config):
    one = jax.tree.map(lambda leaf: leaf[0], batch().inputs)
    return jax.jit(
        functools.partial(reinforce.init_state, inputs=one, policy=POLICY, config=config)
    )(jax.random.key(0))


def run_steps(count: int, config: OrderingTraining, sharding=None):
    """(state after so many steps, the mean cost of the samples at each)."""
    state, examples, history = first_state(config), batch(), []
    if sharding is not None:
        state = jax.device_put(state, NamedSharding(sharding.mesh, P()))
        examples = jax.device_put(examples, sharding)
    for index in range(count):
        key = jax.random.key(index)
        state, metrics = reinforce.train_step(key, state, examples, policy=POLICY, config=config)
        history.append(float(metrics["cost"]))
    return state, history


SHAPE = GraphShape(ops=10, tensors=24, edges=128, output_window=32, edge_window=128)


@settings(max_examples=40)
@given(computation_graphs(8, max_tensors=16), st.integers(0, 2**32 - 1))
def test_costs_are_peaks_of_orders(graph, seed):
    """With workspaces, tensors that stay, tensors that nobody makes, and padding."""
    uniforms = np.random.default_rng(seed).random((3, graph.num_ops))
    successors = sampling.op_successors(graph)
    exact = sampling.sampled_positions(successors, np.zeros(graph.num_ops), uniforms)
    positions = np.full((3, SHAPE.ops), SHAPE.ops, np.int32)
    positions[:, : graph.num_ops] = exact
    arrays = jax.tree.map(lambda leaf: leaf[None], batching.graph_arrays(graph, SHAPE))
    found = reinforce.costs(arrays, positions[None])
    expected = [order_peak(graph, sampling.order_of(position)) for position in exact]
    assert found.shape == (1, 3)
    assert found[0].tolist() == expected


def test_greedy_orders_and_samples_are_those_of_the_policy():
    params, inputs = first_state(GREEDY).params, batch().inputs
    priority = np.asarray(reinforce._priorities(params, inputs, POLICY))
    greedy = reinforce.greedy(params, inputs, POLICY)
    sampled = reinforce.sampled(params, jax.random.key(0), inputs, POLICY, 8)
    again = reinforce.sampled(params, jax.random.key(0), inputs, POLICY, 8)
    other = reinforce.sampled(params, jax.random.key(1), inputs, POLICY, 8)
    assert sampled.shape == (2, 8, 16)
    np.testing.assert_array_equal(sampled, again)
    assert (sampled != other).any()
    assert (sampled[0] != sampled[1]).any()
    for row, graph in enumerate(GRAPHS):
        pairs = oracle.plain_pairs(graph)
        expected = oracle.greedy_order(priority[row, :12].tolist(), pairs)
        np.testing.assert_array_equal(greedy[row], oracle.positions(expected, 16))
        assert (sampled[row, :, 12:] == 16).all()
        for order in np.argsort(sampled[row, :, :12], axis=1).tolist():
            assert oracle.is_order(12, pairs, order)


@jax.jit
@jax.grad
def plain_gradient(params, allowed, advantage):
    """Of the mean of advantage times log-probability, its softmaxes written out.

    allowed: bool[graph, sample, step, op].
    """
    priorities = jax.vmap(ordering_policy(POLICY).priorities, (None, 0))
    priority = priorities(params, batch().inputs)[:, None, None, :12]
    total = jax.nn.logsumexp(jnp.where(allowed, priority, -jnp.inf), axis=3).sum(axis=2)
    log_prob = priority.sum(axis=(2, 3)) - total
    return jnp.mean(advantage * log_prob)


@pytest.mark.parametrize("baseline", CONFIGS)
def test_the_gradient_is_that_of_the_plain_formula(baseline):
    """Equation 9 with b(G) as the unit of cost. Adam's first moment is a tenth of the gradient."""
    config, examples = CONFIGS[baseline], batch()
    state = first_state(config)
    positions = reinforce.sampled(state.params, jax.random.key(0), examples.inputs, POLICY, 8)
    rollout = reinforce.greedy(state.params, examples.inputs, POLICY)
    orders = np.argsort(positions[:, :, :12], axis=2)
    cost = np.array(
        [[order_peak(graph, order) for order in orders[row]] for row, graph in enumerate(GRAPHS)],
        float,
    )
    if baseline == "greedy_rollout":
        best = [order_peak(graph, np.argsort(rollout[r, :12])) for r, graph in enumerate(GRAPHS)]
        advantage = cost / np.array(best, float)[:, None] - 1
    else:
        others = [[np.delete(row, sample).mean() for sample in range(8)] for row in cost]
        advantage = cost / np.array(others) - 1
        rollout = None
    new, metrics = reinforce._update(state, examples, positions, rollout, POLICY, config)
    allowed = [
        [oracle.choices(order, oracle.plain_pairs(graph)) for order in orders[row].tolist()]
        for row, graph in enumerate(GRAPHS)
    ]
    expected = plain_gradient(state.params, np.array(allowed), advantage)
    moment = optax.tree_utils.tree_get(new.opt_state, "mu")
    assert float(optax.global_norm(expected)) > 1e-2
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(10 * a, b, rtol=1e-3, atol=1e-5), moment, expected
    )
    relative = cost / np.asarray(examples.reference)[:, None]
    np.testing.assert_allclose(metrics["cost"], relative.mean(), rtol=1e-5)
    np.testing.assert_allclose(metrics["advantage_std"], advantage.std(), rtol=1e-4)
    np.testing.assert_allclose(metrics["gradient_norm"], optax.global_norm(expected), rtol=1e-3)
    assert int(new.step) == 1


@pytest.mark.parametrize("baseline", CONFIGS)
def test_training_makes_the_orders_cheaper(baseline):
    """Costs over the best of 100 random orders: the excess falls by more than a third."""
    _, history = run_steps(60, CONFIGS[baseline])
    assert np.mean(history[-10:]) - 1 < 0.6 * (np.mean(history[:10]) - 1)


def test_training_is_a_function_of_its_keys():
    (first, _), (again, _) = run_steps(2, GREEDY), run_steps(2, GREEDY)
    jax.tree.map(np.testing.assert_array_equal, first, again)


def test_the_learning_rate_decays_from_epoch_to_epoch():
    """Adam moves a number with a steady gradient by the learning rate a step."""
    config = OrderingTraining(
        batch_size=2, epoch_graphs=4, learning_rate=0.5, decay=0.1, clip_norm=1.0
    )
    assert config.steps_per_epoch == 2
    optimizer = reinforce.make_optimizer(config)
    state, moves = optimizer.init(0.0), []
    for _ in range(5):
        move, state = optimizer.update(jnp.float32(100.0), state)
        moves.append(float(move))
    np.testing.assert_allclose(moves, [-0.5, -0.5, -0.05, -0.05, -0.005], rtol=1e-3)


def test_the_paper_has_325_epochs_of_125_steps():
    config = OrderingTraining()
    assert (config.epochs, config.steps_per_epoch, config.samples) == (325, 125, 1)
    assert OrderingTraining(batch_size=8, epoch_graphs=3).steps_per_epoch == 1


def first_moments(state) -> np.ndarray:
    """float[P]: Adam's, in which gradients are added up. (In the parameters, the rounding errors of
    a gradient of 0 are as large as others: that of the last bias, which eq. 17 takes out.)"""
    moments = jax.tree.leaves(optax.tree_utils.tree_get(state.opt_state, "mu"))
    return np.concatenate([np.ravel(leaf) for leaf in moments])


TWO_DEVICES = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from tests.training.test_topological_order import GREEDY, first_moments, run_steps
mesh = Mesh(np.array(jax.devices()), ("graphs",))
state, history = run_steps(2, GREEDY, NamedSharding(mesh, P("graphs")))
print(len(jax.devices()), *history)
print(*first_moments(state))
"""


def test_two_devices_give_the_gradients_of_one():
    printed = run_on_devices(TWO_DEVICES, 2)
    costs, moments = (np.array(line.split(), float) for line in printed.strip().split("\n"))
    state, history = run_steps(2, GREEDY)
    assert costs[0] == 2
    np.testing.assert_allclose(costs[1:], history, rtol=1e-5)
    np.testing.assert_allclose(moments, first_moments(state), rtol=1e-3, atol=1e-5)
