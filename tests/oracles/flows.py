"""All partial schedules of a small graph, as tuples of chains; flows through them."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph

State = tuple[tuple[int, ...], ...]
"""The ops of each device in order; sorted where names of devices don't matter."""


def producers(graph: ComputationGraph) -> list[set[int]]:
    """What each op reads from."""
    found: list[set[int]] = [set() for _ in range(graph.num_ops)]
    for producer, _, consumer in graph.edges.tolist():
        found[consumer].add(producer)
    return found


def children(state: State, before: list[set[int]], *, symmetric: bool) -> Iterator[State]:
    """The states after each possible action, distinct ones."""
    done = {op for chain in state for op in chain}
    found = set()
    for op in set(range(len(before))) - done:
        if before[op] <= done:
            for device in range(len(state)):
                chains = list(state)
                chains[device] = (*chains[device], op)
                found.add(tuple(sorted(chains)) if symmetric else tuple(chains))
    yield from sorted(found)


def parents(state: State, before: list[set[int]], *, symmetric: bool) -> list[State]:
    """The states before each possible last action, distinct ones."""
    done = {op for chain in state for op in chain}
    read = set().union(*(before[op] for op in done)) if done else set()
    found = set()
    for device, chain in enumerate(state):
        if chain and chain[-1] not in read:
            chains = list(state)
            chains[device] = chain[:-1]
            found.add(tuple(sorted(chains)) if symmetric else tuple(chains))
    return sorted(found)


def layers(before: list[set[int]], num_devices: int, *, symmetric: bool) -> list[list[State]]:
    """All states by how many ops are in them."""
    current: list[State] = [((),) * num_devices]
    found = [current]
    for _ in before:
        after = [children(state, before, symmetric=symmetric) for state in current]
        current = sorted(set().union(*after))
        found.append(current)
    return found


def makespan(state: State, graph: ComputationGraph) -> float:
    """us: of a complete schedule, by relaxing all constraints until nothing changes (eq. 2)."""
    pairs = [(u, v) for v, us in enumerate(producers(graph)) for u in us]
    pairs += [pair for chain in state for pair in itertools.pairwise(chain)]
    start = np.zeros(graph.num_ops)
    for _ in range(graph.num_ops):
        for u, v in pairs:
            start[v] = max(start[v], start[u] + graph.duration[u])
    return float(np.max(start + graph.duration))


def uniform_backward_flows(
    graph: ComputationGraph,
    num_devices: int,
    log_reward: Callable[[State], float],
    *,
    symmetric: bool,
) -> dict[State, float]:
    """The flow of every state that goes back to all parents alike, and ends in the rewards."""
    before = producers(graph)
    by_size = layers(before, num_devices, symmetric=symmetric)
    flow = {state: float(np.exp(log_reward(state))) for state in by_size[-1]}
    for states in reversed(by_size[1:]):
        for state in states:
            back = parents(state, before, symmetric=symmetric)
            for parent in back:
                flow[parent] = flow.get(parent, 0.0) + flow[state] / len(back)
    return flow
