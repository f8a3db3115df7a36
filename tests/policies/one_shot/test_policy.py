"""One-shot priorities: what the policy sees of a graph, and what a new one does."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from regal_jax.datasets.job_shop import uniform_job_shops
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.features.rcpsp import machine_features, places
from regal_jax.graphs.features.relations import relations
from regal_jax.policies.one_shot.policy import OneShotConfig, one_shot_policy
from regal_jax.policies.topological_order.policy import OrderingConfig, ordering_policy
from regal_jax.search.rcpsp import rules
from regal_jax.training.one_shot_inputs import one_shot_inputs
from regal_jax.training.ordering_inputs import ordering_inputs
from tests.policies.cases import random_params

TINY = OneShotConfig(
    encoder="topoformer_edges", layers=1, size=6, heads=1, head_size=3, dimensions=2, num_types=3
)
GUIDED = dataclasses.replace(TINY, guided=True, feature_set="extended")
GRAPH, OTHER = uniform_job_shops(3, 3, count=2)


@functools.cache
def params(config: OneShotConfig):
    policy = one_shot_policy(config)
    return random_params(policy.init, jax.random.key(0), one_shot_inputs(GRAPH, config))


def logits(config: OneShotConfig, inputs, found=None) -> np.ndarray:
    encode = jax.jit(one_shot_policy(config).encode)
    return np.asarray(encode(found or params(config), inputs))


def test_the_default_is_the_policy_of_the_paper():
    """F.2, F.3: the encoder's defaults and an encoding of 20 numbers, each op's type one of 20."""
    config = OneShotConfig(num_types=20)
    assert (config.layers, config.size, config.heads, config.head_size) == (4, 256, 10, 64)
    assert (config.encoder, config.guided, config.standardised) == ("topoformer", False, False)
    assert (config.dimensions, config.feature_set, config.generation) == (20, "paper", "parallel")


@pytest.mark.parametrize("config", [TINY, dataclasses.replace(TINY, feature_set="extended")])
def test_inputs_are_features_and_relations(config):
    exact = one_shot_inputs(GRAPH, config)
    expected = machine_features(GRAPH, dimensions=2, feature_set=config.feature_set, num_types=3)
    np.testing.assert_array_equal(exact.features, expected)
    jax.tree.map(np.testing.assert_array_equal, exact.relations, relations(GRAPH))
    padded = one_shot_inputs(GRAPH, config, 12, 16)
    np.testing.assert_array_equal(padded.features[:9], expected)
    assert not padded.features[9:].any()
    jax.tree.map(np.testing.assert_array_equal, padded.relations, relations(GRAPH, 12, 16))


def test_only_an_encoder_with_heads_for_machines_gets_machine_types():
    config = dataclasses.replace(TINY, encoder="topoformer_machines")
    found = one_shot_inputs(GRAPH, config, 12, 16).relations.machine_type
    np.testing.assert_array_equal(found, [*GRAPH.machine_type, -1, -1, -1])
    without = dataclasses.replace(config, heads_by_relation="same_machine=0")
    assert one_shot_inputs(GRAPH, without).relations.machine_type is None


@pytest.mark.parametrize(
    "config", [TINY, GUIDED, dataclasses.replace(TINY, encoder="topoformer_machines", heads=2)]
)
def test_padding_changes_no_logit_and_has_0(config):
    exact = logits(config, one_shot_inputs(GRAPH, config))
    padded = logits(config, one_shot_inputs(GRAPH, config, 16, 32))
    np.testing.assert_allclose(padded[:9], exact, rtol=1e-4, atol=1e-5)
    assert not padded[9:].any()
    assert np.ptp(exact) > 0.01


def test_standardised_logits():
    """Mean 0 and deviation 5 of the real ops (eq. 17 of neural_topological_ordering)."""
    config = dataclasses.replace(TINY, standardised=True)
    plain = logits(TINY, one_shot_inputs(GRAPH, TINY))
    found = logits(config, one_shot_inputs(GRAPH, config, 12, 16), params(TINY))
    np.testing.assert_allclose(found[:9], 5 * (plain - plain.mean()) / plain.std(), rtol=1e-3)
    assert not found[9:].any()


def test_the_best_rule_has_the_shortest_schedule():
    for graph in (GRAPH, OTHER):
        problem = MachineProblem(graph)
        of_rule = {
            name: problem.makespans(rules.genes(rule(graph))[None])[0]
            for name, rule in rules.RULES.items()
        }
        assert problem.makespans(rules.shortest(problem).genes[None])[0] == min(of_rule.values())
        assert len(set(of_rule.values())) > 1


def test_a_new_guided_policy_does_what_the_best_rule_does():
    inputs = one_shot_inputs(OTHER, GUIDED, 12, 16)
    assert inputs.features.shape == (12, 1 + 19 + 2)
    fresh = jax.jit(one_shot_policy(GUIDED).init)(jax.random.key(0), inputs)
    found = logits(GUIDED, inputs, fresh)[:9]
    problem = MachineProblem(OTHER)
    best = rules.shortest(problem).genes
    np.testing.assert_allclose(found, 20 * places(best), rtol=1e-6)
    expected = problem.makespans(best[None])
    np.testing.assert_array_equal(problem.makespans(found[None]), expected)


def test_a_guided_policy_can_learn():
    """All parameters of the head have a gradient, and then those of the encoder."""
    inputs, policy = one_shot_inputs(GRAPH, GUIDED), one_shot_policy(GUIDED)

    def loss(found):
        return (policy.encode(found, inputs) ** 2).sum()

    gradient = jax.jit(jax.grad(loss))(params(GUIDED))
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradient["params"]["head"]))
    assert float(np.abs(gradient["params"]["guide"])) > 0


def test_a_graph_that_does_not_fit():
    with pytest.raises(OptionError, match="does not fit"):
        one_shot_inputs(GRAPH, TINY, 8, 20)
    with pytest.raises(OptionError, match="machine type 2, the policy is for 2 types"):
        one_shot_inputs(GRAPH, dataclasses.replace(TINY, num_types=2))


def test_orders_of_one_device_have_no_machines():
    """The encoder with heads for machines is for machine problems."""
    config = OrderingConfig(encoder="topoformer_machines", layers=1, size=4, heads=1, head_size=2)
    with pytest.raises(OptionError, match="needs relations with machine types"):
        jax.eval_shape(
            ordering_policy(config).init, jax.random.key(0), ordering_inputs(GRAPH, config)
        )
