"""Drawing schedules from a policy over their construction, and how likely they are."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from regal_jax.environments.construction import env
from regal_jax.environments.construction.env import ConstructionProblem, PartialSchedule
from regal_jax.policies.gflownet.types import FlowInputs, FlowLogits, FlowPolicy

MOST_TOGETHER = 5
"""Trajectories whose gradient is computed at once: larger numbers fall out of a processor's caches.
Only divisors of their number are used, since a remainder would be compiled for itself."""


class Trajectories(NamedTuple):
    """N complete constructions of one graph, padded to O steps.

    Attributes:
      op, device: int32[N, O], the actions; op O for padding.
      start: float[N, O], us, of each op. device_of: int32[N, O], where each op is.
      makespan: float[N], us.
    """

    op: jax.Array
    device: jax.Array
    start: jax.Array
    device_of: jax.Array
    makespan: jax.Array


class Likelihood(NamedTuple):
    """Log-probabilities of the steps of N trajectories; 0 for padding.

    Attributes:
      forward, backward: float[N, O], of adding each op, and of taking it away again.
      flow: float[N, O], of the state before each step.
      entropy: float[N, O], of the forward distribution before each step.
    """

    forward: jax.Array
    backward: jax.Array
    flow: jax.Array
    entropy: jax.Array


def sample(
    policy: FlowPolicy,
    params: Any,
    key: chex.PRNGKey,
    inputs: FlowInputs,
    log_temperature: jax.Array,
    *,
    num_devices: int,
    count: int,
) -> Trajectories:
    """Draws ``count`` schedules; all are complete and feasible."""
    encoding = policy.encode(params, inputs, log_temperature)
    first = env.empty(inputs.problem, num_devices)

    def draw(key):
        def add(state, uniform):
            found = policy.logits(params, encoding, inputs, state)
            op, device = _chosen(found, uniform, len(state.device))
            return env.step(inputs.problem, state, op, device), (op, device)

        uniform = jax.random.uniform(key, inputs.problem.duration.shape)
        last, (op, device) = jax.lax.scan(add, first, uniform)
        finish = env.makespan(inputs.problem, last)
        return Trajectories(op, device, last.start, last.device, finish)

    return jax.vmap(draw)(jax.random.split(key, count))


def states(
    problem: ConstructionProblem, op: jax.Array, device: jax.Array, *, num_devices: int
) -> PartialSchedule:
    """The states of one trajectory, op and device int32[O]: before each step, and the last one."""
    first = env.empty(problem, num_devices)

    def add(state, action):
        return env.step(problem, state, *action), state

    last, before = jax.lax.scan(add, first, (op, device))
    return jax.tree.map(lambda rows, row: jnp.concatenate([rows, row[None]]), before, last)


def likelihood(
    policy: FlowPolicy,
    params: Any,
    inputs: FlowInputs,
    log_temperature: jax.Array,
    op: jax.Array,
    device: jax.Array,
    *,
    num_devices: int,
) -> Likelihood:
    """Of trajectories int32[N, O]; differentiable in the parameters.

    Each trajectory's intermediate values are computed again for the gradient, so that memory is
    that of a few trajectories.
    """
    encoding = policy.encode(params, inputs, log_temperature)

    @jax.checkpoint
    def of_one(params, encoding, op, device):
        visited = states(inputs.problem, op, device, num_devices=num_devices)
        visited = jax.lax.stop_gradient(visited)
        every = jax.vmap(lambda state: policy.logits(params, encoding, inputs, state))(visited)
        before = jax.tree.map(lambda rows: rows[:-1], every)
        took = (before.op == op[:, None])[..., None] & (
            jnp.arange(num_devices) == device[:, None, None]
        )
        gone = jnp.arange(num_devices) == device[:, None]
        real = op < len(op)
        log_p = jnp.where(jnp.isfinite(before.forward), before.forward, 0.0)
        return Likelihood(
            forward=jnp.where(real, jnp.sum(jnp.where(took, log_p, 0.0), axis=(1, 2)), 0.0),
            backward=jnp.where(
                real, jnp.sum(jnp.where(gone, every.backward[1:], 0.0), axis=1), 0.0
            ),
            flow=jnp.where(real, before.flow, 0.0),
            entropy=jnp.where(real, -jnp.sum(jnp.exp(before.forward) * log_p, axis=(1, 2)), 0.0),
        )

    together = max(size for size in range(1, MOST_TOGETHER + 1) if len(op) % size == 0)
    return jax.lax.map(
        lambda rows: of_one(params, encoding, *rows), (op, device), batch_size=together
    )


def _chosen(found: FlowLogits, uniform: jax.Array, num_ops: int) -> tuple[jax.Array, jax.Array]:
    """(op, device): where the cumulative probability passes a uniform number in [0, 1); op
    ``num_ops`` where nothing can be added.

    One random number a step: Gumbel noise on every action takes four times as long as all the rest
    of a uniform policy's step.
    """
    passed = jnp.cumsum(jnp.exp(found.forward).ravel())
    row, device = jnp.divmod(jnp.argmax(passed > uniform * passed[-1]), found.forward.shape[1])
    op = jnp.where(passed[-1] > 0, found.op[row], num_ops)
    return op.astype(jnp.int32), device.astype(jnp.int32)
