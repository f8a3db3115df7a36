"""Schedules op by op as environments of torchgfn and gfnx, for uniform policies.

Peers of ``flow_trajectories.py``. Transfer times are left out, and what takes ops away again, which
drawing schedules doesn't need. Each function returns a call that draws schedules: op, device [B, O]
and makespan [B], as numpy arrays.
"""

from collections.abc import Callable

import numpy as np

from regal_jax.graphs.computation_graph import ComputationGraph


def with_gfnx(graph: ComputationGraph, num_devices: int, count: int) -> Callable:
    """gfnx's jitted ``forward_rollout``; it keeps all states of all trajectories."""
    import chex
    import gfnx
    import jax
    import jax.numpy as jnp
    from gfnx.base import BaseEnvParams, BaseEnvState, BaseRewardModule, BaseVecEnvironment

    before = jnp.asarray(_before(graph))
    duration = jnp.asarray(graph.duration, jnp.float32)
    num_ops = graph.num_ops

    @chex.dataclass(frozen=True)
    class State(BaseEnvState):
        device: chex.Array  # int32[B, O], -1 if not in the schedule
        arrival: chex.Array  # float32[B, O], when all inputs are there
        missing: chex.Array  # int32[B, O]
        free: chex.Array  # float32[B, D]

    class Reward(BaseRewardModule):
        def init(self, rng_key, dummy_state):
            return None

        def log_reward(self, state, env_params):
            return -jnp.max(state.free, axis=1)

        def reward(self, state, env_params):
            return jnp.exp(self.log_reward(state, env_params))

    class Environment(BaseVecEnvironment):
        name = "schedules"
        max_steps_in_episode = num_ops

        def get_init_state(self, num_envs):
            no = jnp.zeros(num_envs, bool)
            return State(
                is_terminal=no,
                is_initial=~no,
                is_pad=no,
                device=jnp.full((num_envs, num_ops), -1),
                arrival=jnp.zeros((num_envs, num_ops)),
                missing=jnp.tile(before.sum(0), (num_envs, 1)),
                free=jnp.zeros((num_envs, num_devices)),
            )

        def init(self, rng_key):
            return BaseEnvParams(reward_params=None)

        def _single_transition(self, state, action, env_params):
            op, device = jnp.divmod(action, num_devices)
            finish = jnp.maximum(state.arrival[op], state.free[device]) + duration[op]
            placed = state.device.at[op].set(device)
            added = state.replace(
                is_initial=False,
                is_terminal=jnp.all(placed >= 0),
                device=placed,
                arrival=jnp.maximum(state.arrival, jnp.where(before[op], finish, 0.0)),
                missing=state.missing - before[op],
                free=state.free.at[device].set(finish),
            )
            ended = state.replace(is_pad=True)
            new = jax.tree.map(lambda e, a: jnp.where(state.is_terminal, e, a), ended, added)
            return new, new.is_terminal, {}

        def get_obs(self, state, env_params):
            return state.arrival

        def get_invalid_mask(self, state, env_params):
            ready = (state.missing == 0) & (state.device < 0)
            ready |= state.is_terminal[:, None]  # gfnx needs one valid action
            return jnp.repeat(~ready, num_devices, axis=1)

    _leave_out(Environment)
    environment = Environment(Reward())

    def policy(key, observation, params):
        return jnp.zeros((len(observation), num_ops * num_devices)), {}

    @jax.jit
    def draw(key):
        params = environment.init(key)
        drawn, info = gfnx.utils.forward_rollout(key, count, policy, None, environment, params)
        last = info["final_env_state"]
        return drawn, last.free.max(axis=1)

    def run():
        drawn, makespan = jax.block_until_ready(draw(jax.random.key(0)))
        op, device = np.divmod(np.asarray(drawn.action)[:, :num_ops], num_devices)
        return op, device, np.asarray(makespan)

    return run


def with_torchgfn(graph: ComputationGraph, num_devices: int, count: int) -> Callable:
    """torchgfn's ``Sampler``; a state is one row: devices, starts, and when devices are free."""
    import torch
    from gfn.env import DiscreteEnv
    from gfn.estimators import DiscretePolicyEstimator
    from gfn.preprocessors import IdentityPreprocessor
    from gfn.samplers import Sampler
    from gfn.states import DiscreteStates
    from gfn.utils.modules import UniformModule

    before = torch.from_numpy(_before(graph)).float()
    duration = torch.tensor(graph.duration, dtype=torch.float32)
    num_ops, needed = graph.num_ops, before.sum(0)
    width = 2 * num_ops + num_devices

    class Environment(DiscreteEnv):
        def __init__(self):
            first = torch.cat([torch.full((2 * num_ops,), -1.0), torch.zeros(num_devices)])
            actions = num_ops * num_devices + 1  # the last one ends a complete schedule
            super().__init__(actions, first, (width,), sf=torch.full((width,), -2.0))

        def make_states_class(self):
            class States(DiscreteStates):
                state_shape, s0, sf, n_actions = (width,), self.s0, self.sf, self.n_actions
                make_random_states = self.make_random_states

                def _compute_forward_masks(self):
                    scheduled = self.tensor[..., :num_ops] >= 0
                    ready = (scheduled.float() @ before == needed) & ~scheduled
                    actions = ready.repeat_interleave(num_devices, -1)
                    return torch.cat([actions, scheduled.all(-1, keepdim=True)], -1)

            return _leave_out(States)

        def step(self, states, actions):
            rows, action = torch.arange(len(actions)), actions.tensor[:, 0]
            op, device = action // num_devices, action % num_devices
            new = states.tensor.clone()
            finish = torch.where(before[:, op].T > 0, new[:, num_ops : 2 * num_ops] + duration, 0.0)
            start = torch.maximum(finish.amax(1), new[rows, 2 * num_ops + device])
            new[rows, op] = device.float()
            new[rows, num_ops + op] = start
            new[rows, 2 * num_ops + device] = start + duration[op]
            return self.States(new)

    environment = _leave_out(Environment)()
    uniform = DiscretePolicyEstimator(
        UniformModule(output_dim=environment.n_actions),
        environment.n_actions,
        preprocessor=IdentityPreprocessor(output_dim=width),
    )
    sampler = Sampler(uniform)

    def run():
        with torch.no_grad():
            drawn = sampler.sample_trajectories(environment, n=count, save_logprobs=False)
        action = drawn.actions.tensor[:num_ops, :, 0].T.numpy()
        op, device = np.divmod(action, num_devices)
        makespan = drawn.states.tensor[num_ops, :, 2 * num_ops :].amax(1).numpy()
        return op, device, makespan

    return run


def _before(graph: ComputationGraph) -> np.ndarray:
    """int32[O, O]: whether op v reads from op u, at [u, v]."""
    before = np.zeros((graph.num_ops, graph.num_ops), np.int32)
    before[tuple(graph.op_pairs.T)] = 1
    return before


def _leave_out(environment: type) -> type:
    """The class, with abstract methods that drawing doesn't call filled in."""
    for name in environment.__abstractmethods__:
        setattr(environment, name, None)
    environment.__abstractmethods__ = frozenset()
    return environment
