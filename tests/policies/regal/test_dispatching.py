"""The policy of rules: what it sees, and probabilities of the rules not tried."""

import jax
import numpy as np
import pytest

import regal_jax as rj
from regal_jax.environments.dispatching import rule
from regal_jax.errors import RegalError
from regal_jax.policies import base
from regal_jax.policies.regal import dispatching
from regal_jax.policies.regal.dispatching import DispatchConfig, dispatch_policy
from tests.policies.cases import chain, random_graph, random_params

CONFIG = DispatchConfig(size=8)
RULES = 5
PROBLEMS = [
    rj.PlacementProblem(random_graph(0, 12), 2),
    rj.PlacementProblem(random_graph(1, 9), 3, "makespan", latency=2.0, memory_capacity=10**6),
    rj.PlacementProblem(random_graph(2, 1), 1),
]


def random_policy(config, rules=RULES):
    """Parameters as of a file, at random."""
    rng = np.random.default_rng(0)
    pools = [rule.random_rules(rng, rules, timed=timed) for timed in (False, True)]
    network = random_params(lambda key: dispatch_policy(config).init(key, rules), jax.random.key(0))
    return {"rules": np.stack(pools).astype(np.float32), "network": network}


def features_of(problem):
    return dispatching.features_of(problem, rule.columns(problem))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_features_are_finite(problem):
    found = features_of(problem)
    assert found.shape == (dispatching.NUM_FEATURES,)
    assert found.dtype == np.float32
    assert np.all(np.isfinite(found))


def test_sizes_and_durations_have_no_unit():
    """Bytes and us count relative to the graph's own."""
    graph = random_graph(3, 20)
    larger = graph.replace(
        size=graph.size * 64, workspace=graph.workspace * 64, duration=graph.duration * 8.0
    )
    for objective in ("peak_memory", "makespan"):
        one, other = (features_of(rj.PlacementProblem(g, 2, objective)) for g in (graph, larger))
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_transfers_are_seen_beside_work_and_paths():
    """A chain of three ops, 2 us each; both transfers that there can be take 10 us."""
    graph = chain(3).replace(duration=np.full(3, 2.0))
    problem = rj.PlacementProblem(graph, 2, "makespan", latency=10.0, memory_capacity=10)
    live = rule.live_bytes(graph)
    found = dispatching._of_transfers(problem, rule.columns(problem), live)
    path, late, bound, least, total = np.log([1.0, 26 / 6, 1.0, 10 / 6, 20 / 6]) / 3.0
    apart = np.log1p(5.0) / 3.0
    expected = [np.log(10 / 5), path, late, bound, least, total, 1.0, *[apart] * 4]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    free = rj.PlacementProblem(graph, 2)
    assert dispatching._of_transfers(free, rule.columns(free), live).tolist() == [3.0, *[0.0] * 10]


def test_transfers_that_never_end_have_finite_features():
    most = np.finfo(float).max
    for price in ({"latency": most}, {"per_byte": most}):
        with np.errstate(over="ignore"):
            found = features_of(rj.PlacementProblem(chain(4), 2, "makespan", **price))
        assert np.all(np.isfinite(found))


def test_devices_are_told_apart_up_to_the_next_power_of_two():
    counts = [1, 2, 3, 4, 5, 8, 64]
    found = [int(np.argmax(dispatching._of_devices(count))) for count in counts]
    assert found == [0, 1, 2, 2, 3, 3, 3]


def test_graphs_platforms_and_objectives_differ():
    graph = random_graph(3, 20)
    seen = [
        features_of(problem).tolist()
        for problem in (
            rj.PlacementProblem(graph, 2),
            rj.PlacementProblem(graph, 4),
            rj.PlacementProblem(graph, 2, "makespan"),
            rj.PlacementProblem(graph, 2, "makespan", latency=3.0),
            rj.PlacementProblem(graph, 2, "makespan", memory_capacity=500),
            rj.PlacementProblem(random_graph(4, 20), 2),
        )
    ]
    assert len({tuple(one) for one in seen}) == len(seen)


@pytest.mark.parametrize("objective", [0, 1])
def test_probabilities_are_of_rules_not_tried_and_read_what_was_found(objective):
    policy = dispatch_policy(CONFIG)
    params = jax.tree.map(lambda leaf: leaf[objective], random_policy(CONFIG)["network"])
    features = features_of(PROBLEMS[0])
    nothing = np.zeros(RULES, bool)
    done = np.array([True, False, True, False, False])
    costs = np.array([5.0, 0.0, 7.0, 0.0, 0.0], np.float32)

    def log_prob(costs, done, features=features):
        return np.asarray(policy.log_prob(params, features, costs, done))

    first, later = log_prob(costs, nothing), log_prob(costs, done)
    assert np.exp(first).sum() == pytest.approx(1.0, abs=1e-5)
    assert np.exp(later[~done]).sum() == pytest.approx(1.0, abs=1e-5)
    assert np.all(later[done] == -np.inf)
    np.testing.assert_array_equal(first, log_prob(2.0 * costs + 1.0, nothing))
    np.testing.assert_allclose(later, log_prob(1e6 * costs, done), rtol=1e-3, atol=1e-4)
    assert not np.allclose(later, log_prob(costs[::-1], done[::-1]))
    assert not np.allclose(first, log_prob(costs, nothing, features_of(PROBLEMS[1])))


def test_dropout_needs_a_key():
    policy = dispatch_policy(DispatchConfig(size=32))
    params = jax.tree.map(lambda leaf: leaf[0], random_policy(DispatchConfig(size=32))["network"])
    features, costs, done = features_of(PROBLEMS[0]), np.ones(RULES), np.zeros(RULES, bool)
    keys = [None, None, *jax.random.split(jax.random.key(0), 2)]
    found = [np.asarray(policy.log_prob(params, features, costs, done, key)) for key in keys]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])
    assert not np.allclose(found[2], found[3])


def test_costs_count_as_logarithms_over_the_best():
    done = np.array([True, True, False, True])
    costs = np.array([2.0, 2.0 * np.exp(0.1), 1.0, 1e9], np.float32)
    found = dispatching.log_over_best(costs, done)
    np.testing.assert_allclose(found, [0.0, 0.1, 0.0, dispatching.WORST], atol=1e-6)
    assert not np.any(dispatching.log_over_best(costs, np.zeros(4, bool)))
    zero = dispatching.log_over_best(np.array([0.0, 0.0], np.float32), np.array([True, True]))
    assert not np.any(zero)


def test_parameters_of_another_network_are_refused():
    network = jax.tree.map(lambda leaf: leaf[0], random_policy(CONFIG)["network"])
    features, nothing = features_of(PROBLEMS[0]), np.zeros(RULES, bool)
    found = base.call(CONFIG, "log_prob", network, features, np.zeros(RULES, np.float32), nothing)
    assert np.all(np.isfinite(found))
    other = {"params": {"Dense_0": network["params"]["Dense_0"]}}
    for params in (jax.tree.map(lambda leaf: leaf[1:], network), other, {}):
        with pytest.raises(RegalError, match="parameters aren't of this version's network"):
            base.call(CONFIG, "log_prob", params, features, np.zeros(RULES, np.float32), nothing)
