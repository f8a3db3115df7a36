"""What a policy's actions say in words: the groups of figure 7 (REGAL section 5.1)."""

import functools

import numpy as np
from scipy import special

from regal_jax.errors import OptionError
from regal_jax.policies.regal.beta_mutants import ActionSpace, dequantise

PLACEMENT = ("prefers device 1", "prefers device 2", "no preference")
SCHEDULING = ("higher priority", "lower priority")

_QUANTILES = (np.arange(1024) + 0.5) / 1024
_TIE = 1e-6


def placement_groups(actions: np.ndarray, space: ActionSpace) -> np.ndarray:
    """int[O] into PLACEMENT, from actions int32[O, A].

    An op prefers the device for which its affinity is the larger one with more than half the
    probability: of the paper's 16 actions 6 prefer device 1, 6 device 2 and 4 none. Raises
    OptionError unless the policy chooses placements on two devices.
    """
    if not space.placement or space.num_devices != 2:
        raise OptionError("groups of placement actions are for policies that place on two devices")
    rows = actions[:, [0, 2]] * space.levels + actions[:, [1, 3]]
    lead = advantage(space.levels)[rows[:, 0], rows[:, 1]]
    return np.where(lead > _TIE, 0, np.where(lead < -_TIE, 1, 2))


def scheduling_groups(actions: np.ndarray, space: ActionSpace) -> np.ndarray:
    """int[O] into SCHEDULING, from actions int32[O, A].

    Higher is a mean above 1/2; the middle level that an odd number of levels has counts as lower.
    Raises OptionError unless the policy chooses priorities.
    """
    if not space.scheduling:
        raise OptionError("groups of scheduling actions are for policies that choose priorities")
    mean_level = actions[:, 2 * space.num_devices * space.placement]
    return np.where(2 * (mean_level + 1) > space.levels + 1, 0, 1)


@functools.lru_cache(maxsize=16)
def advantage(levels: int) -> np.ndarray:
    """float64[k * k, k * k]: P(X > Y) - 1/2 for X, Y from the distributions of ``dequantise``.

    Distribution m * k + v is that of levels (m, v). Exactly antisymmetric.
    """
    alpha, beta = dequantise(*np.divmod(np.arange(levels * levels), levels), levels)
    samples = special.betaincinv(alpha[:, None], beta[:, None], _QUANTILES)
    below = special.betainc(alpha[:, None], beta[:, None], samples[:, None])  # [X, Y, quantile]
    more = below.mean(axis=2)
    return (more - more.T) / 2
