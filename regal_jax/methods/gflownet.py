"""Schedules drawn from a trained policy over their construction: GFlowNet and PPO.

Of gflownet_robust_scheduling; ``samplers`` has them beside the other samplers.
"""

import jax
import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.policies.gflownet import sampling
from regal_jax.policies.gflownet.policy import FlowConfig, check_fits, padded_inputs
from regal_jax.search.placements.candidates import Candidates
from regal_jax.training import checkpoints

TEMPERATURES = {"gflownet": 0.005, "ppo": 0.25}
"""Of inference (E.1); PPO's policy only knows the one it was trained with."""


def sample_policy(
    problem: PlacementProblem,
    system: str,
    *,
    samples: int,
    seed: int = 0,
    policy=None,
    temperature: float | None = None,
) -> Candidates:
    """``samples`` schedules of a policy of "gflownet" or "ppo", given or shipped.

    Raises:
      OptionError: for a policy that is not of this system, or not for the graph or the devices; for
        a temperature that isn't a positive number.
    """
    path = policy or shipped_policy("makespan", system)
    params, config, about = checkpoints.load_policy(path, FlowConfig)
    if about.get("system") != system:
        raise OptionError(f"the policy {path} is one of {about.get('system')}, not of {system}")
    check_fits(problem.graph, problem.platform, config)
    inputs = padded_inputs(problem.graph, problem.platform, config)
    drawn = sampling.draw(
        jax.random.key(seed),
        params,
        inputs,
        TEMPERATURES[system] if temperature is None else temperature,
        policy=config,
        num_devices=problem.num_devices,
        count=samples,
    )
    num_ops = problem.graph.num_ops
    real = np.asarray(drawn.op) < num_ops
    sequence = np.asarray(drawn.op)[real].reshape(samples, num_ops)
    return Candidates(np.asarray(drawn.device_of)[:, :num_ops], sequence)
