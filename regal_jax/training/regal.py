"""REINFORCE for REGAL (section 3.4): the policy is rewarded by what the search it steers finds."""

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from regal_jax.environments.placement.cost import CostModel
from regal_jax.graphs.features.placement import PolicyInputs
from regal_jax.policies.networks.message_passing import GraphValue
from regal_jax.policies.regal.policy import RegalConfig, learned_search


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


class Examples(NamedTuple):
    """Training problems of one padded shape, stacked; N of them.

    Attributes:
      graph: what ``fitness.costs`` takes, stacked.
      inputs: PolicyInputs, stacked.
      reference: float32[N], o_s: what standard BRKGA finds with the training budget.
    """

    graph: Any
    inputs: PolicyInputs
    reference: Any

    @property
    def num_graphs(self) -> int:
        return len(self.reference)

    def take(self, rows: np.ndarray) -> "Examples":
        return jax.tree.map(lambda leaf: leaf[rows], self)


@chex.dataclass(frozen=True)
class TrainState:
    """Everything a training step changes.

    Attributes:
      params: {"policy": ..., "baseline": ...}.
      optimizer: state of optax.
      step: int32[].
    """

    params: Any
    optimizer: Any
    step: chex.Array


def make_optimizer(config: TrainingConfig) -> optax.GradientTransformation:
    """Adam (0.9, 0.999, 1e-8) behind a clip of the gradient's L2 norm (A.5)."""
    return optax.chain(
        optax.clip_by_global_norm(config.clip_norm),
        optax.adam(config.learning_rate, b1=0.9, b2=0.999, eps=1e-8),
    )


def init_state(
    key: chex.PRNGKey, inputs: PolicyInputs, regal: RegalConfig, config: TrainingConfig
) -> TrainState:
    """Fresh parameters, from the shapes of one graph's inputs."""
    policy_key, baseline_key = jax.random.split(key)
    params = {"policy": regal.policy.init(policy_key, inputs)}
    if config.samples == 1:
        params["baseline"] = _baseline(regal).init(baseline_key, inputs)
    return TrainState(
        params=params, optimizer=make_optimizer(config).init(params), step=jnp.int32(0)
    )


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
    updates, optimizer = make_optimizer(config).update(gradient, state.optimizer, state.params)
    metrics["gradient_norm"] = optax.global_norm(gradient)
    params = optax.apply_updates(state.params, updates)
    return TrainState(params=params, optimizer=optimizer, step=state.step + 1), metrics


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
    evaluations = config.evaluations - regal.evaluations_before
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, config.samples, axis=0), batch)
    keys = jnp.repeat(keys, config.samples)
    flat = actions.reshape(-1, *actions.shape[2:])

    def best(key, graph, inputs, actions):
        result = learned_search(
            key, model, graph, evaluations, inputs=inputs, actions=actions, space=regal.space
        )
        return jnp.min(result.state.costs)

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
        others = jnp.sum(rewards, axis=1, keepdims=True) - rewards
        return others / (config.samples - 1)
    value = jax.vmap(_baseline(regal).apply, (None, 0))(params["baseline"], batch.inputs)
    return jnp.asarray(value)[:, None]


def _baseline(regal: RegalConfig) -> GraphValue:
    return GraphValue(size=regal.size, rounds=regal.rounds, normalise=regal.normalise)
