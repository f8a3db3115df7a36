"""REGAL's variant with a sequence encoder (GAS)."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.graphs.batching import exact_shape
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.training.regal_search import learned_search
from tests.policies.cases import inputs_of, random_graph, random_params

CONFIG = RegalConfig(size=4, rounds=2)
GAS = dataclasses.replace(CONFIG, encoder="sequence")
GRAPH = random_graph(0, 6)
PROBLEM = PlacementProblem(GRAPH, 2, "makespan", shape=exact_shape(GRAPH))
INPUTS = inputs_of(PROBLEM.graph)
KEY = jax.random.key(3)


def params_of(config):
    return random_params(config.policy.init, jax.random.key(0), INPUTS)


@jax.jit
def searched(params):
    """190 evaluations steered by GAS's most likely actions."""
    actions, space = GAS.policy.mode(params, INPUTS), GAS.space
    part = functools.partial(learned_search, KEY, PROBLEM.spec, PROBLEM.operand, 190)
    return part(inputs=INPUTS, actions=actions, space=space)


def test_gas_is_regal_with_another_encoder():
    result = searched(params_of(GAS))
    assert result.history.shape == (2,)
    assert result.state.best()[1] == result.history[-1]
    graph_parts, sequence_parts = (params_of(config)["params"] for config in (CONFIG, GAS))
    assert set(graph_parts) ^ set(sequence_parts) == {"MessagePassing_0", "SequenceEncoder_0"}
    np.testing.assert_array_equal(
        jax.tree.map(jnp.shape, graph_parts["MLP_0"]),
        jax.tree.map(jnp.shape, sequence_parts["MLP_0"]),
    )
