"""The smallest training setup, shared so that the tests of training share compilations."""

import csv
import functools
from collections.abc import Callable
from pathlib import Path

import chex
import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.training import checkpoints
from regal_jax.training.regal import TrainingConfig, init_state, train_step
from regal_jax.training.regal_examples import Bucket, prepare_examples
from tests.policies.cases import random_graph

REGAL = RegalConfig(size=4, rounds=2, feature_evaluations=100)
CONFIG = TrainingConfig(evaluations=200, batch_size=2, samples=2, steps=5, learning_rate=1e-2)


def small_graphs() -> list[ComputationGraph]:
    return [random_graph(seed, 20) for seed in range(3)]


@functools.cache
def buckets() -> tuple[Bucket, ...]:
    """One bucket of three graphs of 20 ops, for the makespan."""
    found = prepare_examples(
        small_graphs(), objective="makespan", regal=REGAL, evaluations=200, seed=0
    )
    return tuple(found)


@functools.cache
def jitted_step(config: TrainingConfig, num_devices: int):
    """(a jitted ``train_step`` that fails if it is traced again, its mesh)."""
    mesh = Mesh(np.array(jax.devices()[:num_devices]), ("graphs",))

    @chex.assert_max_traces(n=1)
    def step(key, state, batch, *, model):
        return train_step(key, state, batch, model=model, regal=REGAL, config=config, mesh=mesh)

    return jax.jit(step, static_argnames="model"), mesh


def run_steps(count: int, config: TrainingConfig = CONFIG, *, num_devices: int = 1):
    """(state after so many steps on random batches, the reward at each)."""
    step, mesh = jitted_step(config, num_devices)
    bucket = buckets()[0]
    example = bucket.examples.take(np.array(0)).inputs
    state = init_state(jax.random.key(0), example, REGAL, config)
    state = jax.device_put(state, NamedSharding(mesh, P()))
    rewards = []
    for index in range(count):
        rows = np.random.default_rng(index).integers(3, size=config.batch_size)
        batch = jax.device_put(bucket.examples.take(rows), NamedSharding(mesh, P("graphs")))
        state, metrics = step(jax.random.key(index), state, batch, model=bucket.model)
        rewards.append(float(metrics["reward"]))
    return state, rewards


def stopped(stop_after: int | None):
    """An ``on_step`` that interrupts a run after a step."""

    def on_step(step, metrics):
        if step == stop_after:
            raise KeyboardInterrupt

    return on_step


def whole_as_resumed(
    run: Callable[..., object], folder: Path, *, stop_after: int, step: int
) -> Path:
    """The directory of a run to a step, which a stopped and resumed one ends like, bit for bit."""
    whole, resumed = folder / "whole", folder / "resumed"
    run(whole)
    with pytest.raises(KeyboardInterrupt):
        run(resumed, stop_after=stop_after)
    run(resumed)
    chex.assert_trees_all_equal(checkpoint(whole, step), checkpoint(resumed, step))
    assert rows(whole) == rows(resumed)
    return whole


def rows(directory: Path) -> list[dict[str, str]]:
    """metrics.csv without the seconds."""
    with (directory / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def checkpoint(directory: Path, step: int):
    """The latest checkpoint of a run, which is that of a step."""
    with checkpoints.checkpoint_manager(directory / "checkpoints") as manager:
        assert manager.latest_step() == step
        return manager.restore(step)[checkpoints.STATE]
