"""Proximal policy optimisation on the construction of schedules, a baseline of
gflownet_robust_scheduling (sections 5 and E.1): PPO-clip as in algorithm 1 of Spinning Up
(https://spinningup.openai.com/en/latest/algorithms/ppo.html), with an entropy bonus.

States, actions and the reward are those of the flow network, at one temperature; the only reward is
at the end, so with a discount of 1 the return of every step is that of the schedule. The value
function is a head on the policy's encoder (Spinning Up has a network of its own for it).
"""

import dataclasses
import functools
import math

import chex
import jax
import jax.numpy as jnp
import optax

from regal_jax import registry
from regal_jax.errors import OptionError
from regal_jax.policies.gflownet.policy import FlowConfig, FlowInputs
from regal_jax.policies.gflownet.rollout import Likelihood
from regal_jax.training import flow, trainer
from regal_jax.training.flow import FlowBatch, FlowPlan
from regal_jax.training.flow_objectives import log_reward
from regal_jax.training.trainer import Learner, TrainState

METRICS = ("loss", "speedup", "best_speedup", "entropy", "passes", "gradient_norm")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOTraining(FlowPlan):
    """Hyperparameters; the paper gives the temperature and that both the entropy's weight and the
    learning rate decay, the others are Spinning Up's or, where marked, ours. Deviation: the value
    function is a head on the policy's encoder.

    Attributes:
      temperature: of the reward.
      clip_ratio: of the likelihoods' ratio, epsilon.
      passes: most gradient steps on a batch of trajectories (ours; Spinning Up has 80).
      target_divergence: of old and new policy, where passes end at 1.5 times it.
      value_weight: of the value's square error (ours).
      entropy_weight: of the mean entropy of a step, at first (ours).
      final_entropy, final_rate: of the entropy's weight and the learning rate, what is left of them
        at the last step, both decay exponentially (ours).
    """

    temperature: float = 0.25
    clip_ratio: float = 0.2
    passes: int = 8
    target_divergence: float = 0.01
    value_weight: float = 0.5
    entropy_weight: float = 0.03
    final_entropy: float = 0.01
    final_rate: float = 0.1

    @property
    def temperatures(self) -> tuple[float, float]:
        return self.temperature, self.temperature

    @property
    def validation_temperature(self) -> float:
        return self.temperature

    @property
    def growing(self) -> tuple[str, ...]:
        return super().growing if self.final_rate == self.final_entropy == 1 else ()


def learner(policy: FlowConfig, config: PPOTraining) -> Learner:
    """PPO for ``train_flow``. OptionError for options out of range."""
    if not 0 < config.temperature < math.inf:
        raise OptionError(f"temperature must be a positive number, got {config.temperature}")
    if config.passes < 1 or config.trajectories < 2:
        raise OptionError("PPO needs at least one pass and two trajectories")
    if not (0 < config.final_rate <= 1 and 0 < config.final_entropy <= 1):
        raise OptionError("final_rate and final_entropy must be in (0, 1]")
    config = dataclasses.replace(config, seed=0)  # seeds share compilations

    def init(key, inputs):
        return init_state(key, inputs, policy, config)

    def update(key, state, batch: FlowBatch):
        inputs = jax.tree.map(lambda rows: rows[0], batch.inputs)
        return train_step(key, state, inputs, policy=policy, config=config)

    return Learner("ppo", init, update, lambda params: (None, {}), METRICS)


def make_optimizer(config: PPOTraining) -> optax.GradientTransformation:
    """Adam behind a clip of the gradient; the learning rate is that of the update, see
    ``train_step``."""
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), optax.scale_by_adam())


@functools.partial(jax.jit, static_argnames=("policy", "config"))
def init_state(key, inputs: FlowInputs, policy: FlowConfig, config: PPOTraining) -> TrainState:
    """Fresh parameters {"policy": ...}, from the shapes of one graph's inputs."""
    params = {"policy": registry.make_policy(policy).init(key, inputs, config.num_devices)}
    return trainer.new_state(params, make_optimizer(config), selects=False)


@functools.partial(jax.jit, static_argnames=("policy", "config"))
def train_step(
    key: chex.PRNGKey,
    state: TrainState,
    inputs: FlowInputs,
    *,
    policy: FlowConfig,
    config: PPOTraining,
) -> tuple[TrainState, dict[str, jax.Array]]:
    """Draws schedules of a graph and improves the policy on them; the new state and metrics."""
    log_temperature = jnp.float32(math.log(config.temperature))
    own = state.params["policy"]
    drawn = flow.drawn(own, key, inputs, log_temperature, policy, config)
    speedup = flow.speedups(inputs, drawn.makespan)
    returns = log_reward(speedup, config.num_devices, config.temperature)[:, None]
    real = flow.real_steps(drawn)
    share = state.step / config.steps
    entropy_weight = config.entropy_weight * config.final_entropy**share
    rate = config.learning_rate * config.final_rate**share
    seen = (drawn, inputs, log_temperature, policy, config)
    old = flow.likelihood(own, *seen)
    advantage = standardised(returns - old.flow, real)

    def loss(params):
        new = flow.likelihood(params["policy"], *seen)
        return ppo_loss(new, old, advantage, returns, real, entropy_weight, config), new

    def improve(carry):
        params, optimizer, _, passes, _ = carry
        (value, new), gradient = jax.value_and_grad(loss, has_aux=True)(params)
        updates, next_optimizer = make_optimizer(config).update(gradient, optimizer, params)
        moved = jax.tree.map(lambda leaf, update: leaf - rate * update, params, updates)
        far = mean(old.forward - new.forward, real) > 1.5 * config.target_divergence
        kept, changed = (params, optimizer), (moved, next_optimizer)
        params, optimizer = jax.tree.map(functools.partial(jnp.where, far), kept, changed)
        return params, optimizer, (value, optax.global_norm(gradient)), passes + 1, far

    def go_on(carry):
        return (carry[3] < config.passes) & ~carry[4]

    numbers = (jnp.float32(0.0), jnp.float32(0.0))
    start = (state.params, state.opt_state, numbers, jnp.int32(0), jnp.bool_(False))
    params, opt_state, (value, norm), passes, _ = jax.lax.while_loop(go_on, improve, start)
    metrics = {
        "loss": value,
        "speedup": jnp.mean(speedup),
        "best_speedup": jnp.max(speedup),
        "entropy": mean(old.entropy, real),
        "passes": passes,
        "gradient_norm": norm,
    }
    state = trainer.changed(state, params=params, opt_state=opt_state, step=state.step + 1)
    return state, metrics


def ppo_loss(
    new: Likelihood,
    old: Likelihood,
    advantage: jax.Array,
    returns: jax.Array,
    real: jax.Array,
    entropy_weight: jax.Array,
    config: PPOTraining,
) -> jax.Array:
    """float[]: the clipped objective's negative (eq. 7 of Schulman et al. 2017), the value's square
    error, and the entropy's bonus (their eq. 9); means over the steps."""
    ratio = jnp.exp(new.forward - old.forward)
    clipped = jnp.clip(ratio, 1 - config.clip_ratio, 1 + config.clip_ratio)
    gain = jnp.minimum(ratio * advantage, clipped * advantage)
    error = (new.flow - returns) ** 2
    return (
        -mean(gain, real)
        + config.value_weight * mean(error, real)
        - entropy_weight * mean(new.entropy, real)
    )


def standardised(advantage: jax.Array, real: jax.Array) -> jax.Array:
    """float[N, T]: of mean 0 and deviation 1 over the real steps."""
    centred = advantage - mean(advantage, real)
    return centred / (jnp.sqrt(mean(centred**2, real)) + 1e-8)


def mean(values: jax.Array, real: jax.Array) -> jax.Array:
    """float[]: over the real steps."""
    return jnp.sum(jnp.where(real, values, 0.0)) / jnp.maximum(jnp.sum(real), 1)
