"""Priorities of a machine problem's ops in one pass (one_shot_priority_sampling, 3.2).

Schedules are made from the logits by list scheduling: of the logits themselves ("greedy"), or with
Gumbel noise added (``plackett_luce``).

List scheduling never lets units idle while a ready op fits, and misses the optimum of some graphs.
So a policy can (ours) also say of each op whether it may *hold* units that it can't use yet, for
the "lookahead" generation of ``MachineProblem``: independently of the others, with learned odds. An
op that holds has a window of 1, the graph's longest duration; all others have none.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.environments.rcpsp.problem import Generation, MachineProblem
from regal_jax.graphs.features.rcpsp import MachineFeatureSet
from regal_jax.graphs.features.relations import Relations
from regal_jax.policies.networks.message_passing import MLP
from regal_jax.policies.networks.topoformer import Encoder, EncoderConfig
from regal_jax.policies.one_shot import plackett_luce
from regal_jax.policies.topological_order.policy import OrderingInputs
from regal_jax.policies.topological_order.sampler import standardised

FIRST_HOLD = 0.05
"""Probability that an op holds, of a new policy. On 60 random projects of 30 ops, samples of a new
guided policy are then 0.1 % longer on average, the best of 64 is 1.3 % shorter."""


@dataclasses.dataclass(frozen=True)
class OneShotConfig(EncoderConfig):
    """An encoder and what it sees; the defaults are the paper's (F.2, F.3).

    Attributes:
      dimensions: of the Laplacian positional encoding.
      feature_set, num_types: see ``machine_features``.
      generation: how schedules are made of priorities, see ``MachineProblem``; the paper's is
        "parallel". For "lookahead" the policy also says which ops hold (ours). A new one holds each
        op with probability ``FIRST_HOLD``, so its most likely schedule is that of list scheduling.
      guided: a new policy ranks ops as the best of the simple rules does on
        the graph at hand, which it also sees (not in the paper).
      guide_scale: then its logits go from this number down to its negative.
      standardised: logits of mean 0 and deviation 5, as in neural_topological_ordering (eq. 17):
        the ablation of appendix H.
    """

    dimensions: int = 20
    feature_set: MachineFeatureSet = "paper"
    num_types: int = 1
    guided: bool = False
    guide_scale: float = 20.0
    standardised: bool = False
    generation: Generation = "parallel"

    @property
    def windows(self) -> bool:
        """Whether the policy says which ops hold."""
        return self.generation == "lookahead"


class Scores(NamedTuple):
    """What a policy says of a graph's ops, all it takes to draw schedules.

    Attributes:
      logits: float32[O], of the ranking; 0 for padding.
      holds: float32[O], log-odds that an op holds; 0 for padding. None without windows.
    """

    logits: chex.Array
    holds: chex.Array | None = None


class Draws(NamedTuple):
    """Drawn schedules.

    Attributes:
      priorities: float32[N, O], perturbed logits.
      rankings: int32[N, O], that they make.
      holds: bool[N, O], which ops hold; None without windows.
    """

    priorities: np.ndarray
    rankings: np.ndarray
    holds: np.ndarray | None


class OneShotPolicy(NamedTuple):
    """A distribution over rankings of ops, and which ops hold, given parameters.

    Attributes:
      init: (key, inputs) -> params.
      encode: (params, inputs) -> Scores.
    """

    init: Callable[..., Any]
    encode: Callable[..., Scores]


class Heads(nn.Module):
    """Scores of ops: logits (eq. 6) and, with windows, the log-odds of holding.

    With ``guided``, the first feature is added to the logits times a learned number, and a new
    policy has that alone. Log-odds have a head of their own.
    """

    config: OneShotConfig

    @nn.compact
    def __call__(self, features: jax.Array, related: Relations) -> Scores:
        config = self.config
        state = Encoder(config, name="encoder")(features, related)
        logits, holds = self._logits(state, features, related), None
        if config.windows:
            first = nn.initializers.constant(math.log(FIRST_HOLD / (1 - FIRST_HOLD)))
            holds = MLP(config.size, 1, zero_last=True, name="hold_head")(state)[:, 0]
            holds = jnp.where(related.real, holds + self.param("hold", first, ()), 0.0)
        return Scores(logits, holds)

    def _logits(self, state: jax.Array, features: jax.Array, related: Relations) -> jax.Array:
        config = self.config
        logits = MLP(config.size, 1, zero_last=config.guided, name="head")(state)[:, 0]
        if config.guided:
            scale = nn.initializers.constant(config.guide_scale)
            logits += self.param("guide", scale, ()) * features[:, 0]
        if config.standardised:
            return standardised(logits, related.real)
        return jnp.where(related.real, logits, 0.0)


@registry.policy("one_shot", OneShotConfig)
def one_shot_policy(config: OneShotConfig) -> OneShotPolicy:
    """The policy of a configuration."""
    module = Heads(config)

    def init(key, inputs: OrderingInputs):
        return module.init(key, inputs.features, inputs.relations)

    def encode(params, inputs: OrderingInputs):
        return module.apply(params, inputs.features, inputs.relations)

    return OneShotPolicy(init, encode)


def draw(rng: np.random.Generator, scores: Scores, count: int) -> Draws:
    """Draws schedules from numpy scores without padding."""
    priorities, rankings = plackett_luce.draw(rng, scores.logits, count)
    if scores.holds is None:
        return Draws(priorities, rankings, None)
    return Draws(priorities, rankings, scores.holds + rng.logistic(size=priorities.shape) > 0)


def greedy(scores: Scores) -> Draws:
    """The most likely schedule, as the only one: holds are those of odds above 1."""
    priorities = np.asarray(scores.logits, np.float32)[None]
    holds = None if scores.holds is None else scores.holds[None] > 0
    return Draws(priorities, plackett_luce.ranked(priorities), holds)


def chromosomes(
    problem: MachineProblem, priorities: np.ndarray, holds: np.ndarray | None = None
) -> np.ndarray:
    """float32[N, genes]: of priorities float32[N, O] and which ops hold, bool[N, O], none if None.

    Only "lookahead" generation has windows; for the others ``holds`` don't matter.
    """
    genes = np.zeros((len(priorities), problem.num_genes), np.float32)
    genes[:, : problem.num_ops] = priorities
    if problem.generation == "lookahead" and holds is not None:
        genes[:, problem.num_ops :] = holds
    return genes


def log_prob(
    scores: Scores, rankings: jax.Array, holds: jax.Array | None, num_ops: jax.Array | int
) -> jax.Array:
    """float[N]: log-probabilities of rankings int32[N, O] (eq. 10) and, if the scores have windows,
    of holds bool[N, O], which are independent. Padding comes last, and doesn't count."""
    found = plackett_luce.log_prob(scores.logits, rankings, num_ops)
    if scores.holds is None:
        return found
    assert holds is not None
    each = jax.nn.log_sigmoid(jnp.where(holds, scores.holds, -scores.holds))
    real = jnp.arange(each.shape[-1]) < num_ops
    return found + jnp.sum(jnp.where(real, each, 0.0), axis=-1)
