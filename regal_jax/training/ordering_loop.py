"""The training loop of policies over topological orders; it resumes where it stopped."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from regal_jax.errors import OptionError
from regal_jax.graphs import batching
from regal_jax.graphs.batching import GraphShape
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.precedence import op_pairs
from regal_jax.policies.topological_order.policy import OrderingConfig, ordering_inputs
from regal_jax.search.orders import dynamic_programming
from regal_jax.training import topological_order as reinforce
from regal_jax.training.run_folder import EpochGraphs, ahead, open_run
from regal_jax.training.topological_order import OrderingExamples, OrderingTraining

METRICS = ("cost", "advantage_std", "log_prob", "gradient_norm", "validation_cost")
REFERENCE_ORDERS = 100
"""Costs are reported relative to the best of so many random orders, a baseline of the paper."""


def train_ordering(
    epoch_graphs: EpochGraphs,
    validation: Sequence[ComputationGraph],
    *,
    policy: OrderingConfig,
    config: OrderingTraining,
    directory: str | os.PathLike,
    initial_params: Any = None,
    about: dict[str, Any] | None = None,
    on_step: Callable[[int, dict[str, float]], None] = lambda step, metrics: None,
) -> Path:
    """Trains a policy; returns the file of the parameters that were best on ``validation``.

    After each epoch the greedy orders of the validation graphs are compared with those of the best
    parameters so far, which they replace if they are better (C.4), and a checkpoint is written. An
    interrupted run continues from the last one, to the same parameters.

    Args:
      epoch_graphs: see EpochGraphs; called in a background thread.
      validation: graphs to choose parameters by.
      policy, config: what to train, and how.
      directory: gets ``checkpoints/``, ``metrics.csv`` and ``best.policy``.
      initial_params: to begin from, fresh ones by default.
      about: goes into the policy file.
      on_step: called with (step, metrics) after each step.
    """
    _check(validation, config)
    mesh = Mesh(np.array(jax.devices()), ("graphs",))
    if config.batch_size % mesh.size:
        raise OptionError(
            f"batch_size ({config.batch_size}) must be a multiple of the {mesh.size} devices"
        )
    held_out = list(batches(validation, policy, config.batch_size))
    init_key, train_key = jax.random.split(jax.random.key(config.seed))
    one = jax.tree.map(lambda leaf: leaf[0], held_out[0].inputs)
    state = (
        reinforce.init_state(init_key, one, policy, config)
        if initial_params is None
        else reinforce.with_params(initial_params, config)
    )
    state = jax.device_put(state, NamedSharding(mesh, P()))
    about = {**(about or {}), "system": "topoformer"}
    with open_run(directory, METRICS) as folder:
        state = folder.restored(state)
        first = int(state.step) // config.steps_per_epoch
        if first == 0:
            cost = validation_cost(state.params, held_out, policy)
            state = folder.keep_better(state, cost, policy, about)
        epochs = range(first, config.epochs)
        examples = (_epoch(epoch_graphs, epoch, policy, config) for epoch in epochs)
        for epoch, prepared in zip(epochs, ahead(examples), strict=True):
            for index, batch in enumerate(prepared):
                step = epoch * config.steps_per_epoch + index
                batch = jax.device_put(batch, NamedSharding(mesh, P("graphs")))
                key = jax.random.fold_in(train_key, step)
                state, metrics = reinforce.train_step(
                    key, state, batch, policy=policy, config=config
                )
                if index + 1 == len(prepared):
                    cost = validation_cost(state.params, held_out, policy)
                    state = folder.keep_better(state, cost, policy, about)
                    metrics["validation_cost"] = jnp.float32(cost)
                values = {name: float(value) for name, value in metrics.items()}
                folder.log.write(step + 1, values)
                on_step(step + 1, values)
            folder.save(state)
        return folder.best_policy


def batches(
    graphs: Sequence[ComputationGraph], policy: OrderingConfig, batch_size: int
) -> Iterator[OrderingExamples]:
    """Examples of graphs of similar size, ``batch_size`` at a time; the last of a size may be
    smaller."""
    by_size: dict[int, list[ComputationGraph]] = {}
    for graph in graphs:
        by_size.setdefault(batching.padded_size(graph.num_ops), []).append(graph)
    for ops, members in by_size.items():
        shape, pairs = _roomy_shape(ops, members)
        for begin in range(0, len(members), batch_size):
            some = members[begin : begin + batch_size]
            rows = [_example(graph, policy, shape, pairs) for graph in some]
            yield jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *rows)


def validation_cost(params: Any, held_out: Sequence[OrderingExamples], policy) -> float:
    """Mean peak of the greedy orders, relative to the best of random orders."""
    found = []
    for batch in held_out:
        positions = reinforce.greedy(params, batch.inputs, policy)[:, None]
        found.append(np.asarray(reinforce.costs(batch.graph, positions))[:, 0] / batch.reference)
    return float(np.mean(np.concatenate(found)))


def _epoch(epoch_graphs: EpochGraphs, epoch: int, policy, config) -> list[OrderingExamples]:
    """The batches of an epoch in random order, a function of (seed, epoch). Smaller ones are filled
    up with graphs that are in them already."""
    rng = np.random.default_rng((config.seed, epoch))
    found = list(batches(epoch_graphs(epoch), policy, config.batch_size))
    if not found:
        raise OptionError("no training graphs")
    chosen = rng.permutation(len(found))
    filled = [_filled(batch, config.batch_size) for batch in found]
    return [filled[chosen[i % len(found)]] for i in range(config.steps_per_epoch)]


def _filled(batch: OrderingExamples, batch_size: int) -> OrderingExamples:
    rows = np.arange(batch_size) % len(batch.reference)
    return jax.tree.map(lambda leaf: leaf[rows], batch)


def _roomy_shape(ops: int, members: Sequence[ComputationGraph]) -> tuple[GraphShape, int]:
    """A shape for all, and a number of pairs of ops: powers of two, but for the ops, so that epochs
    of other graphs of these sizes need no compilation of their own."""
    exact = batching.padded_shape(members)
    most_pairs = max(len(op_pairs(graph)) for graph in members)
    sizes = [1 << (count - 1).bit_length() for count in exact[1:]]
    return GraphShape(ops, *sizes), batching.padded_pairs(most_pairs)


def _example(graph, policy, shape, pairs: int) -> OrderingExamples:
    random_orders = dynamic_programming.best_of_random(graph, seed=0, orders=REFERENCE_ORDERS)
    return OrderingExamples(
        ordering_inputs(graph, policy, shape.ops, pairs),
        batching.graph_arrays(graph, shape),
        np.float32(max(random_orders.peak, 1)),
    )


def _check(validation: Sequence[ComputationGraph], config: OrderingTraining) -> None:
    if not validation:
        raise OptionError("no validation graphs")
    if config.baseline == "leave_one_out" and config.samples < 2:
        raise OptionError("the leave_one_out baseline needs at least two samples")
