import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.datasets.task_graphs import task_graph
from regal_jax.training import flow_objectives
from regal_jax.training.flow_objectives import Flows
from tests.oracles import flows as oracle

GRAPH = task_graph([(0, 2), (1, 2), (1, 3)], [2.0, 1.0, 3.0, 1.0])
DEVICES, TEMPERATURE = 2, 0.5


def log_reward(state):
    speedup = GRAPH.duration.sum() / oracle.makespan(state, GRAPH)
    return (speedup - DEVICES) / TEMPERATURE


def all_trajectories(symmetric):
    """Every sequence of states from the empty schedule to a complete one."""
    before = oracle.producers(GRAPH)
    paths = [[((),) * DEVICES]]
    for _ in before:
        paths = [
            [*path, child]
            for path in paths
            for child in oracle.children(path[-1], before, symmetric=symmetric)
        ]
    return paths


def exact_flows(symmetric, padding=0):
    """Flows of all trajectories of the flow that is exact for uniform backward probabilities."""
    before = oracle.producers(GRAPH)
    flow = oracle.uniform_backward_flows(GRAPH, DEVICES, log_reward, symmetric=symmetric)
    forward, backward = [], []
    for path in all_trajectories(symmetric):
        back = [
            -np.log(len(oracle.parents(after, before, symmetric=symmetric))) for after in path[1:]
        ]
        steps = list(zip(path, path[1:], back, strict=False))
        forward.append([np.log(flow[b] / flow[a]) + back for a, b, back in steps])
        backward.append(back)
    pad = [(0, 0), (0, padding)]
    return Flows(
        log_forward=jnp.asarray(np.pad(forward, pad), jnp.float32),
        log_backward=jnp.asarray(np.pad(backward, pad), jnp.float32),
        log_reward=jnp.asarray([log_reward(path[-1]) for path in all_trajectories(symmetric)]),
        log_partition=jnp.float32(np.log(flow[((),) * DEVICES])),
    )


@pytest.mark.parametrize("name", flow_objectives.OBJECTIVES)
@pytest.mark.parametrize("symmetric", [False, True])
def test_exact_flows_cost_nothing(name, symmetric):
    assert float(flow_objectives.OBJECTIVES[name](exact_flows(symmetric, padding=2))) < 1e-9


@pytest.mark.parametrize("name", flow_objectives.OBJECTIVES)
def test_other_flows_cost_something(name):
    exact = exact_flows(True)
    wrong = exact._replace(log_forward=exact.log_forward.at[0, 1].add(0.5))
    assert float(flow_objectives.OBJECTIVES[name](wrong)) > 1e-4


def test_exact_flows_imply_the_sum_of_all_rewards():
    before = oracle.producers(GRAPH)
    for symmetric in (False, True):
        ends = oracle.layers(before, DEVICES, symmetric=symmetric)[-1]
        total = np.log(sum(np.exp(log_reward(state)) for state in ends))
        zeta = flow_objectives.implied_log_partition(exact_flows(symmetric))
        np.testing.assert_allclose(zeta, total, rtol=1e-5)


def test_the_variance_does_not_depend_on_the_partition_but_the_balance_does():
    exact = exact_flows(True)
    moved = exact._replace(log_partition=exact.log_partition + 1.0)
    assert float(flow_objectives.log_partition_variance(moved)) < 1e-9
    assert float(flow_objectives.trajectory_balance(moved)) == pytest.approx(0.5, rel=1e-4)


def test_the_reward_is_that_of_the_paper():
    found = flow_objectives.log_reward(jnp.array([4.0, 3.0]), 4, jnp.float32(0.1))
    np.testing.assert_allclose(found, [0.0, -10.0], rtol=1e-6)
