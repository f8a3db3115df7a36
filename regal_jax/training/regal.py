"""REINFORCE for REGAL (section 3.4): the policy is rewarded by what the search it steers finds."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from regal_jax.environments.placement.cost import CostModel
from regal_jax.environments.schedule import Objective
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.placement import PolicyInputs
from regal_jax.policies.networks.message_passing import GraphValue
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.reporting import progress
from regal_jax.training import checkpoints, regal_examples, settings, trainer
from regal_jax.training.regal_examples import Bucket, Examples, prepare_examples
from regal_jax.training.regal_search import steered_cost
from regal_jax.training.reinforce import leave_one_out
from regal_jax.training.trainer import Batch, Learner, PolicyFile, Static, TrainState


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Hyperparameters of training; the defaults are the paper's (A.5).

    Attributes:
      evaluations: K per search in training; the policy's search gets K - 400 of them.
      batch_size: graphs a step. samples: action vectors a graph and step. With one, b(G) is a GNN
        (eq. 9); with more, b(G) of a sample is the mean reward of the others, which needs no
        training and is unbiased too (not in the paper).
      steps: gradient steps. learning_rate, clip_norm: of Adam and the L2 gradient clip.
      baseline_weight: lambda of the baseline's loss.
      entropy_weight: of an entropy bonus, nats a choice (not in the paper).
      seed: of everything random.
    """

    evaluations: int = 1000
    batch_size: int = 4
    samples: int = 1
    steps: int = 100_000
    learning_rate: float = 1e-4
    clip_norm: float = 10.0
    baseline_weight: float = 1e-4
    entropy_weight: float = 0.0
    seed: int = 0


class RegalBatch(NamedTuple):
    """Graphs of one shape for an update, and the cost model for that shape."""

    model: Static
    examples: Examples


METRICS = ("reward", "advantage_std", "baseline_error", "entropy", "gradient_norm")
VALIDATION = "validation_improvement"
"""Mean percent by which searches end below those of BRKGA of the same budget."""


def train_regal(
    graphs: Sequence[ComputationGraph],
    validation: Sequence[ComputationGraph],
    *,
    objective: Objective,
    regal: RegalConfig,
    config: TrainingConfig,
    directory: str | os.PathLike,
    validate_every: int,
    memory_capacity: int | None = None,
    initial_policy: str | os.PathLike | None = None,
) -> Path:
    """Trains a REGAL policy and returns the file of the best one on the validation graphs.

    Arguments as in ``train``; ``memory_capacity`` is a device's, in bytes; ``initial_policy`` is a
    policy file. Raises OptionError if there is nothing to learn from.
    """
    if not graphs or not validation:
        raise OptionError("no training or validation graphs are small enough (see --train_ops)")
    directory = Path(directory)
    prepare = functools.partial(
        _prepare, objective=objective, memory_capacity=memory_capacity, regal=regal, config=config
    )
    examples = prepare(graphs, "training examples")
    held_out = prepare(validation, "validation examples")
    with progress.bar("training", config.steps) as update:
        train(
            examples,
            held_out,
            regal=regal,
            config=config,
            directory=directory,
            validate_every=validate_every,
            about={
                "objective": objective,
                "memory_capacity": memory_capacity,
                "training_graphs": len(graphs),
            },
            initial_policy=_given_params(initial_policy, regal),
            on_step=lambda step, metrics: update(step, f"reward {metrics['reward']:.4f}"),
        )
    return directory / "best.policy"


def train(
    buckets: Sequence[Bucket],
    validation: Sequence[Bucket],
    *,
    regal: RegalConfig,
    config: TrainingConfig,
    directory: str | os.PathLike,
    validate_every: int = 1000,
    about: dict[str, Any] | None = None,
    initial_policy: Any = None,
    on_step: Callable[[int, dict[str, float]], None] = lambda step, metrics: None,
) -> tuple[Any, float]:
    """Trains a policy; an interrupted run continues to the same parameters, see ``trainer.fit``.

    Args:
      buckets, validation: training and validation examples, from ``prepare_examples``.
      regal, config: the policy and how to train it.
      directory: gets ``checkpoints/``, ``metrics.csv``, ``config.json`` and ``best.policy`` (of
        best validation).
      validate_every: steps between validations, which are also when checkpoints are written.
      about: goes into the policy file.
      initial_policy: policy parameters to start from, fresh ones by default. They are validated,
        too, so that the result is not worse.
      on_step: called with (step, metrics) for each step.

    Returns:
      (policy parameters of best validation, their mean improvement over BRKGA in percent).
    """
    about = about or {}
    state = trainer.fit(
        learner(validation, regal, config, initial_policy),
        functools.partial(_batches, buckets, config, validate_every),
        directory,
        example=buckets[0].examples.take(np.array(0)).inputs,
        seed=config.seed,
        policy=PolicyFile(Path(directory) / "best.policy", regal, about, _policy_of),
        hyperparameters={
            "policy": regal,
            "training": config,
            "validate_every": validate_every,
            "training_data": regal_examples.fingerprint(buckets),
            "validation_data": regal_examples.fingerprint(validation),
            "initial_policy": settings.arrays_fingerprint(initial_policy),
            **about,
        },
        may_grow=["training.steps"],
        on_step=on_step,
    )
    return _policy_of(state.best_params), -float(state.best_cost)


def learner(
    validation: Sequence[Bucket],
    regal: RegalConfig,
    config: TrainingConfig,
    initial_policy: Any = None,
) -> Learner:
    """REINFORCE for ``trainer.fit``, its batches shared by all devices."""
    mesh = trainer.device_mesh(config.batch_size)

    def init(key, inputs):
        return init_state(key, inputs, regal, config, initial_policy)

    def update(key, state, batch: RegalBatch):
        model, examples = batch.model.value, batch.examples
        return train_step(key, state, examples, model=model, regal=regal, config=config, mesh=mesh)

    def score(params):
        found = validate(_policy_of(params), validation, regal=regal, config=config)
        improvement = float(np.float32(found))
        return -improvement, {VALIDATION: improvement}

    return Learner(
        "regal",
        init,
        update,
        score,
        METRICS,
        (VALIDATION,),
        validates_first=initial_policy is not None,
        mesh=mesh,
    )


def validate(
    params: Any, buckets: Sequence[Bucket], *, regal: RegalConfig, config: TrainingConfig
) -> float:
    """Mean improvement (%) over BRKGA of the same budget, of the most likely actions."""
    gains = []
    for bucket in buckets:
        examples = bucket.examples
        keys = jax.random.split(jax.random.key(config.seed + 1), examples.num_graphs)
        for row in range(examples.num_graphs):
            one = examples.take(np.array(row))
            cost = _search_cost(params, keys[row], one, bucket.model, regal, config.evaluations)
            gains.append(100.0 * (1.0 - float(cost) / max(float(one.reference), 1e-30)))
    return float(np.mean(gains))


def make_optimizer(config: TrainingConfig) -> optax.GradientTransformation:
    """That of A.5."""
    return trainer.clipped_adam(config.clip_norm, config.learning_rate)


def init_state(
    key: chex.PRNGKey,
    inputs: PolicyInputs,
    regal: RegalConfig,
    config: TrainingConfig,
    initial_policy: Any = None,
) -> TrainState:
    """Fresh parameters {"policy": ..., "baseline": ...}, from the shapes of one graph's inputs; or
    a given policy."""
    policy_key, baseline_key = jax.random.split(key)
    params = {"policy": regal.policy.init(policy_key, inputs)}
    if initial_policy is not None:
        params["policy"] = initial_policy
    if config.samples == 1:
        params["baseline"] = _baseline(regal).init(baseline_key, inputs)
    return trainer.new_state(params, make_optimizer(config))


def train_step(
    key: chex.PRNGKey,
    state: TrainState,
    batch: Examples,
    *,
    model: CostModel,
    regal: RegalConfig,
    config: TrainingConfig,
    mesh: Mesh,
) -> tuple[TrainState, dict[str, jax.Array]]:
    """One gradient step on a batch of graphs, split over the devices of ``mesh``.

    Returns the new state and scalar metrics. The result does not depend on the number of devices
    (up to the order of summation): each graph has its own key.
    """
    keys = jax.random.split(key, batch.num_graphs)
    local = functools.partial(_local_gradient, model=model, regal=regal, config=config)
    gradient, metrics = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P(), P("graphs"), P("graphs")),
        out_specs=P(),
        check_vma=False,
    )(state.params, keys, batch)
    metrics["gradient_norm"] = optax.global_norm(gradient)
    return trainer.descend(state, gradient, make_optimizer(config)), metrics


def _local_gradient(params, keys, batch, *, model, regal, config):
    """Gradient and metrics on this device's graphs, averaged over all devices."""
    sample_keys, search_keys = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    actions = _sample_actions(params, sample_keys, batch, regal, config)
    rewards = _rewards(search_keys, batch, actions, model, regal, config)
    loss = functools.partial(_loss, regal=regal, config=config)
    gradient, metrics = jax.grad(loss, has_aux=True)(params, batch, actions, rewards)
    return jax.lax.pmean((gradient, metrics), "graphs")


def _sample_actions(params, keys, batch, regal, config):
    """int32[B, M, O, A]: M action vectors for each graph."""

    def of_graph(key, inputs):
        sample = lambda key: regal.policy.sample(params["policy"], key, inputs)  # noqa: E731
        return jax.vmap(sample)(jax.random.split(key, config.samples))

    return jax.vmap(of_graph)(keys, batch.inputs)


def _rewards(keys, batch, actions, model, regal, config):
    """float32[B, M]: r = -o_a / o_s (section 3.3). All searches run as one flat batch.

    The searches of one graph share a key: what differs between their rewards is then less the
    luck of the search and more the actions (common random numbers).
    """
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, config.samples, axis=0), batch)
    keys = jnp.repeat(keys, config.samples)
    flat = actions.reshape(-1, *actions.shape[2:])

    def best(key, graph, inputs, actions):
        return steered_cost(key, model, graph, config.evaluations, inputs, actions, regal)

    costs = jax.vmap(best)(keys, repeated.graph, repeated.inputs, flat)
    return -(costs / repeated.reference).reshape(actions.shape[:2])


def _loss(params, batch, actions, rewards, *, regal, config):
    """Negative of eq. 7's surrogate with baseline (eq. 8), plus the baseline's loss."""
    policy = regal.policy

    def per_sample(of_one):
        over_samples = jax.vmap(of_one, (None, 0))
        return jax.vmap(over_samples)(batch.inputs, actions)

    log_prob = per_sample(lambda inputs, a: policy.log_prob(params["policy"], inputs, a))
    entropy = per_sample(lambda inputs, a: policy.entropy(params["policy"], inputs, a))
    baseline = _baselines(params, batch, rewards, regal, config)
    advantage = rewards - jax.lax.stop_gradient(baseline)
    surrogate = jnp.mean(advantage * log_prob)
    baseline_loss = 0.5 * jnp.mean((rewards - baseline) ** 2)
    loss = -surrogate - config.entropy_weight * jnp.mean(entropy)
    if config.samples == 1:
        loss = loss + config.baseline_weight * baseline_loss
    metrics = {
        "reward": jnp.mean(rewards),
        "advantage_std": jnp.std(advantage),
        "baseline_error": baseline_loss,
        "entropy": jnp.mean(entropy),
    }
    return loss, metrics


def _baselines(params, batch, rewards, regal, config):
    """float32[B, M]: b(G)."""
    if config.samples > 1:
        return leave_one_out(rewards)
    value = jax.vmap(_baseline(regal).apply, (None, 0))(params["baseline"], batch.inputs)
    return jnp.asarray(value)[:, None]


def _baseline(regal: RegalConfig) -> GraphValue:
    return GraphValue(regal.size, regal.rounds, regal.aggregation)


def _policy_of(params: Any) -> Any:
    return params["policy"]


@functools.partial(jax.jit, static_argnames=("model", "regal", "evaluations"))
def _search_cost(params, key, example: Examples, model, regal: RegalConfig, evaluations: int):
    actions = jnp.asarray(regal.policy.mode(params, example.inputs))
    _, key = jax.random.split(key)
    return steered_cost(key, model, example.graph, evaluations, example.inputs, actions, regal)


def _batches(
    buckets: Sequence[Bucket], config: TrainingConfig, validate_every: int, step: int, epoch: int
) -> Iterator[Batch]:
    make = functools.partial(_batch, buckets, config)
    return trainer.stepwise(make, step, config.steps, validate_every)


def _batch(buckets: Sequence[Bucket], config: TrainingConfig, step: int) -> RegalBatch:
    """A batch of a bucket drawn by its number of graphs: a function of (seed, step)."""
    rng = np.random.default_rng((config.seed, step))
    which, rows = regal_examples.drawn(rng, buckets, config.batch_size)
    return RegalBatch(Static(buckets[which].model), buckets[which].examples.take(rows))


def _given_params(path: str | os.PathLike | None, regal: RegalConfig) -> Any:
    """Parameters of a policy file, which must have the same configuration; None without a file."""
    if path is None:
        return None
    params, config, _ = checkpoints.load_policy(path, RegalConfig)
    if config != regal:
        raise OptionError(f"{path} holds a policy of another configuration: {config}")
    return params


def _prepare(
    graphs, label: str, *, objective: Objective, memory_capacity: int | None, regal, config
) -> list[Bucket]:
    with progress.bar(label, len(graphs)) as update:
        done = iter(range(1, len(graphs) + 1))
        return prepare_examples(
            graphs,
            objective=objective,
            memory_capacity=memory_capacity,
            regal=regal,
            evaluations=config.evaluations,
            seed=config.seed,
            on_progress=lambda: update(next(done)),
        )
