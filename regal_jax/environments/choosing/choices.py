"""What schedules that are made choice by choice have in common, whatever is chosen.

State-dependent choices are what one-shot priorities can't make: what an op costs changes as a
schedule grows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.choosing.kernel import MOST, Network, linear_network
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native.threads import over_threads


class Choices(NamedTuple):
    """Choices of a schedule between more than one op, N of them.

    Attributes:
      rows: float32[N, MOST, F], what the ops of a choice look like; 0 behind the last.
      counts: int32[N], those ops. chosen: int32[N], which of them was next.
    """

    rows: np.ndarray
    counts: np.ndarray
    chosen: np.ndarray


class Choosing(NamedTuple):
    """An environment of choices.

    Attributes:
      kernel: the module of its compiled loops: NAMES of the F features, ``new_state``,
        ``draw_all`` and ``follow``.
      columns: graph -> what these read of it, ``levels`` [O] among it.
      bound: (graph) -> a cost to count costs in.
    """

    kernel: Any
    columns: Callable[[ComputationGraph], Any]
    bound: Callable[[ComputationGraph], float]

    def drawn(
        self, columns: Any, network: Network, seeds: np.ndarray, temperature: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """(orders int32[B, O], costs float64[B]) of drawn schedules, one a seed uint64[B]: of the
        largest logits with temperature 0."""
        count, num_ops, size = len(seeds), len(columns.levels), len(network.last)
        orders, costs = np.empty((count, num_ops), np.int32), np.empty(count)

        def run(first: int, last: int) -> None:
            part, state = slice(first, last), self.kernel.new_state(columns, size)
            into = orders[part], costs[part]
            self.kernel.draw_all(columns, state, network, seeds[part], float(temperature), *into)

        over_threads(run, count, count * num_ops * size)
        return orders, costs

    def choices(self, columns: Any, order: np.ndarray) -> Choices:
        """The choices that follow an order int32[O]: of a choice's ops the first is next. They make
        the order again if it was drawn."""
        num_ops, rank = len(order), np.argsort(order).astype(np.int32)
        rows = np.zeros((num_ops, MOST, len(self.kernel.NAMES)), np.float32)
        counts, chosen = np.empty(num_ops, np.int32), np.empty(num_ops, np.int32)
        self.kernel.follow(columns, self.kernel.new_state(columns, 1), rank, rows, counts, chosen)
        real = counts > 1
        return Choices(rows[real], counts[real], chosen[real])

    def linear(self, weights: dict[str, float]) -> Network:
        """The network of a rule: the weighted sum of some features."""
        found = np.zeros(len(self.kernel.NAMES))
        for name, weight in weights.items():
            found[self.kernel.NAMES.index(name)] = weight
        return linear_network(found)
