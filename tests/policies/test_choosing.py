"""Networks of choices: probabilities over a conflict, as compiled kernels have them."""

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.datasets.job_shop import uniform_job_shops
from regal_jax.environments.sequencing import choices
from regal_jax.environments.sequencing.kernel import FEATURES
from regal_jax.policies.choosing import SequencingConfig

POLICY = registry.make_policy(SequencingConfig(size=6))
PARAMS = POLICY.init(jax.random.key(0))


def test_probabilities_are_of_the_conflict_alone():
    rows = jax.random.normal(jax.random.key(1), (5, FEATURES))
    found = POLICY.log_prob(PARAMS, rows, jnp.int32(3))
    assert np.all(np.isneginf(found[3:]))
    np.testing.assert_allclose(np.exp(found[:3]).sum(), 1.0, rtol=1e-6)
    other = POLICY.log_prob(PARAMS, rows.at[3:].set(7.0), jnp.int32(3))
    np.testing.assert_array_equal(found, other)


def test_kernels_choose_what_is_most_likely():
    columns = choices.columns(uniform_job_shops(7, 5, count=1)[0])
    order = choices.sequences(columns, POLICY.network(PARAMS), np.zeros(1, np.uint64), 0.0)[0][0]
    found = choices.choices(columns, order)
    log_probs = jax.vmap(POLICY.log_prob, (None, 0, 0))(PARAMS, found.rows, found.counts)
    np.testing.assert_array_equal(found.chosen, np.argmax(log_probs, axis=1))
