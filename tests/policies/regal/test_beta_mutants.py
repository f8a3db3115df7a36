"""Actions to Beta distributions: the formulas of A.2, the samples, and the layout of genes."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from regal_jax.environments.placement import quantile_tables
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.graphs.batching import exact_shape
from regal_jax.graphs.features.placement import policy_inputs
from regal_jax.policies.regal import beta_mutants
from regal_jax.policies.regal.beta_mutants import ActionSpace
from regal_jax.search.evolution import brkga
from regal_jax.training.regal_search import learned_search, uniform_search
from tests.policies.cases import random_graph

LEVELS = [2, 3, 5, 10]


def all_levels(levels):
    return map(np.array, zip(*itertools.product(range(levels), repeat=2), strict=True))


@pytest.mark.parametrize(
    ("mean_level", "variance_level", "alpha", "beta"),
    [
        (0, 0, 2 / 3, 4 / 3),  # mean 1/3, variance 2/27
        (0, 1, 1 / 6, 1 / 3),  # mean 1/3, variance 4/27
        (1, 0, 4 / 3, 2 / 3),  # mean 2/3
        (1, 1, 1 / 3, 1 / 6),
    ],
)
def test_the_four_distributions_of_two_levels_by_hand(mean_level, variance_level, alpha, beta):
    found = beta_mutants.dequantise(mean_level, variance_level, 2)
    np.testing.assert_allclose(found, (alpha, beta), rtol=1e-12)


@pytest.mark.parametrize("levels", LEVELS)
def test_means_and_variances_are_those_of_the_paper(levels):
    mean_level, variance_level = all_levels(levels)
    alpha, beta = beta_mutants.dequantise(mean_level, variance_level, levels)
    mean = (mean_level + 1) / (levels + 1)
    assert np.all(alpha > 0)
    assert np.all(beta > 0)
    np.testing.assert_allclose(stats.beta.mean(alpha, beta), mean)
    variance = mean * (1 - mean) * (variance_level + 1) / (levels + 1)
    np.testing.assert_allclose(stats.beta.var(alpha, beta), variance)


@pytest.mark.parametrize("levels", LEVELS)
def test_the_table_has_the_moments_and_quantiles_of_its_distributions(levels):
    table = beta_mutants.quantile_table(levels).astype(float)
    assert table.shape == (levels**2 + 1, quantile_tables.RESOLUTION + 1)
    assert np.all(np.diff(table) >= 0)
    assert np.all(table[:, 0] == 0)
    assert np.all(table[:, -1] == 1)
    distribution = stats.beta(*beta_mutants.dequantise(*all_levels(levels), levels))
    low, high = table[:-1, :-1], table[:-1, 1:]
    mean = ((low + high) / 2).mean(axis=1)  # of the piecewise linear quantile function
    square = ((low**2 + low * high + high**2) / 3).mean(axis=1)
    np.testing.assert_allclose(mean, distribution.mean(), atol=1e-3)
    np.testing.assert_allclose(square - mean**2, distribution.var(), atol=1e-3)
    for share in (0.25, 0.5, 0.75):
        column = int(share * quantile_tables.RESOLUTION)
        np.testing.assert_allclose(
            table[:-1, column], distribution.ppf(share), rtol=1e-5, atol=1e-9
        )


@pytest.mark.parametrize("levels", [2, 4])
def test_samples_follow_their_rows(levels):
    """Kolmogorov-Smirnov, whose critical value at p = 1e-6 is 2.7 / sqrt(n).

    Only where float32 can tell from 1: a third of the most U-shaped one (k = 4) lies closer.
    """
    count = 20_000
    table = jnp.asarray(beta_mutants.quantile_table(levels))
    rows = jnp.arange(levels**2 + 1)
    samples = np.asarray(quantile_tables.sample_rows(jax.random.key(0), table, rows, count))
    assert samples.shape == (count, levels**2 + 1)
    assert samples.dtype == np.float32
    assert samples.min() >= 0
    assert samples.max() <= 1
    alpha, beta = beta_mutants.dequantise(*all_levels(levels), levels)
    for row, distribution in enumerate(map(stats.beta, [*alpha, 1.0], [*beta, 1.0])):
        sample = samples[:, row].astype(float)
        share = np.linspace(0.01, 0.99, 300)
        share = share[distribution.ppf(share) < 1 - 1e-6]
        below = np.searchsorted(np.sort(sample), distribution.ppf(share), side="right") / count
        assert np.abs(below - share).max() < 2.7 / count**0.5
        assert abs(sample.mean() - distribution.mean()) < 6 * distribution.std() / count**0.5 + 1e-3
        np.testing.assert_allclose(sample.var(), distribution.var(), rtol=0.1)
    assert np.all(np.abs(np.corrcoef(samples.T) - np.eye(levels**2 + 1)) < 6 / count**0.5)


def test_the_uniform_row_is_the_uniform_numbers_themselves():
    table = jnp.asarray(beta_mutants.quantile_table(3))
    rows = jnp.full(7, 9)
    samples = quantile_tables.sample_rows(jax.random.key(1), table, rows, 100)
    np.testing.assert_array_equal(samples, brkga.uniform_mutants(7)(jax.random.key(1), 100))


@pytest.mark.parametrize("num_devices", [1, 2, 3])
@pytest.mark.parametrize("elite_bias", [False, True])
@pytest.mark.parametrize(
    ("placement", "scheduling"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_gene_rows_by_the_layout_of_chromosomes(placement, scheduling, elite_bias, num_devices):
    num_ops, num_tensors, levels = 3, 4, 4
    space = ActionSpace(levels, placement, scheduling, elite_bias, num_devices)
    assert space.num_choices == 2 * (num_devices * placement + scheduling) + elite_bias
    rng = np.random.default_rng(0)
    actions = rng.integers(levels, size=(num_ops, space.num_choices))
    rows = np.asarray(beta_mutants.gene_rows(jnp.asarray(actions), space, num_tensors))
    uniform = levels**2
    expected = []
    for op in range(num_ops):
        for device in range(num_devices):
            mean_level, variance_level = (
                actions[op, 2 * device : 2 * device + 2]
                if placement
                else (
                    levels,
                    0,
                )
            )
            expected.append(mean_level * levels + variance_level)
    for op in range(num_ops):
        at = 2 * num_devices * placement
        mean_level, variance_level = actions[op, at : at + 2] if scheduling else (levels, 0)
        expected.append(mean_level * levels + variance_level)
    expected += [uniform] * (num_tensors * num_devices)
    assert rows.dtype == np.int32
    assert rows.tolist() == expected


def test_elite_biases_by_hand():
    """k = 4: 0.5, 0.625, 0.75, 0.875; a transfer has its producer's."""
    space = ActionSpace(levels=4, elite_bias=True, num_devices=2)
    actions = np.zeros((3, space.num_choices), np.int32)
    actions[:, -1] = [3, 0, 2]
    bias = beta_mutants.gene_elite_bias(jnp.asarray(actions), space, jnp.array([2, -1, 0]), 0.7)
    of_op = [0.875, 0.5, 0.75]
    expected = [0.875, 0.875, 0.5, 0.5, 0.75, 0.75, *of_op, 0.75, 0.75, 0.7, 0.7, 0.875, 0.875]
    np.testing.assert_allclose(bias, expected)
    plain = space._replace(elite_bias=False)
    assert beta_mutants.gene_elite_bias(jnp.asarray(actions), plain, jnp.array([0]), 0.7) == 0.7


@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_pin_puts_one_op_on_device_0_and_nothing_else(num_devices):
    genes = jax.random.uniform(jax.random.key(0), (50, 4 * num_devices + 4 + 5 * num_devices))
    pinned = np.asarray(beta_mutants.pin(genes, jnp.int32(2), num_devices))
    at = slice(2 * num_devices, 3 * num_devices)
    assert np.all(pinned[:, at].argmax(axis=1) == 0)
    np.testing.assert_array_equal(np.delete(pinned, at, 1), np.delete(np.asarray(genes), at, 1))


def test_learned_mutants_sample_what_the_actions_say():
    space = ActionSpace(levels=2, num_devices=2)
    actions = jnp.asarray(np.random.default_rng(1).integers(2, size=(3, space.num_choices)))
    sample = beta_mutants.learned_mutants(actions, space, 2, jnp.int32(1))
    mean = np.asarray(sample(jax.random.key(0), 20_000)).mean(axis=0)
    level = np.asarray(actions).reshape(3, 3, 2)[..., 0]
    expected = np.concatenate([level[:, :2].ravel(), level[:, 2], np.full(4, 0.5)])
    expected[:-4] = (expected[:-4] + 1) / 3
    expected[2:4] = [1, 0]  # op 1 is pinned
    np.testing.assert_allclose(mean, expected, atol=0.02)


def test_regal_of_uniform_distributions_is_brkga():
    """A space without choices has only Beta(1, 1): pinned, both searches are the same search."""
    graph = random_graph(0, 5)
    problem = PlacementProblem(graph, 2, "makespan", shape=exact_shape(graph))
    model, operand = problem.spec, problem.operand
    statistics = np.zeros((5, 3), np.float32)
    inputs = policy_inputs(problem.graph, statistics, exact_shape(problem.graph))
    space = ActionSpace(placement=False, scheduling=False, num_devices=2)
    actions = jnp.zeros((5, space.num_choices), jnp.int32)
    key = jax.random.key(3)
    options = {"inputs": inputs, "actions": actions, "space": space}
    learned = jax.jit(functools.partial(learned_search, key, model, operand, 190, **options))()
    uniform = uniform_search(
        key, model, operand, 190, num_tensors=len(inputs.producer), pinned=inputs.pinned
    )
    np.testing.assert_array_equal(learned.history, uniform.history)
    chromosomes = learned.state.chromosomes
    np.testing.assert_allclose(chromosomes, uniform.state.chromosomes, atol=1e-6)
    assert len(np.unique(learned.state.costs)) > 1  # the costs do depend on the chromosomes
