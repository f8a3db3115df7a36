"""Training of REGAL's moves: mutants of schedules are rewarded by the best of a few of them.

A search keeps the best of many mutants, so what a distribution is worth is the best of K draws, not
their mean: the gradient is that of E[max of K rewards], unbiased from N >= K draws (Walder and
Karkhanis 2025, "Pass@K policy optimization"), scaled to the same spread for every schedule. The
reward is log(cost of the schedule / cost of its mutant), 0 for a worse mutant. It replaces the
whole search's result (REGAL 3.3), of which a step sees one number for thousands of choices; the
same number on held-out schedules selects a policy.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Objective
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Budget
from regal_jax.policies.regal import moves
from regal_jax.policies.regal.moves import Moves, MovesConfig, moves_policy
from regal_jax.policies.regal.schedule_features import ScheduleInputs
from regal_jax.training import moves_search, trainer
from regal_jax.training.regal_examples import by_size, stacked
from regal_jax.training.trainer import Batch, Learner, PolicyFile, Static, TrainState


@dataclasses.dataclass(frozen=True)
class MovesTraining:
    """Hyperparameters.

    Attributes:
      draws: N mutants of a schedule and step. best_of: K.
      batch_size: schedules a step. steps: updates. learning_rate, clip_norm: of Adam.
      epoch_steps: updates between validations, each with a checkpoint.
      evaluations, looks: of the searches whose schedules are trained on.
      seed: of everything random.
    """

    draws: int = 128
    best_of: int = 32
    batch_size: int = 4
    steps: int = 10_000
    learning_rate: float = 1e-3
    clip_norm: float = 1.0
    epoch_steps: int = 500
    evaluations: int = 5000
    looks: int = 6
    seed: int = 0


class States(NamedTuple):
    """Schedules of graphs of one padded shape, stacked; N of them.

    Attributes:
      model: the cost model of the shape, static. graph: what ``cost.costs`` takes.
      inputs: ScheduleInputs. cost: float32[N], of the schedules.
    """

    model: Static
    graph: Any
    inputs: ScheduleInputs
    cost: Any

    def take(self, rows: np.ndarray) -> "States":
        """Some of them."""
        return jax.tree.map(lambda leaf: leaf[rows], self)


METRICS = ("best_of", "mean", "moved", "reordered", "scale", "gradient_norm")
VALIDATION = "validation_best_of"


def advantages(rewards: jax.Array, best_of: int) -> jax.Array:
    """float[N]: what each of N rewards adds to the expected best of ``best_of`` of them: that of
    sets with it minus that of sets without it. Unbiased weights of the draws' scores."""
    count = len(rewards)
    order = jnp.argsort(rewards)
    sorted_rewards = rewards[order]
    with_it, without_it = _weights(count, best_of)
    gain = (with_it - without_it) @ sorted_rewards
    return jnp.zeros(count).at[order].set(gain)


@functools.lru_cache(maxsize=8)
def _weights(count: int, best_of: int) -> tuple[np.ndarray, np.ndarray]:
    """float64[N, N] each: row i has the weights of the sorted rewards in the mean best of the sets
    of ``best_of`` draws with draw i, and without it."""
    with_it, without_it = np.zeros((count, count)), np.zeros((count, count))

    def sets(of: int, size: int) -> int:
        return math.comb(of, size) if size >= 0 else 0

    sets_with, sets_without = math.comb(count - 1, best_of - 1), math.comb(count - 1, best_of)
    for i in range(count):
        with_it[i, i] = sets(i, best_of - 1) / sets_with
        for j in range(count):
            if j > i:
                with_it[i, j] = sets(j - 1, best_of - 2) / sets_with
                without_it[i, j] = sets(j - 1, best_of - 1) / sets_without
            elif j < i:
                without_it[i, j] = sets(j, best_of - 1) / sets_without
    return with_it, without_it


def expected_best(rewards: jax.Array, best_of: int) -> jax.Array:
    """float[]: the mean best of the sets of ``best_of`` rewards."""
    count = len(rewards)
    weights = [math.comb(i, best_of - 1) / math.comb(count, best_of) for i in range(count)]
    return jnp.sort(rewards) @ jnp.array(weights)


def learner(validation: Sequence[States], policy: MovesConfig, config: MovesTraining) -> Learner:
    optimizer = optax.chain(
        optax.clip_by_global_norm(config.clip_norm), optax.adam(config.learning_rate)
    )
    network = moves_policy(policy)

    def init(key, inputs):
        return trainer.new_state(network.init(key, inputs), optimizer)

    def update(key, state: TrainState, batch: States):
        keys = jax.random.split(key, config.batch_size)

        def loss_of(params):
            of_one = functools.partial(_loss, params, network, batch.model.value, config)
            losses, metrics = jax.vmap(of_one)(keys, batch.graph, batch.inputs, batch.cost)
            return jnp.mean(losses), jax.tree.map(jnp.mean, metrics)

        gradient, metrics = jax.grad(loss_of, has_aux=True)(state.params)
        metrics["gradient_norm"] = optax.global_norm(gradient)
        return trainer.descend(state, gradient, optimizer), metrics

    def validate(params):
        found = np.concatenate([_best_of(params, some, policy, config) for some in validation])
        return -float(found.mean()), {VALIDATION: float(found.mean())}

    return Learner(
        "regal_moves", init, update, validate, METRICS, (VALIDATION,), validates_first=True
    )


def _loss(params, network, model, config: MovesTraining, key, graph, inputs, cost):
    """The surrogate of one schedule's gradient, and metrics."""
    proposed = network.moves(params, inputs)
    drawn, rewards = _draw(key, proposed, model, graph, inputs, cost, config.draws)
    gain = advantages(rewards, config.best_of)
    gain = jax.lax.stop_gradient(gain / (jnp.std(gain) + 1e-6))
    surrogate = jnp.mean(gain * moves.log_prob(proposed, drawn, inputs))
    here = jnp.take_along_axis(proposed.log_share, inputs.device[:, None], axis=1)[:, 0]
    count = jnp.maximum(jnp.sum(inputs.real), 1)
    metrics = {
        "best_of": expected_best(rewards, config.best_of),
        "mean": jnp.mean(rewards),
        "moved": jnp.sum(jnp.where(inputs.real, 1.0 - jnp.exp(here), 0.0)) / count,
        "reordered": jnp.sum(jnp.where(inputs.real, jax.nn.sigmoid(proposed.odds), 0.0)) / count,
        "scale": jnp.sum(jnp.where(inputs.real, proposed.scale, 0.0)) / count,
    }
    return -surrogate / count, metrics


def _draw(key, proposed, model, graph, inputs, cost, count: int):
    """Mutants, and their rewards float[count]."""
    proposed = jax.lax.stop_gradient(proposed)
    device = jnp.broadcast_to(inputs.device, (count, len(inputs.device)))
    drawn = moves.draw(key, proposed, inputs, device)
    known = moves.chromosome(inputs)
    parents = jnp.broadcast_to(known, (count, len(known)))
    costs = model.costs(graph, moves.changed(parents, drawn, inputs))
    gain = jnp.log(jnp.maximum(cost, 1e-30) / jnp.maximum(costs, 1e-30))
    return drawn, jnp.maximum(gain, 0.0)


@functools.partial(jax.jit, static_argnames=("policy", "config"))
def _best_of(params, states: States, policy: MovesConfig, config: MovesTraining):
    """float[N]: the expected best reward of each schedule."""

    def of_one(key, graph, inputs, cost):
        proposed = moves_policy(policy).moves(params, inputs)
        model = states.model.value
        rewards = _draw(key, proposed, model, graph, inputs, cost, config.draws)[1]
        return expected_best(rewards, config.best_of)

    keys = jax.random.split(jax.random.key(config.seed + 1), len(states.cost))
    return jax.vmap(of_one)(keys, states.graph, states.inputs, states.cost)


def train(
    training: Sequence[States],
    validation: Sequence[States],
    *,
    policy: MovesConfig,
    config: MovesTraining,
    directory: str | os.PathLike,
    about: dict[str, Any],
    on_step=lambda step, metrics: None,
) -> Path:
    """Trains a policy and returns the file of the best one on the validation schedules."""
    path = Path(directory) / "best.policy"
    trainer.fit(
        learner(validation, policy, config),
        functools.partial(_batches, training, config),
        directory,
        example=jax.tree.map(lambda leaf: leaf[0], training[0].inputs),
        seed=config.seed,
        policy=PolicyFile(path, policy, about),
        hyperparameters={"policy": policy, "training": config, **about},
        may_grow=["training.steps"],
        on_step=on_step,
    )
    return path


def prepare_states(
    graphs: Sequence[ComputationGraph],
    *,
    num_devices: int,
    objective: Objective,
    config: MovesTraining,
    policy: MovesConfig,
    on_progress: Callable[[], None] = lambda: None,
) -> list[States]:
    """The best schedules so far at each look of a search with a fresh policy, in buckets of shapes.

    Graphs whose cheap schedules are at the lower bound already have none.
    """
    found = []
    for shape, indices in by_size(graphs).items():
        problems = [
            PlacementProblem(graphs[index], num_devices, objective, shape=shape)
            for index in indices
        ]
        rows = []
        for problem in problems:
            rows += _states(problem, config, policy)
            on_progress()
        if rows:
            found.append(States(Static(problems[0].spec), *stacked(rows)))
    return found


def _states(problem: PlacementProblem, config: MovesTraining, policy: MovesConfig) -> list[Any]:
    """(graph, inputs, cost) at each look of one search."""
    budget = Budget(config.evaluations, seed=config.seed)
    start = moves_search.begin(problem, budget, least=moves_search.LEAST)
    if start.cost <= problem.lower_bound:
        return []
    seen: list[ScheduleInputs] = []

    def propose(inputs: ScheduleInputs) -> Moves:
        seen.append(inputs)
        return moves.fresh(policy, inputs)

    moves_search.search(problem, budget, start, propose, times=config.looks)
    known = jnp.stack([moves.chromosome(inputs) for inputs in seen])
    costs = np.asarray(problem.spec.costs(problem.operand, known), np.float32)
    return [(problem.operand, *one) for one in zip(seen, costs, strict=True)]


def _batches(
    training: Sequence[States], config: MovesTraining, first: int, epoch: int
) -> Iterator[Batch]:
    """Batches of a shape drawn by its number of schedules: functions of (seed, step)."""
    sizes = np.array([len(states.cost) for states in training], float)
    for step in range(first, config.steps):
        rng = np.random.default_rng((config.seed, step))
        states = training[rng.choice(len(training), p=sizes / sizes.sum())]
        rows = rng.integers(len(states.cost), size=config.batch_size)
        ends = (step + 1) % config.epoch_steps == 0 or step + 1 == config.steps
        yield Batch(states.take(rows), ends)
