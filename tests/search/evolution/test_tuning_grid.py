"""The grid of tuned BRKGA: its size, its default, and what doesn't matter in it."""

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.methods.evolution import beta_mutants, evolve
from regal_jax.options import Budget
from regal_jax.search.evolution import brkga, tuning_grid
from regal_jax.search.evolution.brkga import BRKGAConfig
from regal_jax.search.evolution.tuning_grid import DEFAULT, Setting
from tests.policies.cases import random_graph


def test_the_grid_has_648_valid_settings_and_begins_with_the_default():
    settings = tuning_grid.grid()
    assert len(settings) == len(set(settings)) == len({s.label for s in settings}) == 648
    assert settings[0] == DEFAULT == Setting(BRKGAConfig(100, 10, 80, 0.7, 1), 1.0, 1.0)
    for setting in settings:
        brkga.check_config(setting.config, 400)
        assert setting.config.mutants > 0


def test_distinct_settings_are_one_of_each_configuration():
    found = tuning_grid.distinct(tuning_grid.grid())
    assert len(found) == len({setting.config for setting in found}) == 72
    assert found[0] == DEFAULT
    assert {(setting.alpha, setting.beta) for setting in found} == {(1.0, 1.0)}


def test_a_beta_distribution_of_all_genes_changes_nothing():
    problem = PlacementProblem(random_graph(0, 12), 2)
    key, budget = jax.random.key(1), Budget(BRKGAConfig().initial + 4 * BRKGAConfig().newcomers)
    found = [
        evolve(problem, budget, key, mutants=beta_mutants(alpha, beta, problem.spec.num_genes))
        for alpha, beta in [(1.0, 1.0), (0.5, 2.0)]
    ]
    assert found[0].history == found[1].history
    assert found[0].population.tolist() != found[1].population.tolist()


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=20))
def test_survivors_are_the_best_third_and_the_default(values):
    gains = dict(zip(tuning_grid.grid(), values, strict=False))
    kept = tuning_grid.survivors(gains)
    best = kept[: -(-len(gains) // 3)]
    assert DEFAULT in kept
    assert set(kept) == {*best, DEFAULT}
    assert min(gains[s] for s in best) >= max(
        (gain for s, gain in gains.items() if s not in best), default=-10
    )


@pytest.mark.parametrize("rungs", [[], [0], [2, 2], [3, 2], [2, 6]])
def test_rungs_must_increase_and_have_enough_graphs(rungs):
    tuning_grid.check_rungs([1, 3, 5], 5)
    with pytest.raises(OptionError, match="rung"):
        tuning_grid.check_rungs(rungs, 5)
