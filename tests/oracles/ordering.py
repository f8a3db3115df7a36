"""Topological orders, their probabilities and attention, as plainly as they can be written.

Pairs are (before, after) of ops; an order is a tuple of ops. Shares no code with ``regal_jax`` but
the class of graphs.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph

Pairs = set[tuple[int, int]]
Order = tuple[int, ...]


def graph_of(num_ops: int, pairs: Collection[tuple[int, int]]) -> ComputationGraph:
    """One tensor of one byte a pair."""
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=[before for before, _ in pairs],
        size=[1] * len(pairs),
        consumers=[[after] for _, after in pairs],
    )


def plain_pairs(graph: ComputationGraph) -> Pairs:
    """The (producer, consumer) pairs of all tensors."""
    return {
        (int(producer), int(consumer))
        for tensor, producer in enumerate(graph.producer)
        for consumer in graph.consumers.row(tensor)
        if producer >= 0
    }


def schedulable(num_ops: int, pairs: Pairs, done: Sequence[int]) -> list[int]:
    """The ops that haven't run, all of whose predecessors have."""
    waiting = {after for before, after in pairs if before not in done}
    return [op for op in range(num_ops) if op not in done and op not in waiting]


def all_orders(num_ops: int, pairs: Pairs, done: Order = ()) -> Iterator[Order]:
    """Every topological order, from the lexicographically first on."""
    if len(done) == num_ops:
        yield done
    for op in schedulable(num_ops, pairs, done):
        yield from all_orders(num_ops, pairs, (*done, op))


def is_order(num_ops: int, pairs: Pairs, order: Sequence[int]) -> bool:
    """Whether it has every op once, and each after all that it reads from."""
    place = {int(op): step for step, op in enumerate(order)}
    return sorted(place) == list(range(num_ops)) and all(place[u] < place[v] for u, v in pairs)


def greedy_order(priorities: Sequence[float], pairs: Pairs) -> Order:
    """The schedulable op of highest priority at each step, the lowest op on ties."""
    done: list[int] = []
    while len(done) < len(priorities):
        ready = schedulable(len(priorities), pairs, done)
        done.append(max(ready, key=lambda op: (priorities[op], -op)))
    return tuple(done)


def log_probability(priorities: Sequence[float], order: Sequence[int], pairs: Pairs) -> float:
    """Equation 8, step by step: a softmax over what is schedulable."""
    total = 0.0
    for step, op in enumerate(order):
        ready = [priorities[one] for one in schedulable(len(priorities), pairs, order[:step])]
        top = max(ready)
        total += priorities[op] - top - math.log(sum(math.exp(one - top) for one in ready))
    return total


def choices(order: Sequence[int], pairs: Pairs) -> np.ndarray:
    """bool[steps, O]: what is schedulable at each step of an order."""
    allowed = np.zeros((len(order), len(order)), bool)
    for step in range(len(order)):
        allowed[step, schedulable(len(order), pairs, order[:step])] = True
    return allowed


def positions(order: Sequence[int], length: int) -> np.ndarray:
    """int32[length]: the step of each op; ``length`` for padding."""
    found = np.full(length, length, np.int32)
    found[list(order)] = np.arange(len(order))
    return found


def attention(scores: np.ndarray, values: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """float64[Q, H, V]: values float[O, H, V] by the softmax of scores float[Q, O, H] over what is
    ``allowed``, bool[Q, O]; zeros where that is nothing."""
    found = np.zeros((len(scores), *values.shape[1:]))
    for query, head in itertools.product(range(len(scores)), range(values.shape[1])):
        seen = np.flatnonzero(allowed[query])
        if len(seen):
            weight = np.exp(scores[query, seen, head] - scores[query, seen, head].max())
            found[query, head] = (weight / weight.sum()) @ values[seen, head]
    return found
