"""Exact distributions over complete schedules, against plain Python's."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.construction import enumeration
from regal_jax.environments.platform import Platform
from regal_jax.policies.gflownet import exact
from regal_jax.policies.gflownet.policy import flow_inputs
from tests.oracles import flows
from tests.policies.gflownet.cases import (
    ENCODE_ONCE,
    GRAPH,
    REENCODE,
    decisions,
    log_rewards,
    random_policy,
    terminal_distribution,
)
from tests.strategies import computation_graphs

BOTH = pytest.mark.parametrize("config", [ENCODE_ONCE, REENCODE], ids=["encode_once", "reencode"])


def padded(graph, config):
    return flow_inputs(graph, Platform(2), config, 6, 16, 6)


@functools.cache
def params_of(config):
    return random_policy(config, padded(GRAPH, config))


def distribution(graph, config, log_temperature):
    """(probabilities, makespans) of all complete schedules."""
    inputs = padded(graph, config)
    levels = enumeration.levels(inputs.problem, 2, symmetric=config.symmetric)
    params = params_of(config)
    found = exact.log_probabilities(params, inputs, log_temperature, levels, policy=config)
    return np.exp(found), exact.makespans(inputs.problem, levels)


@BOTH
@settings(max_examples=10)
@given(graph=computation_graphs(4), log_temperature=st.floats(-3.0, 0.7))
def test_probabilities_are_the_sums_over_all_ways(config, graph, log_temperature):
    found, makespan = distribution(graph, config, log_temperature)
    decided = decisions(
        config, params_of(config), graph, log_temperature, inputs=padded(graph, config)
    )
    ends = terminal_distribution(decided, graph.num_ops)
    assert found.sum() == pytest.approx(1.0, abs=1e-4)
    np.testing.assert_allclose(sorted(found), sorted(ends.values()), atol=1e-5)
    wanted = [flows.makespan(state, graph) for state in ends]
    np.testing.assert_allclose(sorted(makespan), sorted(wanted), rtol=1e-5)
    mean = sum(p * flows.makespan(state, graph) for state, p in ends.items())
    assert found @ makespan == pytest.approx(mean, rel=1e-3, abs=1e-5)


def test_a_temperature_makes_rewards_a_distribution():
    every = flows.layers(flows.producers(GRAPH), 2, symmetric=True)[-1]
    rewards = log_rewards(every, GRAPH, 2, 0.1)
    found = exact.boltzmann(rewards)
    np.testing.assert_allclose(found, np.exp(rewards) / np.exp(rewards).sum())
    assert exact.boltzmann(rewards - 1e6).sum() == pytest.approx(1.0)


def test_total_variation():
    one, other = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.25, 0.75])
    assert exact.total_variation(one, other) == pytest.approx(0.75)
    assert exact.total_variation(one, one) == 0.0
