"""Networks written as loops: they do what the same layers and steps do one by one."""

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.datasets import jax_train_steps, scanned_models

BATCH, LENGTH, WIDTH, HEADS = 2, 6, 8, 2
RANDOM = np.random.default_rng(0)


def of(*shape):
    return RANDOM.normal(0, 0.3, shape).astype(np.float32)


LAYERS = {
    "scale": of(3, WIDTH),
    "attention": of(3, WIDTH, 3 * WIDTH),
    "mixed": of(3, WIDTH, WIDTH),
    "scale_up": of(3, WIDTH),
    "up": of(3, WIDTH, 24),
    "down": of(3, 12, WIDTH),
}
DECODER = {"embedding": of(20, WIDTH), "head": of(20, WIDTH), "layers": LAYERS}
TOKENS = RANDOM.integers(0, 20, (BATCH, LENGTH + 1))


def normed(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rotated(x):
    """Pairs as complex numbers, turned by an angle that grows with the position."""
    half = x.shape[-1] // 2
    pairs = x[..., :half] + 1j * x[..., half:]
    angles = np.arange(x.shape[0])[:, None] * 1e4 ** (-np.arange(half) / half)
    turned = pairs * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], -1)


def losses(tokens):
    """Of one sequence, head by head."""
    x = DECODER["embedding"][tokens[:-1]]
    for number in range(3):
        w = {name: leaf[number] for name, leaf in LAYERS.items()}
        parts = np.split((normed(x) * w["scale"]) @ w["attention"], 3, -1)
        heads = []
        for query, key, value in zip(*(np.split(part, HEADS, -1) for part in parts), strict=True):
            scores = rotated(query) @ rotated(key).T / np.sqrt(WIDTH / HEADS)
            scores = np.where(np.tril(np.ones(scores.shape)) > 0, scores, -np.inf)
            heads.append(softmax(scores) @ value)
        x = x + np.concatenate(heads, -1) @ w["mixed"]
        gate, up = np.split((normed(x) * w["scale_up"]) @ w["up"], 2, -1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w["down"]
    chances = softmax(normed(x) @ DECODER["head"].T)
    return -np.log(chances[np.arange(LENGTH), tokens[1:]])


def test_the_decoder_is_its_layers_one_by_one():
    found = scanned_models.decoder(DECODER, jnp.asarray(TOKENS), heads=HEADS)
    expected = np.stack([losses(tokens) for tokens in TOKENS])
    np.testing.assert_allclose(found[..., 0], expected, rtol=2e-4)


def test_the_memory_is_its_steps_one_by_one():
    weights = {"cell": of(3 + 4, 16), "bias": of(16), "out": of(4, 5)}
    inputs = of(BATCH, LENGTH, 3)
    hidden = memory = np.zeros((BATCH, 4))
    states = []
    for x in inputs.swapaxes(0, 1):
        gates = np.concatenate([x, hidden], -1) @ weights["cell"] + weights["bias"]
        take, forget, show, new = np.split(gates, 4, -1)
        memory = memory / (1 + np.exp(-forget)) + np.tanh(new) / (1 + np.exp(-take))
        hidden = np.tanh(memory) / (1 + np.exp(-show))
        states.append(hidden)
    expected = (np.stack(states) @ weights["out"]) ** 2
    np.testing.assert_allclose(scanned_models.lstm(weights, inputs), expected, rtol=2e-4)


def test_a_checkpointed_decoder_does_the_same():
    def loss(w, **how):
        return scanned_models.decoder(w, jnp.asarray(TOKENS), heads=HEADS, **how).mean()

    once, again = jax.grad(loss)(DECODER), jax.grad(lambda w: loss(w, checkpointed=True))(DECODER)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), once, again)
    one = jax_train_steps.program("scanned_decoder/training_checkpointed")
    assert "remat" in str(jax.make_jaxpr(one.function)(*one.shapes))


def test_they_are_loops_in_every_mode():
    for program in scanned_models.PROGRAMS:
        for mode, loops in (("inference", 1), ("training", 2), ("training_adam", 2)):
            one = jax_train_steps.program(f"{program.family}/{mode}")
            jaxpr = str(jax.make_jaxpr(one.function)(*one.shapes))
            assert jaxpr.count("= scan[") == loops
