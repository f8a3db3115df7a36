"""The training loop: batches, steps, validation, logs, checkpoints; it resumes where it stopped."""

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from regal_jax.errors import OptionError
from regal_jax.policies.regal.policy import RegalConfig, regal_search
from regal_jax.training import checkpoints
from regal_jax.training.metrics_log import MetricsLog
from regal_jax.training.regal import Examples, TrainingConfig, TrainState, init_state, train_step
from regal_jax.training.regal_examples import Bucket

METRICS = (
    "reward",
    "advantage_std",
    "baseline_error",
    "entropy",
    "gradient_norm",
    "validation_improvement",
)


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
    """Trains a policy; an interrupted run continues to the same parameters.

    Args:
      buckets, validation: training and validation examples, from ``prepare_examples``.
      regal, config: the policy and how to train it.
      directory: gets ``checkpoints/``, ``metrics.csv`` and ``best.policy`` (of best validation).
      validate_every: steps between validations, which are also when checkpoints are written.
      about: goes into the policy file.
      initial_policy: policy parameters to start from, fresh ones by default. They are validated,
        too, so that the result is not worse.
      on_step: called with (step, metrics) after each step.

    Returns:
      (policy parameters of best validation, their mean improvement over BRKGA in percent).
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    mesh = Mesh(np.array(jax.devices()), ("graphs",))
    if config.batch_size % mesh.size:
        raise OptionError(
            f"batch_size ({config.batch_size}) must be a multiple of the {mesh.size} devices"
        )
    step_fn = jax.jit(
        functools.partial(train_step, regal=regal, config=config, mesh=mesh),
        static_argnames="model",
    )
    init_key, train_key = jax.random.split(jax.random.key(config.seed))
    state = init_state(init_key, buckets[0].examples.take(np.array(0)).inputs, regal, config)
    if initial_policy is not None:
        params = {**state.params, "policy": initial_policy}
        state = TrainState(params=params, optimizer=state.optimizer, step=state.step)
    state = jax.device_put(state, NamedSharding(mesh, P()))
    best = {"improvement": jnp.float32(-np.inf), "policy": state.params["policy"]}
    best = jax.device_put(best, NamedSharding(mesh, P()))
    log = MetricsLog(directory / "metrics.csv", METRICS)

    def keep_better(state: TrainState, best: dict) -> tuple[jax.Array, dict]:
        """(improvement of these parameters on validation, the better of the two policies)."""
        params = state.params["policy"]
        improvement = jnp.float32(validate(params, validation, regal=regal, config=config))
        if improvement <= best["improvement"]:
            return improvement, best
        facts = {"steps": int(state.step), "validation_improvement": float(improvement)}
        path = directory / "best.policy"
        checkpoints.save_policy(path, params, regal, about={**(about or {}), **facts})
        best = {"improvement": improvement, "policy": params}
        return improvement, jax.device_put(best, NamedSharding(mesh, P()))

    with checkpoints.checkpoint_manager(directory / "checkpoints") as manager:
        state, best = checkpoints.restore_latest(manager, (state, best))
        log.start_at(int(state.step))
        if initial_policy is not None and int(state.step) == 0:
            _, best = keep_better(state, best)
        for step in range(int(state.step), config.steps):
            bucket, batch = _batch(buckets, config, step, mesh)
            key = jax.random.fold_in(train_key, step)
            state, metrics = step_fn(key, state, batch, model=bucket.model)
            if (step + 1) % validate_every == 0 or step + 1 == config.steps:
                improvement, best = keep_better(state, best)
                metrics["validation_improvement"] = improvement
            values = {name: float(value) for name, value in metrics.items()}
            log.write(step + 1, values)  # before the checkpoint: a resumed run has all rows
            if "validation_improvement" in metrics:
                checkpoints.save_checkpoint(manager, step + 1, (state, best))
            on_step(step + 1, values)
    return best["policy"], float(best["improvement"])


def validate(
    params: Any, buckets: Sequence[Bucket], *, regal: RegalConfig, config: TrainingConfig
) -> float:
    """Mean improvement (%) over BRKGA of the same budget, of the most likely actions."""
    gains = []
    for bucket in buckets:
        examples, keys = (
            bucket.examples,
            jax.random.split(jax.random.key(config.seed + 1), bucket.examples.num_graphs),
        )
        for row in range(examples.num_graphs):
            one = examples.take(np.array(row))
            cost = _search_cost(params, keys[row], one, bucket.model, regal, config.evaluations)
            gains.append(100.0 * (1.0 - float(cost) / max(float(one.reference), 1e-30)))
    return float(np.mean(gains))


@functools.partial(jax.jit, static_argnames=("model", "regal", "evaluations"))
def _search_cost(params, key, example: Examples, model, regal: RegalConfig, evaluations: int):
    result = regal_search(
        params,
        key,
        model,
        example.graph,
        evaluations - regal.evaluations_before,
        inputs=example.inputs,
        config=regal,
    )
    return jnp.min(result.state.costs)


def _batch(buckets, config: TrainingConfig, step: int, mesh: Mesh) -> tuple[Bucket, Examples]:
    """A bucket, drawn by its number of graphs, and a batch of it: a function of (seed, step)."""
    rng = np.random.default_rng((config.seed, step))
    sizes = np.array([bucket.examples.num_graphs for bucket in buckets], float)
    bucket = buckets[rng.choice(len(buckets), p=sizes / sizes.sum())]
    rows = rng.integers(bucket.examples.num_graphs, size=config.batch_size)
    batch = bucket.examples.take(rows)
    return bucket, jax.device_put(batch, NamedSharding(mesh, P("graphs")))


__all__ = ["TrainState", "train", "validate"]
