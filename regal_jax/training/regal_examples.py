"""Graphs to training examples: features from a short search, and what standard BRKGA reaches."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from regal_jax.environments.placement import cost as placement_cost
from regal_jax.environments.placement.cost import CostModel
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Objective
from regal_jax.graphs import batching
from regal_jax.graphs.batching import GraphShape
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.placement import PolicyInputs, pinned_op, policy_inputs
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.training import settings
from regal_jax.training.regal_search import uniform_search


class Examples(NamedTuple):
    """Training problems of one padded shape, stacked; N of them.

    Attributes:
      graph: what ``cost.costs`` takes, stacked.
      inputs: PolicyInputs, stacked.
      reference: float32[N], o_s: what standard BRKGA finds with the training budget.
    """

    graph: Any
    inputs: PolicyInputs
    reference: Any

    @property
    def num_graphs(self) -> int:
        return len(self.reference)

    def take(self, rows: np.ndarray) -> "Examples":
        return jax.tree.map(lambda leaf: leaf[rows], self)


class Bucket(NamedTuple):
    """Examples of one padded shape, with the cost model for that shape."""

    model: CostModel
    examples: Examples
    names: tuple[str, ...]


@functools.partial(jax.jit, static_argnames=("model", "evaluations", "num_tensors"))
def run_uniform_search(key, model, graph, evaluations, *, num_tensors, pinned=None):
    """Jitted ``uniform_search``: (best chromosome, its cost, history, last population)."""
    result = uniform_search(key, model, graph, evaluations, num_tensors=num_tensors, pinned=pinned)
    return (*result.state.best(), result.history, result.state.chromosomes)


def feature_search(key, problem: PlacementProblem, regal: RegalConfig, graph, pinned: int):
    """The short uniform search behind a graph's features.

    Returns (PolicyInputs, best chromosome, history).
    """
    model = problem.spec
    best, _, history, population = run_uniform_search(
        key,
        model,
        graph,
        regal.feature_evaluations,
        num_tensors=problem.shape.tensors,
        pinned=np.int32(pinned),
    )
    statistics = placement_cost.population_statistics(model, graph, population)
    inputs = policy_inputs(problem.graph, statistics, problem.shape, feature_set=regal.feature_set)
    return inputs, best, history


def prepare_examples(
    graphs: Sequence[ComputationGraph],
    *,
    objective: Objective,
    memory_capacity: int | None = None,
    regal: RegalConfig,
    evaluations: int,
    seed: int,
    on_progress=lambda: None,
) -> list[Bucket]:
    """Examples in buckets of similar size, so that a few compilations serve all graphs.

    Args:
      graphs: training graphs. objective: what the search minimises.
      memory_capacity: bytes of each device, None for any number.
      regal: the policy the examples are for.
      evaluations: budget of the reference search.
      seed: of both searches of every graph.
      on_progress: called after each graph.
    """

    def problem_of(graph: ComputationGraph, shape: GraphShape) -> PlacementProblem:
        return PlacementProblem(
            graph, regal.num_devices, objective, memory_capacity=memory_capacity, shape=shape
        )

    buckets = []
    for shape, indices in by_size(graphs).items():
        rows = []
        for index in indices:
            keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), index))
            problem = problem_of(graphs[index], shape)
            rows.append(_example(problem, keys, regal, evaluations))
            on_progress()
        model = problem_of(graphs[indices[0]], shape).spec
        examples = Examples(*stacked(rows))
        buckets.append(Bucket(model, examples, tuple(graphs[i].name for i in indices)))
    return buckets


def _example(problem: PlacementProblem, keys, regal: RegalConfig, evaluations: int) -> Examples:
    operand = problem.operand
    inputs = feature_search(keys[0], problem, regal, operand, pinned_op(problem.graph))[0]
    reference = run_uniform_search(
        keys[1], problem.spec, operand, evaluations, num_tensors=problem.shape.tensors
    )[1]
    return Examples(operand, inputs, np.float32(reference))


def drawn(
    rng: np.random.Generator, buckets: Sequence[Bucket], count: int
) -> tuple[int, np.ndarray]:
    """(a bucket, drawn by its number of graphs, so many rows of it)."""
    sizes = np.array([bucket.examples.num_graphs for bucket in buckets], float)
    which = int(rng.choice(len(buckets), p=sizes / sizes.sum()))
    return which, rng.integers(buckets[which].examples.num_graphs, size=count)


def fingerprint(buckets: Sequence[Bucket]) -> str | None:
    """A hash of the buckets' graphs."""
    return settings.arrays_fingerprint([bucket.examples.graph for bucket in buckets])


def by_size(graphs: Sequence[ComputationGraph]) -> dict[GraphShape, list[int]]:
    """Which graphs are padded to each shape, by rising size."""
    rungs: dict[int, list[int]] = {}
    for index, graph in enumerate(graphs):
        rungs.setdefault(batching.padded_size(graph.num_ops), []).append(index)
    return {
        batching.padded_shape([graphs[index] for index in indices]): indices
        for _, indices in sorted(rungs.items())
    }


def stacked(rows: Sequence[Any]) -> Any:
    """Tuples whose first item is a graph, stacked; packed graphs are padded to the longest."""
    graphs = [row[0] for row in rows]
    if isinstance(graphs[0], np.ndarray):
        longest = max(len(graph) for graph in graphs)
        graphs = [np.pad(graph, (0, longest - len(graph))) for graph in graphs]
    padded = [(graph, *row[1:]) for graph, row in zip(graphs, rows, strict=True)]
    return batching.stacked(padded)
