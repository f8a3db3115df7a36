"""IDRS: random sampling of a policy's distributions, in BRKGA's place."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.graphs.batching import exact_shape
from regal_jax.methods import evolution, regal_paper
from regal_jax.options import Budget
from regal_jax.policies.regal import beta_mutants
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.search.evolution import brkga
from tests.policies.cases import inputs_of, random_graph, random_params

CONFIG = RegalConfig(size=4, rounds=2)
GRAPH = random_graph(0, 6)
PROBLEM = PlacementProblem(GRAPH, 2, "makespan", shape=exact_shape(GRAPH))
INPUTS = inputs_of(PROBLEM.graph)
KEY = jax.random.key(3)


def actions_of(config):
    params = random_params(config.policy.init, jax.random.key(0), INPUTS)
    return config.policy.mode(params, INPUTS)


def idrs(config):
    mutants = regal_paper.learned_mutants(config.space, len(INPUTS.producer))
    params = (jnp.asarray(actions_of(config)), INPUTS.pinned)
    return evolution.sample(PROBLEM, Budget(250), KEY, mutants=mutants, params=params)


def test_idrs_is_the_best_of_the_learned_mutants():
    found = idrs(CONFIG)
    sample = beta_mutants.learned_mutants(
        actions_of(CONFIG), CONFIG.space, len(INPUTS.producer), INPUTS.pinned
    )
    first, step, last = jax.random.split(KEY, 3)
    keys = [(first, 100), (jax.random.fold_in(step, 0), 100), (last, 50)]
    samples = np.concatenate([sample(key, count) for key, count in keys])
    costs = PROBLEM.fitness(samples)
    assert [spent for spent, _ in found.history] == [100, 200, 250]
    np.testing.assert_allclose(
        [cost for _, cost in found.history],
        np.minimum.accumulate([costs[:n].min() for n in (100, 200, 250)]),
    )
    assert found.schedule == PROBLEM.decode(samples[costs.argmin()])


def test_idrs_of_uniform_distributions_is_random_search():
    """A space without choices has only Beta(1, 1); both searches are pinned."""
    config = dataclasses.replace(CONFIG, placement=False, scheduling=False, elite_bias=True)
    uniform = brkga.uniform_mutants(PROBLEM.num_genes)

    def pinned(_):
        return lambda key, count: beta_mutants.pin(uniform(key, count), INPUTS.pinned, 2)

    plain, found = evolution.sample(PROBLEM, Budget(250), KEY, mutants=pinned), idrs(config)
    assert found.history == plain.history
    assert found.schedule == plain.schedule
    np.testing.assert_array_equal(found.population, plain.population)
