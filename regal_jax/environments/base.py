"""The interface of a problem: one graph on one machine, as a function of chromosomes."""

from typing import Any, Protocol

import jax
import numpy as np

from regal_jax.environments.schedule import Objective, Schedule
from regal_jax.graphs.computation_graph import ComputationGraph


def has_machines(graph: ComputationGraph, objective: Objective) -> bool:
    """Whether a graph is scheduled on its machine types, rather than on identical devices."""
    return graph.capacity is not None and objective == "makespan"


class Spec(Protocol):
    """Everything but the graph that a cost depends on; hashable, so that it can be a static
    argument of a jitted search."""

    @property
    def num_genes(self) -> int:
        """Genes of the padded chromosomes that ``costs`` takes."""

    def costs(self, operand: Any, chromosomes: jax.Array) -> jax.Array:
        """float[B]: costs of padded chromosomes float32[B, num_genes]; pure, for jit and vmap."""


class Problem(Protocol):
    """A graph to schedule, as a function of chromosomes; costs are minimised.

    Chromosomes are float32[genes] in the problem's own layout, but for those of ``spec.costs``,
    which are padded, so that similar graphs share a compilation.

    Attributes:
      graph, objective: what is scheduled, and for what.
      spec: how padded chromosomes are costed.
      operand: the padded graph, a pytree of arrays: traced, so graphs of one shape share a program.
      num_genes: of a chromosome, without padding.
      lower_bound: a cost that no schedule can beat, bytes or us.
    """

    graph: ComputationGraph
    objective: Objective

    @property
    def spec(self) -> Spec: ...

    @property
    def operand(self) -> Any: ...

    @property
    def num_genes(self) -> int: ...

    @property
    def lower_bound(self) -> float: ...

    def fitness(self, chromosomes: Any) -> Any:
        """float[B]: costs of chromosomes [B, genes]; exact float64 for arrays, traced in jit."""

    def decode(self, chromosome: Any, **attributes: Any) -> Schedule:
        """The schedule of one chromosome, with its exact costs."""

    def encode(self, schedule: Schedule) -> np.ndarray:
        """float32[genes]: a chromosome of a schedule."""

    def pad(self, chromosomes: np.ndarray) -> np.ndarray:
        """Chromosomes [B, genes] in the layout of ``spec.costs``."""

    def unpad(self, chromosomes: np.ndarray) -> np.ndarray:
        """The reverse of ``pad``."""
