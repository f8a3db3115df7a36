"""Tables of quantile functions: exact entries, exact uniform numbers, samples that follow them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from regal_jax.environments.placement.quantile_tables import RESOLUTION, beta_quantiles, sample_rows
from regal_jax.errors import OptionError
from regal_jax.search.evolution import brkga

PAIRS = [(1.0, 1.0), (2.0, 1.0), (0.5, 0.5), (2 / 3, 4 / 3), (3.0, 7.0), (20.0, 20.0)]


def test_rows_are_quantiles():
    alpha, beta = np.array(PAIRS).T
    table = beta_quantiles(alpha, beta)
    assert table.shape == (len(PAIRS), RESOLUTION + 1)
    assert table.dtype == np.float32
    share = np.linspace(0, 1, RESOLUTION + 1)
    for row, pair in zip(table, PAIRS, strict=True):
        np.testing.assert_allclose(row, stats.beta.ppf(share, *pair), rtol=1e-5, atol=1e-7)


def test_each_gene_follows_its_row():
    """Kolmogorov-Smirnov, whose critical value at p = 1e-6 is 2.7 / sqrt(n)."""
    count = 20_000
    table = jnp.asarray(beta_quantiles(*np.array(PAIRS).T))
    rows = np.array([3, 0, 5, 1, 4])
    samples = np.asarray(sample_rows(jax.random.key(0), table, jnp.asarray(rows), count), float)
    for gene, row in enumerate(rows):
        distance = stats.kstest(samples[:, gene], stats.beta(*PAIRS[row]).cdf).statistic
        assert distance < 2.7 / count**0.5


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_beta_mutants_of_1_and_1_are_the_uniform_ones(seed, jit):
    samplers = brkga.beta_mutants(1.0, 1.0, 300), brkga.uniform_mutants(300)
    found, expected = (
        (jax.jit(sample, static_argnums=1) if jit else sample)(jax.random.key(seed), 200)
        for sample in samplers
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("pair", PAIRS[1:])
def test_beta_mutants_are_independent_and_of_their_distribution(pair):
    count, genes = 10_000, 3
    samples = np.asarray(brkga.beta_mutants(*pair, genes)(jax.random.key(1), count), float)
    assert samples.shape == (count, genes)
    for gene in samples.T:
        assert stats.kstest(gene, stats.beta(*pair).cdf).statistic < 2.7 / count**0.5
    assert np.all(np.abs(np.corrcoef(samples.T) - np.eye(genes)) < 6 / count**0.5)


@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.0, -1.0), (np.nan, 1.0), (1.0, np.inf)])
def test_impossible_distributions_are_rejected(pair):
    with pytest.raises(OptionError, match="Beta"):
        brkga.beta_mutants(*pair, 3)
