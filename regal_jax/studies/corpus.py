"""What policies are trained on."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from regal_jax.graphs.computation_graph import ComputationGraph

Graphs = TypeVar("Graphs", bound=Sequence[ComputationGraph] | Callable)


class Corpus(NamedTuple, Generic[Graphs]):
    """Graphs to train on, the same ones always or a function of the epoch, and others to choose
    parameters by."""

    name: str
    training: Graphs
    validation: Sequence[ComputationGraph]
