"""The smallest training setup, shared so that the tests of training share compilations."""

import functools

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.regal import RegalConfig
from regal_jax.training.examples import Bucket, prepare_examples
from regal_jax.training.regal import TrainingConfig
from tests.policies.cases import random_graph

REGAL = RegalConfig(size=4, rounds=2, feature_evaluations=100)
CONFIG = TrainingConfig(evaluations=200, batch_size=2, samples=2, steps=5, learning_rate=1e-2)


def small_graphs() -> list[ComputationGraph]:
    return [random_graph(seed, 6) for seed in range(3)]


@functools.cache
def buckets() -> tuple[Bucket, ...]:
    """One bucket of three graphs of 6 ops, for the makespan."""
    found = prepare_examples(
        small_graphs(), objective="makespan", regal=REGAL, evaluations=200, seed=0
    )
    return tuple(found)
