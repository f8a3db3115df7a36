"""Networks of choices: probabilities over a choice, as compiled kernels have them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax import registry
from regal_jax.datasets.job_shop import uniform_job_shops
from regal_jax.datasets.layered import layered_graph
from regal_jax.environments.sequencing.choices import SEQUENCING
from regal_jax.policies.choosing import NOISE, RULE, NextOpConfig, SequencingConfig
from regal_jax.search.orders.choices import NEXT_OP

CASES = [
    (SEQUENCING, SequencingConfig(size=6), uniform_job_shops(7, 5, count=1)[0]),
    (NEXT_OP, NextOpConfig(), layered_graph(0, 60)),
]


@pytest.mark.parametrize(("environment", "config", "graph"), CASES)
def test_probabilities_are_of_the_choice_alone(environment, config, graph):
    policy = registry.make_policy(config)
    params = policy.init(jax.random.key(0))
    rows = jax.random.normal(jax.random.key(1), (5, len(environment.kernel.NAMES)))
    found = policy.log_prob(params, rows, jnp.int32(3))
    assert np.all(np.isneginf(found[3:]))
    np.testing.assert_allclose(np.exp(found[:3]).sum(), 1.0, rtol=1e-6)
    other = policy.log_prob(params, rows.at[3:].set(7.0), jnp.int32(3))
    np.testing.assert_array_equal(found, other)


@pytest.mark.parametrize(("environment", "config", "graph"), CASES)
def test_kernels_choose_what_is_most_likely(environment, config, graph):
    policy, columns = registry.make_policy(config), environment.columns(graph)
    params = policy.init(jax.random.key(0))
    order = environment.drawn(columns, policy.network(params), np.zeros(1, np.uint64), 0.0)[0][0]
    found = environment.choices(columns, order)
    assert len(found.counts) > 5
    log_probs = jax.vmap(policy.log_prob, (None, 0, 0))(params, found.rows, found.counts)
    np.testing.assert_array_equal(found.chosen, np.argmax(log_probs, axis=1))


@pytest.mark.parametrize(("environment", "config", "graph"), CASES)
def test_first_choices_are_drawn_by_their_probabilities(environment, config, graph):
    """Chi-square of the first choice's op over many samples."""
    policy, columns = registry.make_policy(config), environment.columns(graph)
    params = policy.init(jax.random.key(3))
    seeds = np.random.default_rng(0).integers(2**63, size=400).astype(np.uint64)
    orders, _ = environment.drawn(columns, policy.network(params), seeds, 1.0)
    firsts = [environment.choices(columns, order) for order in orders]
    count = int(firsts[0].counts[0])
    chosen = np.bincount([found.chosen[0] for found in firsts], minlength=count)
    expected = 400 * np.exp(policy.log_prob(params, firsts[0].rows[0], count))[:count]
    likely = expected >= 5
    statistic = np.sum((chosen - expected)[likely] ** 2 / expected[likely])
    assert statistic < likely.sum() + 4 * np.sqrt(2 * likely.sum())


def test_a_network_with_a_rule_begins_as_that_rule():
    params = registry.make_policy(NextOpConfig()).init(jax.random.key(0))
    network = registry.make_policy(NextOpConfig()).network(params)
    rule = NEXT_OP.linear({name: weight / NOISE for name, weight in RULE.items()})
    columns, seeds = NEXT_OP.columns(layered_graph(0, 60)), np.arange(4, dtype=np.uint64)
    for one, other in zip(
        NEXT_OP.drawn(columns, network, seeds, 1.0),
        NEXT_OP.drawn(columns, rule, seeds, 1.0),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
