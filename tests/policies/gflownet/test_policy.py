"""Policies over construction: what they give probabilities to, and what does not matter to them."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.datasets.task_graphs import task_graph
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.policies.gflownet import encode_once, reencode, types
from regal_jax.policies.gflownet.policy import FlowConfig, flow_inputs, padded_inputs
from regal_jax.policies.gflownet.rollout import states
from tests.oracles import flows
from tests.policies.gflownet.cases import (
    ENCODE_ONCE,
    GRAPH,
    REENCODE,
    decide,
    decisions,
    new_policy,
    random_policy,
)
from tests.strategies import computation_graphs

OPS, PAIRS, WINDOW = 6, 8, 5
BOTH = pytest.mark.parametrize("config", [ENCODE_ONCE, REENCODE], ids=["encode_once", "reencode"])
GUIDED = dataclasses.replace(ENCODE_ONCE, encoder="mlp", guided=True)
DIAMOND = task_graph([(0, 1), (0, 2), (1, 3), (2, 3)], [1.0, 2.0, 1.5, 1.0])
LAST_IS_READ = task_graph([(3, 0), (3, 1), (2, 1)], [2.0, 1.0, 3.0, 1.5])
"""What an index of -1 finds is an op that matters."""


def padded(graph, config=REENCODE):
    return flow_inputs(graph, Platform(2), config, OPS, PAIRS, WINDOW)


@functools.cache
def params_of(config):
    return random_policy(config, padded(GRAPH, config))


def decided(config, graph, *args, **kwargs):
    return decisions(
        config, params_of(config), graph, *args, inputs=padded(graph, config), **kwargs
    )


def assert_close(one: dict, other: dict):
    """Two policies say the same of the same states."""
    assert one.keys() == other.keys()
    for state in one:
        for left, right in zip(one[state][1:3], other[state][1:3], strict=True):
            assert left.keys() == right.keys()
            for after in left:
                assert left[after] == pytest.approx(right[after], abs=1e-5)
        assert one[state].flow == pytest.approx(other[state].flow, abs=1e-5)


@BOTH
@settings(max_examples=30)
@given(graph=computation_graphs(4), log_temperature=st.floats(-5.3, 0.7))
def test_probabilities_are_those_of_all_states_after_and_before(config, graph, log_temperature):
    before, symmetric = flows.producers(graph), config.symmetric
    found = decided(config, graph, log_temperature)
    assert set(found) == {
        s for layer in flows.layers(before, 2, symmetric=symmetric) for s in layer
    }
    for state, decision in found.items():
        assert set(decision.forward) == set(flows.children(state, before, symmetric=symmetric))
        assert set(decision.backward) == set(flows.parents(state, before, symmetric=symmetric))
        for log_p in (decision.forward, decision.backward):
            total = np.exp(list(log_p.values())).sum()
            assert total == pytest.approx(1.0 if log_p else 0.0, abs=1e-5)
        assert np.isfinite(decision.flow)


@BOTH
@pytest.mark.parametrize("graph", [GRAPH, LAST_IS_READ], ids=["", "last is read"])
def test_padding_changes_nothing(config, graph):
    exact = decisions(config, params_of(config), graph, -1.0)
    assert_close(decided(config, graph, -1.0), exact)
    inputs = flow_inputs(graph, Platform(2), config, 9, 13, 9)
    assert_close(decisions(config, params_of(config), graph, -1.0, inputs=inputs), exact)


@BOTH
@settings(max_examples=10)
@given(label=st.permutations(range(4)))
def test_other_labels_of_ops_give_the_same_numbers(config, label):
    edges = [(0, 2), (1, 2), (1, 3)]
    duration = np.empty(4)
    duration[label] = GRAPH.duration
    other = task_graph([(label[u], label[v]) for u, v in edges], duration)

    def moved(state):
        chains = tuple(tuple(label[op] for op in chain) for chain in state)
        return tuple(sorted(chains)) if config.symmetric else chains

    def all_moved(log_p):
        return {moved(state): value for state, value in log_p.items()}

    expected = {
        moved(state): decision._replace(
            forward=all_moved(decision.forward), backward=all_moved(decision.backward)
        )
        for state, decision in decided(config, GRAPH).items()
    }
    assert_close(decided(config, other), expected)


@settings(max_examples=10)
@given(name=st.permutations(range(3)), seed=st.integers(0, 10**6))
def test_names_of_devices_do_not_matter_to_encode_once(name, seed):
    inputs = padded(GRAPH, ENCODE_ONCE)
    rng = np.random.default_rng(seed)
    ways = [
        tuple(zip(GRAPH.topological_order[:count].tolist(), places.tolist(), strict=True))
        for count in range(1, 4)
        for places in rng.integers(3, size=(3, count))
    ]
    renamed = [tuple((op, name[device]) for op, device in way) for way in ways]
    params = params_of(ENCODE_ONCE)
    one = decide(ENCODE_ONCE, params, inputs, ways, num_devices=3)
    other = decide(ENCODE_ONCE, params, inputs, renamed, num_devices=3)
    assert_close(dict(enumerate(one)), dict(enumerate(other)))


def test_names_of_devices_matter_to_reencode():
    found = decided(REENCODE, GRAPH)
    first, second = (found[state].forward for state in [((1,), ()), ((), (1,))])
    assert first[((1, 3), ())] != pytest.approx(second[((), (1, 3))], abs=1e-3)


@pytest.mark.parametrize("num_devices", [1, 8])
def test_encode_once_is_for_any_number_of_devices(num_devices):
    small = task_graph([(0, 2)], [2.0, 1.0, 3.0])
    inputs = flow_inputs(small, Platform(num_devices), ENCODE_ONCE)
    found = decisions(
        ENCODE_ONCE, params_of(ENCODE_ONCE), small, num_devices=num_devices, inputs=inputs
    )
    before = flows.producers(small)
    for state, decision in found.items():
        assert set(decision.forward) == set(flows.children(state, before, symmetric=True))
        assert np.exp(list(decision.forward.values())).sum() in (0.0, pytest.approx(1.0))


@BOTH
def test_a_new_policy_is_uniform(config):
    config = dataclasses.replace(config, encoder="mlp")
    params = new_policy(config, padded(GRAPH, config))
    for decision in decisions(config, params, GRAPH, -2.0, inputs=padded(GRAPH, config)).values():
        for log_p in (decision.forward, decision.backward):
            np.testing.assert_allclose(list(log_p.values()), -np.log(max(len(log_p), 1)), atol=1e-6)
        assert decision.flow == 0.0


def test_a_new_guided_policy_schedules_critical_paths_early_when_cold():
    """Of ops 1 (3 us) and 0 (1 us), after which there is op 2 (9 us), op 0 comes first; then op 1
    elsewhere or op 2."""
    graph = task_graph([(0, 2)], [1.0, 3.0, 9.0])
    params = new_policy(GUIDED, padded(graph, GUIDED))
    cold, hot = (
        decisions(GUIDED, params, graph, np.log(t), inputs=padded(graph, GUIDED))
        for t in (0.005, 100.0)
    )
    assert np.exp(cold[((), ())].forward[((), (0,))]) > 0.99
    assert np.exp(cold[((), (0,))].forward[((), (0, 1))]) < 1e-6
    np.testing.assert_allclose(list(hot[((), ())].forward.values()), np.log(0.5), atol=0.02)


@BOTH
def test_the_temperature_is_seen(config):
    warm, cold = (decided(config, GRAPH, np.log(t))[((), ())].forward for t in (1.0, 0.01))
    assert max(abs(warm[state] - cold[state]) for state in warm) > 1e-2


def state_of(graph, way, num_devices=2):
    inputs = padded(graph)
    op, device = np.array(way, np.int32).reshape(-1, 2).T
    visited = states(inputs.problem, op, device, num_devices=num_devices)
    return inputs, jax.tree.map(lambda rows: rows[-1], visited)


def test_reencode_sees_the_features_of_the_paper():
    """E.1, with times over the mean duration, 1.875 us here; ops 4 and 5 are padding."""
    inputs, state = state_of(GRAPH, [(1, 1), (0, 0), (3, 1)])
    duration = np.append(GRAPH.duration, [0, 0]) / 1.875
    start = np.array([0, 0, -1.875, 1, -1.875, -1.875]) / 1.875
    devices = [[1, 0], [0, 1], [0, 0], [0, 1], [0, 0], [0, 0]]
    can_add, can_remove = [0, 0, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0]
    scheduled = [1, 1, 0, 1, 0, 0]
    expected = np.column_stack([duration, start, devices, can_add, can_remove, scheduled])
    np.testing.assert_allclose(reencode._features(inputs, state), expected, rtol=1e-6)


def test_encode_once_sees_what_actions_lead_to():
    """After op 1 on device 0 until 1 us, op 0 (2 us) and op 3 (1.5 us) are ready. Op 2 (3 us)
    needs op 0, so paths of 5 and 1.5 us remain. The bound is 5 us; 6.5 us of work remain."""
    inputs = padded(GRAPH, ENCODE_ONCE)
    _, state = state_of(GRAPH, [(1, 0)])
    found = encode_once.options(inputs, state, ENCODE_ONCE)
    np.testing.assert_array_equal(found.op, [0, 3, 6, 6, 6])
    np.testing.assert_array_equal(found.valid, [[True] * 2] * 2 + [[False] * 2] * 3)
    idle, late, over, beyond, shorter, duration, unused = np.moveaxis(found.features[:2], -1, 0)
    np.testing.assert_allclose(idle, [[0, 0], [0, 1 / 5]], atol=1e-6)
    np.testing.assert_allclose(late, [[1 / 5, 0], [0, 0]], atol=1e-6)
    load = 7.5 / 2
    np.testing.assert_allclose(over, (np.array([[6, 5], [2.5, 2.5]]) - load) / 5, atol=1e-6)
    np.testing.assert_allclose(beyond, [[0, -1 / 5], [0, 0]], atol=1e-6)
    np.testing.assert_allclose(shorter, [[0, 0], [3.5 / 5] * 2], atol=1e-6)
    np.testing.assert_allclose(duration, [[2 / 5] * 2, [1.5 / 5] * 2], atol=1e-6)
    np.testing.assert_array_equal(unused, [[0, 1], [0, 1]])
    gain, path, start = np.moveaxis(found.guides[:2], -1, 0)
    after = np.array([[6, 5], [load, load + 0.5]])
    np.testing.assert_allclose(gain, 7.5 / after - 7.5 / load, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(path, [[0, 0], [-3.5 / 5] * 2], atol=1e-6)
    np.testing.assert_allclose(start, [[-1 / 5, 0], [-1 / 5, -1 / 5]], atol=1e-6)
    np.testing.assert_allclose(found.devices, [[1 / 5, 0, 0, 1], [0, 1 / 5, 1, 1]], atol=1e-6)
    scheduled, latest, mean_load, rest, slack, ready = np.asarray(found.summary)
    np.testing.assert_allclose([scheduled, latest, mean_load], [1 / 4, 1 / 5, load / 5], rtol=1e-6)
    np.testing.assert_allclose([rest, slack, ready], [6.5 / 10, 1 / 5 - load / 5, 1], rtol=1e-6)


def test_masked_log_probabilities_have_finite_gradients():
    logits, valid = jnp.array([1.0, 80.0, -3.0]), jnp.array([True, False, True])

    def first(logits, valid):
        return types.masked_log_softmax(logits, valid)[0]

    expected = [-np.log1p(np.exp(-4.0)), -np.inf, -4 - np.log1p(np.exp(-4.0))]
    found = types.masked_log_softmax(logits, valid)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    share = 1 / (1 + np.exp(-4.0))
    np.testing.assert_allclose(jax.grad(first)(logits, valid), [1 - share, 0, share - 1], rtol=1e-4)
    none = jnp.zeros(3, bool)
    np.testing.assert_array_equal(types.masked_log_softmax(logits, none), -np.inf)
    only = jnp.array([True, False, False])
    np.testing.assert_array_equal(jax.grad(first)(logits * 1e4, only), 0.0)


def test_what_does_not_fit_is_an_error():
    with pytest.raises(OptionError, match="for 2 devices, not 4"):
        flow_inputs(GRAPH, Platform(4), REENCODE)
    with pytest.raises(OptionError, match="the graph has 4 ops, the policy is for at most 3"):
        flow_inputs(GRAPH, Platform(2), dataclasses.replace(ENCODE_ONCE, max_ops=3))
    flow_inputs(GRAPH, Platform(2), dataclasses.replace(ENCODE_ONCE, max_ops=4))
    with pytest.raises(OptionError, match="does not fit 3 ops"):
        flow_inputs(GRAPH, Platform(2), REENCODE, 3)
    with pytest.raises(OptionError, match="2 pairs"):
        flow_inputs(GRAPH, Platform(2), REENCODE, 4, 2)
    with pytest.raises(OptionError, match="up to 2 ready ops, which do not fit 1"):
        flow_inputs(GRAPH, Platform(2), REENCODE, 4, 3, 1)
    with pytest.raises(OptionError, match="feature_set"):
        flow_inputs(GRAPH, Platform(2), FlowConfig(num_devices=2, feature_set="none"))


def test_graphs_of_like_sizes_have_inputs_of_one_shape():
    def shapes(graph):
        return jax.tree.map(np.shape, padded_inputs(graph, Platform(2), REENCODE))

    assert shapes(GRAPH) == shapes(LAST_IS_READ)
    assert padded_inputs(GRAPH, Platform(2), REENCODE).features.shape == (8, 1)


def test_inputs_of_graphs_that_take_no_time_are_finite():
    inputs = flow_inputs(task_graph([(0, 1)], [0.0, 0.0]), Platform(2), ENCODE_ONCE)
    assert inputs.bound == 1.0
    for leaf in jax.tree.leaves(inputs):
        assert np.isfinite(leaf).all()


LARGE = DIAMOND.replace(size=np.array([10, 30, 0, 5]))


def test_upward_ranks_are_those_of_heft():
    platform = Platform(2, latency=0.5, per_byte=0.25)
    inputs = flow_inputs(LARGE, platform, ENCODE_ONCE, 8, 20, 8)
    delays, producers = 0.5 + 0.25 * LARGE.size, LARGE.edges[:, 0]
    expected = np.zeros(8)
    for op in (3, 2, 1, 0):
        after = [delays[t] + expected[v] for _, t, v in LARGE.edges[producers == op].tolist()]
        expected[op] = LARGE.duration[op] + max(after, default=0.0)
    np.testing.assert_allclose(inputs.rank, expected, rtol=1e-6)
    free = flow_inputs(LARGE, Platform(2), ENCODE_ONCE)
    np.testing.assert_array_equal(free.rank, free.tail)
