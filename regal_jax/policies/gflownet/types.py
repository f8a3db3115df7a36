"""What policies over the construction of schedules take and give; see ``flow_policy``."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp

from regal_jax.environments.construction.env import ConstructionProblem, PartialSchedule
from regal_jax.graphs.features.construction import MakespanFeatureSet
from regal_jax.graphs.features.relations import Relations
from regal_jax.policies.networks.topoformer import EncoderConfig

NetworkName = Literal["reencode", "encode_once"]


@dataclasses.dataclass(frozen=True)
class FlowConfig(EncoderConfig):
    """A network and what it sees of graphs.

    Attributes:
      network: see ``flow_policy``.
      feature_set: see ``makespan_features``; the paper's is the duration alone.
      num_devices: of "reencode", which has a feature and a logit for each.
      head_width: of the heads of "encode_once".
      guided: a new "encode_once" policy is list scheduling by critical path, softened by the
        temperature (``encode_once.FIRST_GUIDES``); else it is uniform over the actions. (Not in the
        paper.)
      max_ops: the largest graph that the policy is for; 0 is any.
    """

    network: NetworkName = "reencode"
    feature_set: MakespanFeatureSet = "paper"
    num_devices: int = 4
    head_width: int = 32
    guided: bool = False
    max_ops: int = 0

    @property
    def symmetric(self) -> bool:
        """Whether states are taken up to names of devices."""
        return self.network == "encode_once"


@chex.dataclass(frozen=True)
class FlowInputs:
    """What a policy sees of a graph on D devices, padded to O ops.

    Attributes:
      problem: the graph, for construction.
      features: float32[O, F]. relations: of the ops.
      tail: float32[O], us: the longest path of durations from each op on, itself included.
      rank: float32[O], us: the same with every transfer on the path (HEFT's upward rank).
      bound: float32[], us: a lower bound on the makespan, the unit of times for networks.
      window: bool[W], as many as ops can be ready at once; only its length matters.
    """

    problem: ConstructionProblem
    features: chex.Array
    relations: Relations
    tail: chex.Array
    rank: chex.Array
    bound: chex.Array
    window: chex.Array


class FlowLogits(NamedTuple):
    """What a policy says of a state.

    Attributes:
      op: int32[W], the ops that the rows are for; O or more for rows of none.
      forward: float[W, D], log-probabilities of adding an op to a device; -inf if invalid.
      backward: float[D], log-probabilities of taking away a device's last op; -inf if invalid.
      flow: float[], of the state: its value in PPO.
    """

    op: jax.Array
    forward: jax.Array
    backward: jax.Array
    flow: jax.Array


class FlowPolicy(NamedTuple):
    """Functions of a policy.

    Attributes:
      init: (key, inputs, num_devices) -> params.
      encode: (params, inputs, log_temperature float[]) -> encoding, which all states share.
      logits: (params, encoding, inputs, state) -> FlowLogits.
      symmetric: how devices may be opened, see ``construction``.
    """

    init: Callable[[chex.PRNGKey, FlowInputs, int], Any]
    encode: Callable[[Any, FlowInputs, jax.Array], Any]
    logits: Callable[[Any, Any, FlowInputs, PartialSchedule], FlowLogits]
    symmetric: bool


def masked_log_softmax(logits: jax.Array, valid: jax.Array) -> jax.Array:
    """Log-probabilities over all valid entries, -inf for the others (all of them if none is)."""
    guarded = jnp.where(valid, logits, 0.0)
    found = jax.nn.log_softmax(guarded, axis=None, where=valid | ~jnp.any(valid))
    return jnp.where(valid, found, -jnp.inf)
