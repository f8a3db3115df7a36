"""What trainings of policies over the construction of schedules have in common."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from regal_jax.policies.gflownet.policy import FlowInputs


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowPlan:
    """Hyperparameters of any such training; the defaults are the paper's, where it has them
    (gflownet_robust_scheduling).

    Attributes:
      num_devices: identical devices, m.
      trajectories: drawn in an update (E.1).
      steps: updates; not in the paper.
      epoch_steps: updates between validations, each with a checkpoint.
      learning_rate: of Adam ("default hyperparameters", E.1).
      clip_norm: of the gradient's L2 norm (ours; at low temperatures the loss is large).
      min_subgraph, max_subgraph: ops of the random sub-graphs to train on (3.3), 25 and 75 in 5.3;
        0 for whole graphs.
      validation_samples, validation_top: schedules drawn of each validation graph, of which the
        best are looked at (section 5).
      seed: of everything random.
    """

    num_devices: int = 4
    trajectories: int = 100
    steps: int = 10_000
    epoch_steps: int = 500
    learning_rate: float = 1e-3
    clip_norm: float = 1.0
    min_subgraph: int = 0
    max_subgraph: int = 0
    validation_samples: int = 1000
    validation_top: int = 100
    seed: int = 0


class Learner(NamedTuple):
    """A way to train a policy.

    Attributes:
      name: of the system, goes into the policy file.
      init: (key, inputs) -> state, with params["policy"] and step.
      update: (key, state, inputs, rng) -> (state, metrics).
      metrics: names of what ``update`` reports.
      test_temperature: at which the policy's schedules are looked at.
    """

    name: str
    init: Callable[[Any, FlowInputs], Any]
    update: Callable[[Any, Any, FlowInputs, np.random.Generator], tuple[Any, dict[str, Any]]]
    metrics: tuple[str, ...]
    test_temperature: float
