"""REGAL's variants: random sampling in BRKGA's place (IDRS), and a sequence encoder (GAS)."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.placement import cost
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.policies.regal import beta_mutants, policy
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.search.evolution import brkga
from regal_jax.search.evolution.random_search import random_search
from tests.policies.cases import inputs_of, random_graph, random_params

CONFIG = RegalConfig(size=4, rounds=2)
GAS = dataclasses.replace(CONFIG, encoder="sequence")
PROBLEM = PlacementProblem(random_graph(0, 6), 2, "makespan")
INPUTS = inputs_of(PROBLEM.graph)
KEY = jax.random.key(3)


def params_of(config):
    return random_params(config.policy.init, jax.random.key(0), INPUTS)


def run(search, config, evaluations):
    """The search on the problem, jitted."""
    part = functools.partial(search, inputs=INPUTS, config=config)
    model, operand = PROBLEM.cost_model(), PROBLEM.operand()
    return jax.jit(lambda params: part(params, KEY, model, operand, evaluations))(params_of(config))


def test_idrs_is_the_best_of_the_learned_mutants():
    best, history = run(policy.instance_dependent_random_search, CONFIG, 250)
    assert history.shape == (3,)
    assert np.all(np.diff(history) <= 0)
    actions = CONFIG.policy.mode(params_of(CONFIG), INPUTS)
    sample = beta_mutants.learned_mutants(
        actions, CONFIG.space, len(INPUTS.producer), INPUTS.pinned
    )
    samples = np.concatenate(
        [sample(jax.random.fold_in(KEY, n), min(100, 250 - n)) for n in (0, 100, 200)]
    )
    costs = PROBLEM.fitness(samples)
    np.testing.assert_allclose(
        history, np.minimum.accumulate([costs[:n].min() for n in (100, 200, 250)])
    )
    np.testing.assert_allclose(best, samples[costs.argmin()], rtol=1e-6)


def test_idrs_of_uniform_distributions_is_random_search():
    """A space without choices has only Beta(1, 1); both searches are pinned."""
    config = dataclasses.replace(CONFIG, placement=False, scheduling=False, elite_bias=True)
    found = run(policy.instance_dependent_random_search, config, 250)
    uniform = brkga.uniform_mutants(PROBLEM.num_genes)
    model, operand = PROBLEM.cost_model(), PROBLEM.operand()

    @jax.jit
    def plain(key):
        return random_search(
            key,
            lambda chromosomes: cost.costs(model, operand, chromosomes),
            lambda key, count: beta_mutants.pin(uniform(key, count), INPUTS.pinned, 2),
            250,
        )

    jax.tree.map(np.testing.assert_array_equal, found, plain(KEY))


def test_gas_is_regal_with_another_encoder():
    result = run(policy.regal_search, GAS, 190)
    assert result.history.shape == (2,)
    assert result.state.best()[1] == result.history[-1]
    graph_parts, sequence_parts = (params_of(config)["params"] for config in (CONFIG, GAS))
    assert set(graph_parts) ^ set(sequence_parts) == {"MessagePassing_0", "SequenceEncoder_0"}
    np.testing.assert_array_equal(
        jax.tree.map(jnp.shape, graph_parts["MLP_0"]),
        jax.tree.map(jnp.shape, sequence_parts["MLP_0"]),
    )
