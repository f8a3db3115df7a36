"""REINFORCE for one-shot priority sampling (one_shot_priority_sampling, 3.3 and algorithm 1).

What is drawn are rankings; with windows (ours, see ``policies.one_shot``) also which ops hold. The
penalty of eq. 12 is of the rankings' logits alone.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from regal_jax.policies.one_shot.policy import (
    Draws,
    OneShotConfig,
    Scores,
    chromosomes,
    draw,
    greedy,
    log_prob,
    one_shot_policy,
)
from regal_jax.policies.topological_order.policy import OrderingInputs, flip_signs

OneShotBaseline = Literal["standardised", "greedy_rollout"]


@dataclasses.dataclass(frozen=True)
class OneShotTraining:
    """Hyperparameters of training; the defaults are the paper's, where it has them (3.3, F).

    Attributes:
      batch_size: graphs a step; the gradient is their mean.
      epochs: times that all graphs are seen; the paper has 100 for TPC-H, 20 for the others.
      samples: rankings a graph and step, N; the paper has 2000 for TPC-H.
      learning_rate: of Adam (the paper doesn't say).
      clip_norm: of the gradient's L2 norm (not in the paper); "inf" for none.
      c_logits: weight of the logits' mean square (eq. 12).
      epsilon: least deviation that costs are divided by (eq. 13), in the unit of the makespans as
        they are: the graphs' own.
      baseline: "standardised" is eq. 13. "greedy_rollout" is the ablation of appendix H: costs less
        that of the greedy schedule of the parameters that were best on the validation graphs so
        far, in the graphs' unit.
      validation_samples: schedules are compared by the best of so many samples, 0: by the greedy
        one.
      seed: of everything random.
    """

    batch_size: int = 1
    epochs: int = 20
    samples: int = 1000
    learning_rate: float = 1e-4
    clip_norm: float = 1.0
    c_logits: float = 0.001
    epsilon: float = 0.1
    baseline: OneShotBaseline = "standardised"
    validation_samples: int = 0
    seed: int = 0


class OneShotExample(NamedTuple):
    """A graph to train on: what the policy sees of it, padded, and what a schedule costs."""

    inputs: OrderingInputs
    problem: MachineProblem


@chex.dataclass(frozen=True)
class OneShotState:
    """Everything that training changes.

    Attributes:
      params: of the policy. baseline: parameters that were best on the validation graphs.
      best: float32[], their mean cost there, relative to the lower bound.
      optimizer: state of optax. step: int32[]. epoch: int32[], epochs that are over.
    """

    params: Any
    baseline: Any
    best: chex.Array
    optimizer: Any
    step: chex.Array
    epoch: chex.Array


def make_optimizer(config: OneShotTraining) -> optax.GradientTransformation:
    """Adam behind a clip of the gradient."""
    return optax.chain(
        optax.clip_by_global_norm(config.clip_norm), optax.adam(config.learning_rate)
    )


def init_state(key, inputs: OrderingInputs, policy: OneShotConfig, config: OneShotTraining):
    """A OneShotState with fresh parameters, from the shapes of one graph's inputs."""
    return with_params(one_shot_policy(policy).init(key, inputs), config)


def with_params(params: Any, config: OneShotTraining) -> OneShotState:
    """A OneShotState that begins from given parameters."""
    return OneShotState(
        params=params,
        baseline=params,
        best=jnp.float32(jnp.inf),
        optimizer=make_optimizer(config).init(params),
        step=jnp.int32(0),
        epoch=jnp.int32(0),
    )


def scores(params: Any, example: OneShotExample, policy: OneShotConfig) -> Scores:
    """The scores of a graph, without padding. OptionError if they aren't finite."""
    found = _scores(params, example.inputs, policy)
    found = jax.tree.map(lambda leaf: np.asarray(leaf)[: example.problem.num_ops], found)
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found)):
        raise OptionError("logits are not finite: training has diverged; a lower learning_rate?")
    return found


def costs(problem: MachineProblem, drawn: Draws) -> np.ndarray:
    """float64[N]: makespans of drawn schedules, in the graph's unit of time; on all cores."""
    return problem.makespans(chromosomes(problem, drawn.priorities, drawn.holds))


def standardised(makespans: np.ndarray, epsilon: float) -> np.ndarray:
    """float64[N]: eq. 13; the deviation is that of the samples themselves (over N, not N - 1)."""
    return (makespans - makespans.mean()) / max(makespans.std(), epsilon)


def train_step(
    key: chex.PRNGKey,
    state: OneShotState,
    batch: Sequence[OneShotExample],
    *,
    policy: OneShotConfig,
    config: OneShotTraining,
) -> tuple[OneShotState, dict[str, float]]:
    """One gradient step on a few graphs, one after the other; the new state and scalar metrics."""
    gradient, metrics = None, []
    for index, example in enumerate(batch):
        one = jax.random.fold_in(key, index)
        found, numbers = _one_graph(one, state, example, policy, config)
        gradient = found if gradient is None else jax.tree.map(jnp.add, gradient, found)
        metrics.append(numbers)
    state, norm = _update(state, gradient, len(batch), config)
    means = {name: float(np.mean([row[name] for row in metrics])) for name in metrics[0]}
    return state, {**means, "gradient_norm": float(norm)}


def _one_graph(key, state: OneShotState, example: OneShotExample, policy, config):
    """(gradient of a graph's loss, metrics)."""
    flip_key, sample_key = jax.random.split(key)
    example = example._replace(inputs=_flip(flip_key, example.inputs, policy))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(sample_key)))
    drawn = draw(rng, scores(state.params, example, policy), config.samples)
    makespans = costs(example.problem, drawn)
    if config.baseline == "standardised":
        advantage = standardised(makespans, config.epsilon)
    else:
        advantage = makespans - _greedy_cost(state.baseline, example, policy)
    gradient, numbers = _gradient(
        state.params,
        example.inputs,
        _padded(drawn, len(example.inputs.features)),
        advantage.astype(np.float32),
        policy,
        config.c_logits,
    )
    relative = makespans / max(example.problem.lower_bound, 1e-30)
    metrics = {"cost": relative.mean(), "best_cost": relative.min(), "cost_std": relative.std()}
    return gradient, {**metrics, **jax.device_get(numbers)}


def _greedy_cost(params, example: OneShotExample, policy) -> float:
    return float(costs(example.problem, greedy(scores(params, example, policy)))[0])


def _padded(drawn: Draws, num_ops: int) -> tuple[np.ndarray, np.ndarray | None]:
    """(rankings int32[N, num_ops], holds bool[N, num_ops]): padding is ranked last, holds not."""
    count, first = drawn.rankings.shape
    rest = np.arange(first, num_ops, dtype=np.int32)
    rankings = np.concatenate([drawn.rankings, np.tile(rest, (count, 1))], axis=1)
    if drawn.holds is None:
        return rankings, None
    return rankings, np.pad(drawn.holds, ((0, 0), (0, num_ops - first)))


@functools.partial(jax.jit, static_argnames="policy")
def _scores(params, inputs, policy):
    return one_shot_policy(policy).scores(params, inputs)


@functools.partial(jax.jit, static_argnames="policy")
def _flip(key, inputs, policy):
    return flip_signs(key, inputs, policy.dimensions)


@functools.partial(jax.jit, static_argnames="policy")
def _gradient(params, inputs: OrderingInputs, drawn, advantage, policy, c_logits):
    """Lines 7 and 8 of algorithm 1, of ``_padded`` draws."""
    num_ops = jnp.sum(inputs.relations.real)

    def loss(params):
        found = one_shot_policy(policy).scores(params, inputs)
        likelihood = log_prob(found, *drawn, num_ops)
        norm = jnp.sum(found.logits**2) / num_ops  # eq. 12; logits of padding are 0
        numbers = {"log_prob": jnp.mean(likelihood), "logit_norm": norm}
        return jnp.mean(advantage * likelihood) + c_logits * norm, numbers

    return jax.grad(loss, has_aux=True)(params)


@functools.partial(jax.jit, static_argnames=("count", "config"))
def _update(state, gradient, count: int, config):
    gradient = jax.tree.map(lambda leaf: leaf / count, gradient)
    updates, optimizer = make_optimizer(config).update(gradient, state.optimizer, state.params)
    params = optax.apply_updates(state.params, updates)
    state = dataclasses.replace(state, params=params, optimizer=optimizer, step=state.step + 1)
    return state, optax.global_norm(gradient)
