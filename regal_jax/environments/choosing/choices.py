"""What schedules that are made choice by choice have in common, whatever is chosen.

State-dependent choices are what one-shot priorities can't make: what an op costs changes as a
schedule grows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.choosing.kernel import Network
from regal_jax.graphs.computation_graph import ComputationGraph


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
      names: of the F features of a row.
      columns: graph -> what the other two read of it.
      bound: (graph) -> a cost to count costs in.
      drawn: (columns, network, seeds uint64[B], temperature) -> (orders int32[B, O], costs
        float64[B]) of drawn schedules; of the largest logits with temperature 0.
      choices: (columns, order int32[O]) -> those that follow it: of a choice's ops the first is
        next. They make the order again if it was drawn.
    """

    names: tuple[str, ...]
    columns: Callable[[ComputationGraph], Any]
    bound: Callable[[ComputationGraph], float]
    drawn: Callable[[Any, Network, np.ndarray, float], tuple[np.ndarray, np.ndarray]]
    choices: Callable[[Any, np.ndarray], Choices]

    def linear(self, weights: dict[str, float]) -> Network:
        """The network of a rule: the weighted sum of some features."""
        first = np.zeros((len(self.names), 2), np.float32)
        for name, weight in weights.items():
            first[self.names.index(name)] = weight, -weight
        none, same = np.zeros(2, np.float32), np.eye(2, dtype=np.float32)
        return Network(first, none, same, none, np.array([1.0, -1.0], np.float32))
