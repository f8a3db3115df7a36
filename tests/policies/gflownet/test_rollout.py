"""Drawing schedules: complete and feasible ones, as often as the policy says, and as likely."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from regal_jax.datasets.task_graphs import task_graph
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.policies.gflownet import rollout
from regal_jax.policies.gflownet.policy import flow_inputs, flow_policy
from regal_jax.policies.gflownet.types import FlowLogits
from regal_jax.search.orders import rules
from tests.policies.gflownet.cases import (
    ENCODE_ONCE,
    GRAPH,
    REENCODE,
    decisions,
    random_policy,
    terminal_distribution,
)
from tests.strategies import computation_graphs

OPS, EDGES, COUNT = 8, 32, 20
GUIDED = dataclasses.replace(ENCODE_ONCE, guided=True)
BOTH = pytest.mark.parametrize("config", [GUIDED, REENCODE], ids=["encode_once", "reencode"])
STAR = task_graph([(0, op) for op in range(1, 7)], np.arange(7.0))
CHAIN = task_graph([(op, op + 1) for op in range(7)], [1.0] * 8)
SEPARATE = task_graph([], [3.0, 1.0, 2.0, 0.0])


def padded(graph, config, platform=None):
    return flow_inputs(graph, platform or Platform(2), config, OPS, EDGES, OPS)


@functools.cache
def params_of(config):
    return random_policy(config, padded(CHAIN, config))


@functools.partial(jax.jit, static_argnames=("config", "count"))
def sample(params, key, inputs, log_temperature, *, config, count=COUNT):
    return rollout.sample(
        flow_policy(config), params, key, inputs, log_temperature, num_devices=2, count=count
    )


@functools.partial(jax.jit, static_argnames="config")
def likelihood(params, inputs, log_temperature, op, device, *, config):
    """(Likelihood, the gradient of the sum of all that it has)."""

    def total(params):
        found = rollout.likelihood(
            flow_policy(config), params, inputs, log_temperature, op, device, num_devices=2
        )
        return sum(jnp.sum(part) for part in found), found

    gradient, found = jax.grad(total, has_aux=True)(params)
    return found, gradient


@BOTH
@settings(max_examples=30)
@given(
    graph=computation_graphs(OPS),
    seed=st.integers(0, 999),
    latency=st.sampled_from([0, 3]),
    log_temperature=st.floats(-5.3, 0.7),
)
@example(STAR, 0, 0, 0.0)
@example(CHAIN, 0, 3, 0.0)
@example(SEPARATE, 0, 0, -5.3)
@example(task_graph([(0, 1)], [0.0, 0.0, 0.0]), 0, 0, 0.0)
@example(task_graph([(0, 1)], [0.0, 0.0, 0.0]), 0, 3, 0.0)
def test_schedules_are_complete_and_feasible(config, graph, seed, latency, log_temperature):
    platform = Platform(2, latency=latency, per_byte=0.25 * latency)
    inputs, num_ops = padded(graph, config, platform), graph.num_ops
    key, log_temperature = jax.random.key(seed), jnp.float32(log_temperature)
    drawn = sample(params_of(config), key, inputs, log_temperature, config=config)
    problem = PlacementProblem.on(graph, platform, "makespan")
    assert (np.asarray(drawn.op)[:, num_ops:] == OPS).all()
    for op, start, place, makespan in zip(
        drawn.op, drawn.start, drawn.device_of, drawn.makespan, strict=True
    ):
        order, placement = np.asarray(op)[:num_ops], np.asarray(place)[:num_ops]
        assert sorted(order.tolist()) == list(range(num_ops))
        schedule = rules.build_schedule(
            graph, order, placement, objective="makespan", num_devices=2
        )
        exact = problem.costed(schedule)  # raises if an op comes before what it reads
        np.testing.assert_allclose(start[:num_ops], exact.start, rtol=1e-6)
        assert makespan == pytest.approx(exact.makespan, rel=1e-6)


def states_of(op, device, *, symmetric):
    """Chains before each step and at the end, without padding."""
    chains, found = ((), ()), []
    for o, d in zip(op.tolist(), device.tolist(), strict=True):
        found.append(chains)
        if o < OPS:
            chains = tuple((*c, o) if at == d else c for at, c in enumerate(chains))
    found.append(chains)
    return [tuple(sorted(chains)) if symmetric else chains for chains in found]


@BOTH
def test_likelihoods_are_those_of_the_states_one_by_one(config):
    inputs, params = padded(GRAPH, config), params_of(config)
    drawn = sample(params, jax.random.key(0), inputs, jnp.float32(-1.0), config=config)
    known = inputs, jnp.float32(-1.0)
    found, _ = likelihood(params, *known, drawn.op, drawn.device, config=config)
    decided = decisions(config, params, GRAPH, -1.0, inputs=inputs)
    for row in range(COUNT):
        visited = states_of(drawn.op[row], drawn.device[row], symmetric=config.symmetric)
        for step in range(OPS):
            got = [float(part[row, step]) for part in found]
            if step >= GRAPH.num_ops:
                assert got == [0.0] * 4
                continue
            here, after = visited[step], visited[step + 1]
            log_p = np.array(list(decided[here].forward.values()))
            expected = [
                decided[here].forward[after],
                decided[after].backward[here],
                decided[here].flow,
                -np.sum(np.exp(log_p) * log_p),
            ]
            np.testing.assert_allclose(got, expected, atol=1e-5)


@BOTH
def test_schedules_are_drawn_as_often_as_the_policy_says(config):
    inputs, params = padded(GRAPH, config), params_of(config)
    decided = decisions(config, params, GRAPH, 0.0, inputs=inputs)
    expected = terminal_distribution(decided, GRAPH.num_ops)
    count = 5000
    drawn = sample(params, jax.random.key(1), inputs, jnp.float32(0), config=config, count=count)
    seen = dict.fromkeys(expected, 0)
    for op, device in zip(np.asarray(drawn.op), np.asarray(drawn.device), strict=True):
        seen[states_of(op, device, symmetric=config.symmetric)[-1]] += 1
    often = [state for state in expected if count * expected[state] > 5]
    rare = count - sum(seen[state] for state in often)
    probability = np.array([expected[state] for state in often])
    found = chisquare(
        [*(seen[state] for state in often), rare],
        count * np.append(probability, 1 - probability.sum()),
    )
    assert len(often) > 10
    assert found.pvalue > 1e-3


@BOTH
def test_gradients_are_finite(config):
    """Also where one action is valid, nothing takes time, or it is cold."""
    params = params_of(config)
    graphs = [GRAPH, CHAIN, STAR, task_graph([(0, 1)], [0.0, 0.0]), task_graph([], [1.0])]
    largest = 0.0
    for graph in graphs:
        inputs = padded(graph, config)
        for temperature in (0.005, 1.0):
            known = inputs, jnp.float32(np.log(temperature))
            drawn = sample(params, jax.random.key(0), *known, config=config)
            found, slopes = likelihood(params, *known, drawn.op, drawn.device, config=config)
            for leaf in jax.tree.leaves((found, slopes)):
                assert np.isfinite(leaf).all()
            for leaf in jax.tree.leaves(slopes):
                largest = max(largest, np.abs(leaf).max())
    assert largest > 0.1


def test_states_of_a_trajectory():
    inputs = padded(GRAPH, REENCODE)
    op, device = np.array([1, 0, 3, 2, 8, 8, 8, 8]), np.array([1, 0, 1, 0, 0, 0, 0, 0])
    found = rollout.states(inputs.problem, op, device, num_devices=2)
    np.testing.assert_array_equal(
        found.last[:6], [[-1, -1], [-1, 1], [0, 1], [0, 3], [2, 3], [2, 3]]
    )
    assert len(found.last) == OPS + 1


def chosen(forward, uniform):
    """(ops, devices) for every uniform number, of rows for the ops 5, 6, ..."""
    op = jnp.arange(5, 5 + len(forward))
    found = FlowLogits(op=op, forward=jnp.asarray(forward), backward=jnp.zeros(2), flow=0.0)
    choose = functools.partial(rollout._chosen, found, num_ops=99)
    return np.array(jax.vmap(choose)(jnp.asarray(uniform, jnp.float32)))


def test_uniform_numbers_choose_in_proportion_to_probabilities():
    probability = np.array([[0.0, 0.25], [0.05, 0.0], [0.7, 0.0]])
    with np.errstate(divide="ignore"):
        forward = np.log(probability).astype(np.float32)
    op, device = chosen(forward, (np.arange(2000) + 0.5) / 2000)
    found = np.zeros_like(probability)
    np.add.at(found, (op - 5, device), 1 / 2000)
    np.testing.assert_allclose(found, probability, atol=1e-3)
    extremes = chosen(forward - 3.0, [0.0, np.nextafter(np.float32(1), np.float32(0))])
    assert extremes.tolist() == [[5, 7], [1, 0]]


def test_without_actions_none_is_chosen():
    op, _ = chosen(np.full((3, 2), -np.inf, np.float32), [0.0, 0.5])
    assert op.tolist() == [99, 99]
