"""Masked attention against a plain softmax, in one piece and in blocks, and its gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.policies.networks import attention
from tests.oracles import ordering as oracle

OPS, HEADS, WIDTH, VALUE = 11, 2, 3, 4
NUMBERS = np.random.default_rng(0)
QUERY, KEY = jnp.asarray(NUMBERS.normal(size=(2, OPS, HEADS, WIDTH)), jnp.float32)
VALUES = jnp.asarray(NUMBERS.normal(size=(OPS, HEADS, VALUE)), jnp.float32)
CODE = NUMBERS.integers(0, 4, (OPS, OPS)).astype(np.uint8)
CODE[[2, 7]] = 0
EMPTY = [2, 7]
"""Ops without neighbours."""
SENDERS = np.array([0, 1, 5, 0, 4, 4, OPS, OPS + 3, 9, 10])
RECEIVERS = np.array([1, 3, 3, 3, 0, 10, OPS, OPS + 3, 4, 8])
USED = np.array([1, 1, 1, 1, 1, 1, 0, 0, 0, 1], bool)
"""Ops 0, 1, 3, 8 and 10 have edges; that of op 4 does not take part, two are padding."""


def dot_products(query=QUERY, key=KEY):
    """float64[Q, O, H]."""
    return np.einsum("qhk,ohk->qoh", query, key) / np.sqrt(query.shape[-1])


def as_mask(senders=SENDERS, receivers=RECEIVERS, used=USED):
    """bool[Q, O] of edges."""
    mask = np.zeros((OPS, OPS), bool)
    mask[receivers[used], senders[used]] = True
    return mask


@pytest.fixture
def small_blocks(monkeypatch):
    """Three blocks, the last of them with padding."""
    monkeypatch.setattr(attention, "BLOCK", 4)


@pytest.mark.parametrize("which", [1, 2, 3, None])
def test_dense_attention_is_a_masked_softmax(which):
    found = attention.dense_attention(QUERY, KEY, VALUES, CODE, which)
    allowed = which == CODE if which else CODE > 0
    expected = oracle.attention(dot_products(), VALUES, allowed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert not np.asarray(found)[EMPTY].any()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("which", [1, None])
def test_blocks_change_nothing(which):
    found = attention.dense_attention(QUERY, KEY, VALUES, CODE, which)
    allowed = which == CODE if which else CODE > 0
    expected = oracle.attention(dot_products(), VALUES, allowed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def weighted(found):
    """One number that every output enters with a weight of its own."""
    return jnp.sum(found * jnp.arange(found.size).reshape(found.shape))


def dense_gradient(code):
    """Of queries, keys and values; compiled anew, since the size of blocks is no argument."""

    def total(query, key, value):
        return weighted(attention.dense_attention(query, key, value, code, 1))

    return jax.jit(jax.grad(total, (0, 1, 2)))(QUERY, KEY, VALUES)


def test_blocks_change_no_gradient(monkeypatch):
    whole = dense_gradient(CODE)
    monkeypatch.setattr(attention, "BLOCK", 4)
    for found, expected in zip(dense_gradient(CODE), whole, strict=True):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert not np.asarray(whole[0])[EMPTY].any()
    assert np.asarray(whole[1]).any()


def test_large_scores_stay_finite():
    """Scores of some thousands: the softmax is one of the largest score alone."""
    found = attention.dense_attention(1e3 * QUERY, 1e3 * KEY, VALUES, CODE, None)
    expected = oracle.attention(dot_products(1e3 * QUERY, 1e3 * KEY), VALUES, CODE > 0)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    scores = attention.dot_scores(1e3 * QUERY, 1e3 * KEY, SENDERS, RECEIVERS)
    found = attention.edge_attention(scores, VALUES, SENDERS, RECEIVERS, USED)
    expected = oracle.attention(dot_products(1e3 * QUERY, 1e3 * KEY), VALUES, as_mask())
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_edge_attention_is_a_masked_softmax():
    scores = attention.dot_scores(QUERY, KEY, SENDERS, RECEIVERS)
    np.testing.assert_allclose(
        np.asarray(scores)[USED],
        dot_products()[RECEIVERS[USED], SENDERS[USED]],
        rtol=1e-5,
        atol=1e-6,
    )
    found = attention.edge_attention(scores, VALUES, SENDERS, RECEIVERS, USED)
    expected = oracle.attention(dot_products(), VALUES, as_mask())
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert not np.asarray(found)[[2, 4, 5, 6, 7, 9]].any()


def test_additive_scores():
    """Leaky ReLU of slope 0.2 of the receiver's number plus the sender's."""
    query, key = QUERY[..., :1], KEY[..., :1]
    scores = attention.additive_scores(query, key, SENDERS, RECEIVERS)
    sums = query[:, None, :, 0] + key[None, :, :, 0]
    leaky = np.where(sums > 0, sums, 0.2 * sums)
    np.testing.assert_allclose(
        np.asarray(scores)[USED], leaky[RECEIVERS[USED], SENDERS[USED]], rtol=1e-5, atol=1e-6
    )
    assert (sums < 0).any()
    found = attention.edge_attention(scores, VALUES, SENDERS, RECEIVERS, USED)
    expected = oracle.attention(leaky, VALUES, as_mask())
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@jax.jit
@functools.partial(jax.grad, argnums=(0, 1, 2))
def edge_gradient(query, key, value, senders, receivers, used):
    scores = attention.dot_scores(query, key, senders, receivers)
    return weighted(attention.edge_attention(scores, value, senders, receivers, used))


def test_gradients_over_edges_are_those_over_a_mask():
    found = edge_gradient(QUERY, KEY, VALUES, SENDERS, RECEIVERS, USED)
    for edges, mask in zip(found, dense_gradient(as_mask().astype(np.uint8)), strict=True):
        np.testing.assert_allclose(edges, mask, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [0, 10])
def test_no_edges_give_zeros_and_no_gradient(count):
    """None at all, or none that takes part."""
    ends = SENDERS[:count], RECEIVERS[:count], np.zeros(count, bool)
    scores = attention.dot_scores(QUERY, KEY, *ends[:2])
    assert not np.asarray(attention.edge_attention(scores, VALUES, *ends)).any()
    for gradient in edge_gradient(QUERY, KEY, VALUES, *ends):
        np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


def test_bfloat16():
    """Two digits of the same numbers."""
    query, key, values = (jnp.asarray(x, jnp.bfloat16) for x in (QUERY, KEY, VALUES))
    found = attention.dense_attention(query, key, values, CODE, 1)
    assert found.dtype == jnp.bfloat16
    expected = oracle.attention(dot_products(), VALUES, CODE == 1)
    np.testing.assert_allclose(np.asarray(found, np.float32), expected, atol=0.05)
    scores = attention.dot_scores(query, key, SENDERS, RECEIVERS)
    found = attention.edge_attention(scores, values, SENDERS, RECEIVERS, USED)
    assert found.dtype == jnp.bfloat16
    expected = oracle.attention(dot_products(), VALUES, as_mask())
    np.testing.assert_allclose(np.asarray(found, np.float32), expected, atol=0.05)
