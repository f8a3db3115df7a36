"""Groups of actions: the paper's counts, Monte Carlo, symmetry."""

import itertools

import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.policies.regal import action_groups
from regal_jax.policies.regal.beta_mutants import ActionSpace, dequantise


def all_actions(space):
    return np.array(list(itertools.product(range(space.levels), repeat=space.num_choices)))


def test_the_paper_s_actions_are_6_and_6_and_4():
    space = ActionSpace(levels=2, scheduling=False)
    groups = action_groups.placement_groups(all_actions(space), space)
    assert np.bincount(groups).tolist() == [6, 6, 4]


def test_the_paper_s_scheduling_actions_are_2_and_2():
    space = ActionSpace(levels=2, placement=False)
    groups = action_groups.scheduling_groups(all_actions(space), space)
    assert groups.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_a_preferred_device_has_the_larger_affinity_more_often(levels):
    rng = np.random.default_rng(0)
    alpha, beta = dequantise(*np.divmod(np.arange(levels**2), levels), levels)
    samples = rng.beta(alpha[:, None], beta[:, None], (levels**2, 20_000))
    more = (samples[:, None] > samples[None, ::, ::-1]).mean(axis=2)
    less = (samples[:, None] < samples[None, ::, ::-1]).mean(axis=2)
    np.testing.assert_allclose(action_groups.advantage(levels), (more - less) / 2, atol=0.02)


def test_columns_are_those_of_the_action_space():
    """Both groups at once, with and without elite biases: [m1, v1, m2, v2, m, v(, c)]."""
    actions = np.array([[3, 0, 0, 0, 0, 3, 1], [0, 1, 3, 1, 3, 0, 1], [2, 2, 2, 2, 2, 1, 0]])
    for elite_bias in (False, True):
        space = ActionSpace(levels=4, elite_bias=elite_bias)
        chosen = actions[:, : space.num_choices]
        assert action_groups.placement_groups(chosen, space).tolist() == [0, 1, 2]
        assert action_groups.scheduling_groups(chosen, space).tolist() == [1, 0, 0]


def test_equal_means_around_one_half_prefer_nothing():
    """Three levels: mean 1/2 with any variance is symmetric."""
    space = ActionSpace(levels=3, scheduling=False)
    pairs = [[1, v, 1, w] for v in range(3) for w in range(3)]
    assert set(action_groups.placement_groups(np.array(pairs), space)) == {2}


@pytest.mark.parametrize(
    ("groups", "space"),
    [
        (action_groups.placement_groups, ActionSpace(placement=False)),
        (action_groups.placement_groups, ActionSpace(num_devices=3)),
        (action_groups.scheduling_groups, ActionSpace(scheduling=False)),
    ],
)
def test_actions_without_groups(groups, space):
    with pytest.raises(OptionError, match="groups of"):
        groups(np.zeros((1, space.num_choices), int), space)
