"""Rankings drawn without replacement: probabilities by hand, gradients, and frequencies."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.policies.one_shot import plackett_luce

LOGITS = st.lists(st.floats(-300, 300, width=32), min_size=1, max_size=6)
log_prob = jax.jit(plackett_luce.log_prob)


def plain(logits, ranking) -> float:
    """Equation 10, place by place."""
    total = 0.0
    for place, op in enumerate(ranking):
        left = [float(logits[one]) for one in ranking[place:]]
        total += left[0] - max(left) - math.log(sum(math.exp(x - max(left)) for x in left))
        assert left[0] == float(logits[op])
    return total


def all_rankings(num_ops: int) -> np.ndarray:
    return np.array(list(itertools.permutations(range(num_ops))), np.int32)


def with_padding(logits, rankings, extra: int):
    """More ops, with logits over 50, ranked last."""
    rest = np.arange(len(logits), len(logits) + extra, dtype=np.int32)
    tails = np.broadcast_to(rest[::-1], (len(rankings), extra))
    return np.append(logits, 50.0 + rest), np.concatenate([rankings, tails], axis=1)


def test_by_hand():
    """Weights 1, 2, 3."""
    logits = jnp.log(jnp.array([1.0, 2.0, 3.0]))
    found = jnp.exp(log_prob(logits, np.array([[2, 1, 0], [0, 2, 1]]), 3))
    np.testing.assert_allclose(found, [3 / 6 * 2 / 3, 1 / 6 * 3 / 5], rtol=1e-6)
    assert log_prob(logits, np.array([1, 0, 2]), 3).shape == ()
    assert log_prob(logits, np.zeros((4, 5, 3), int), 3).shape == (4, 5)


@given(LOGITS)
def test_probabilities_are_those_of_the_plain_formula_and_sum_to_one(logits):
    """Up to 600 apart, and with padding whose logits are larger."""
    logits = np.array(logits, np.float32)
    rankings = all_rankings(len(logits))
    padded = with_padding(logits, rankings, 7 - len(logits))
    found = np.asarray(log_prob(padded[0].astype(np.float32), padded[1], len(logits)))
    expected = [plain(logits, ranking) for ranking in rankings]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    assert np.exp(found.astype(float)).sum() == pytest.approx(1, abs=1e-3)


def test_logits_far_apart():
    """In float32, where exp(89) is infinite and exp(-104) is 0."""
    logits = jnp.array([0.0, -300.0, 300.0, 0.0])
    likely, unlikely = jnp.array([2, 0, 3, 1]), jnp.array([1, 0, 3, 2])
    np.testing.assert_allclose(log_prob(logits, likely, 4), -math.log(2), rtol=1e-6)
    np.testing.assert_allclose(log_prob(logits, unlikely, 4), -600 - 300 - 300, rtol=1e-6)
    for ranking in (likely, unlikely):
        gradient = jax.grad(plackett_luce.log_prob)(logits, ranking, 4)
        assert np.isfinite(gradient).all()


@functools.cache
def doubled_gradient():
    return jax.jit(jax.grad(plackett_luce.log_prob))


@given(LOGITS, st.integers(0, 2**32 - 1))
def test_gradients_are_finite_differences(logits, seed):
    """In float64, and 0 for padding."""
    num_ops = len(logits)
    ranking = np.random.default_rng(seed).permutation(num_ops)[None]
    values, rankings = with_padding(np.array(logits) / 50, ranking, 7 - num_ops)
    with jax.enable_x64(True):
        gradient = np.asarray(doubled_gradient()(jnp.asarray(values), rankings[0], num_ops))
    assert gradient.dtype == np.float64
    assert not gradient[num_ops:].any()
    for op in range(num_ops):
        step = np.eye(num_ops)[op] * 1e-5
        ends = [plain(values[:num_ops] + sign * step, ranking[0].tolist()) for sign in (1, -1)]
        assert gradient[op] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)


def test_a_thousand_ops():
    """The error of a sum over so many places stays small."""
    rng = np.random.default_rng(0)
    logits, ranking = rng.normal(size=1000) * 5, rng.permutation(1000)
    left = np.logaddexp.accumulate(logits[ranking][::-1])[::-1]
    expected = float(np.sum(logits[ranking] - left))
    found = log_prob(logits.astype(np.float32), ranking, 1000)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def spread(count: int, width: int) -> np.ndarray:
    """float64[count, width] in (0, 1), evenly spread: multiples of roots of primes, modulo 1."""
    roots = np.sqrt([2, 3, 5, 7, 11, 13][:width])
    return ((1 + np.arange(count))[:, None] * roots) % 1


def assert_frequencies(rankings, logits):
    """By a chi-square test on all 24 rankings."""
    every = all_rankings(len(logits)).tolist()
    counts = np.array([np.all(rankings == one, axis=1).sum() for one in every])
    expected = np.exp([plain(logits, one) for one in every]) * len(rankings)
    assert counts.sum() == len(rankings)
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-3


WEIGHTED = np.array([0.5, -0.5, 1.0, 0.0], np.float32)


def test_sorted_perturbed_logits_have_these_probabilities():
    """Of stored uniform numbers, by -log(-log u)."""
    gumbel = -np.log(-np.log(spread(20_000, 4)))
    assert_frequencies(plackett_luce.ranked((WEIGHTED + gumbel).astype(np.float32)), WEIGHTED)


def test_drawn_rankings_have_these_probabilities():
    rng = np.random.default_rng(0)
    perturbed, rankings = plackett_luce.draw(rng, WEIGHTED, 20_000)
    assert (perturbed.dtype, rankings.dtype) == (np.float32, np.int32)
    assert_frequencies(rankings, WEIGHTED)
    noise = perturbed - WEIGHTED
    assert scipy.stats.kstest(noise.ravel(), "gumbel_r").pvalue > 1e-3
    np.testing.assert_array_equal(np.take_along_axis(perturbed, rankings, 1), -np.sort(-perturbed))


@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=4))
def test_of_equal_priorities_the_lower_op_is_first(rows):
    priorities = np.array(rows, np.float32)
    expected = [sorted(range(5), key=lambda op: (-row[op], op)) for row in rows]
    assert plackett_luce.ranked(priorities).tolist() == expected


def test_one_op():
    assert float(log_prob(jnp.array([3.0]), np.array([0]), 1)) == 0
    assert plackett_luce.draw(np.random.default_rng(0), np.zeros(1), 2)[1].tolist() == [[0], [0]]
