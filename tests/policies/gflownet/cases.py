"""What a policy says of every state of a small graph, and where its schedules end up."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.datasets.task_graphs import task_graph
from regal_jax.environments.platform import Platform
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.gflownet.policy import FlowConfig, FlowInputs, flow_inputs, flow_policy
from regal_jax.policies.gflownet.rollout import states
from tests.oracles import flows
from tests.oracles.flows import State
from tests.policies.cases import random_params

ENCODE_ONCE = FlowConfig(
    network="encode_once",
    feature_set="extended",
    num_devices=2,
    layers=1,
    size=8,
    heads=1,
    head_size=4,
    head_width=8,
)
WITHOUT_EDGES = dataclasses.replace(ENCODE_ONCE, encoder="mlp")
"""The quickest to compile."""
REENCODE = FlowConfig(network="reencode", num_devices=2, layers=1, size=8, heads=1, head_size=4)
GRAPH = task_graph([(0, 2), (1, 2), (1, 3)], [2.0, 1.0, 3.0, 1.5])


Way = tuple[tuple[int, int], ...]
"""Actions (op, device) that lead to a state."""
ROOM = 300
"""States are looked at so many at once, to share compilations."""


class Decision(NamedTuple):
    """What a policy says of a state: log-probabilities of the states after and before, and flow."""

    way: Way
    forward: dict[State, float]
    backward: dict[State, float]
    flow: float


def new_policy(config: FlowConfig, inputs: FlowInputs) -> Any:
    """The parameters that training begins with."""
    return _init(jax.random.key(0), inputs, config=config)


@functools.partial(jax.jit, static_argnames="config")
def _init(key, inputs, *, config):
    return flow_policy(config).init(key, inputs, config.num_devices)


def random_policy(config: FlowConfig, inputs: FlowInputs) -> Any:
    """Parameters of a policy that is far from uniform."""
    init = flow_policy(config).init
    return random_params(lambda: init(jax.random.key(0), inputs, config.num_devices), scale=0.25)


def decisions(
    config: FlowConfig,
    params: Any,
    graph: ComputationGraph,
    log_temperature: float = 0.0,
    *,
    num_devices: int = 2,
    inputs: FlowInputs | None = None,
) -> dict[State, Decision]:
    """Of all states of a graph, of which names of devices count unless the policy is symmetric."""
    if inputs is None:
        inputs = flow_inputs(graph, Platform(num_devices), config)
    ways = _ways(graph, num_devices, symmetric=config.symmetric)
    found = decide(
        config, params, inputs, list(ways.values()), log_temperature, num_devices=num_devices
    )
    return dict(zip(ways, found, strict=True))


def decide(
    config: FlowConfig,
    params: Any,
    inputs: FlowInputs,
    ways: Sequence[Way],
    log_temperature: float = 0.0,
    *,
    num_devices: int = 2,
) -> list[Decision]:
    """Of the states that some actions lead to."""
    size = len(inputs.problem.duration)
    actions = np.full((-(-len(ways) // ROOM) * ROOM, size, 2), (size, 0), np.int32)
    for row, way in zip(actions, ways, strict=False):
        row[: len(way)] = np.array(way, np.int32).reshape(-1, 2)
    found = _every(params, inputs, jnp.float32(log_temperature), actions, config, num_devices)
    found = jax.tree.map(np.asarray, found)
    return [
        _decision(way, jax.tree.map(lambda rows, at=at: rows[at], found), num_devices, config)
        for at, way in enumerate(ways)
    ]


def terminal_distribution(decided: dict[State, Decision], num_ops: int) -> dict[State, float]:
    """The probability of every complete schedule under the forward probabilities."""
    share = dict.fromkeys(decided, 0.0)
    share[next(iter(decided))] = 1.0
    for state, decision in decided.items():  # states come by how many ops are in them
        for child, log_p in decision.forward.items():
            share[child] += share[state] * float(np.exp(log_p))
    return {state: p for state, p in share.items() if sum(map(len, state)) == num_ops}


def log_rewards(
    schedules: Iterable[State], graph: ComputationGraph, num_devices: int, temperature: float
) -> np.ndarray:
    """float64[N]: (U - m) / sigma of complete schedules."""
    speedup = [graph.duration.sum() / flows.makespan(state, graph) for state in schedules]
    return (np.array(speedup) - num_devices) / temperature


@functools.partial(jax.jit, static_argnames=("config", "num_devices"))
def _every(params, inputs, log_temperature, actions, config, num_devices):
    """FlowLogits of states, from ways to get there."""
    policy = flow_policy(config)
    encoding = policy.encode(params, inputs, log_temperature)

    def one(way):
        visited = states(inputs.problem, way[:, 0], way[:, 1], num_devices=num_devices)
        last = jax.tree.map(lambda rows: rows[-1], visited)
        return policy.logits(params, encoding, inputs, last)

    return jax.vmap(one)(actions)


def _ways(graph, num_devices, *, symmetric) -> dict[State, Way]:
    """One way to every state, those of fewest ops first."""
    before = flows.producers(graph)
    current: dict[State, Way] = {((),) * num_devices: ()}
    found = dict(current)
    for _ in before:
        after: dict[State, Way] = {}
        for way in current.values():
            done = {op for op, _ in way}
            ready = [op for op in set(range(len(before))) - done if before[op] <= done]
            for action in itertools.product(ready, range(num_devices)):
                longer = (*way, action)
                after.setdefault(_state(longer, num_devices, symmetric), longer)
        current = after
        found |= current
    return found


def _state(way, num_devices, symmetric) -> State:
    chains = tuple(tuple(op for op, at in way if at == device) for device in range(num_devices))
    return tuple(sorted(chains)) if symmetric else chains


def _decision(way, logits, num_devices, config) -> Decision:
    """Fails if two actions of a state lead to the same one."""
    forward, backward = {}, {}
    for row, device in np.argwhere(np.isfinite(logits.forward)):
        action = (int(logits.op[row]), int(device))
        child = _state([*way, action], num_devices, config.symmetric)
        assert child not in forward
        forward[child] = float(logits.forward[row, device])
    for device in np.flatnonzero(np.isfinite(logits.backward)):
        last = max(at for at, (_, place) in enumerate(way) if place == device)
        parent = _state([*way[:last], *way[last + 1 :]], num_devices, config.symmetric)
        assert parent not in backward
        backward[parent] = float(logits.backward[device])
    return Decision(way, forward, backward, float(logits.flow))
