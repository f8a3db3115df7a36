"""Losses of a batch, and others."""

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.compiler.slices.regions import places_of

BATCH, WIDTH, HIDDEN = 64, 16, 128


def of(*shape, dtype=np.float32):
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(0, 0.3, shape), dtype)


def best_place(program):
    """Of the most bytes inside."""
    return max(places_of(program), key=lambda place: place.region.inside, default=None)


def best_region(program):
    """Of the program itself."""
    found = [place.region for place in places_of(program) if not place.loops]
    return max(found, key=lambda region: region.inside, default=None)


def perceptron(weights, x, y):
    hidden = jnp.tanh(x @ weights["up"] + weights["bias"])
    return jnp.mean((hidden @ weights["down"] - y) ** 2)


PERCEPTRON = (
    {"up": of(WIDTH, HIDDEN), "bias": of(HIDDEN), "down": of(HIDDEN, 4)},
    of(BATCH, WIDTH),
    of(BATCH, 4),
)


def normalised(x, up, down):
    hidden = jnp.tanh(x @ up)
    hidden = (hidden - hidden.mean(0)) / (hidden.std(0) + 0.1)
    return jnp.sum(jnp.sin(hidden @ down))


NORMALISED = (of(BATCH, WIDTH), of(WIDTH, HIDDEN), of(HIDDEN, HIDDEN))


def weighted(w, x, mask):
    """What the loss is divided by is a sum over the batch, too."""
    mask = (mask > 0).astype(jnp.float32)
    return jnp.sum(jnp.sin(x @ w["in"]) @ w["out"] * mask[:, None]) / jnp.sum(mask)


WEIGHTED = ({"in": of(WIDTH, HIDDEN), "out": of(HIDDEN, HIDDEN)}, of(BATCH, WIDTH), of(BATCH))


def attention(w, tokens):
    """A language model of one layer, with labels, and a mask of causes."""
    x = w["embedding"][tokens]
    q, k, v = jnp.split(x @ w["qkv"], 3, -1)
    scores = jnp.einsum("btd,bsd->bts", q, k)
    row, column = (jax.lax.broadcasted_iota(jnp.int32, scores.shape, axis) for axis in (1, 2))
    x = x + jax.nn.softmax(jnp.where(row >= column, scores, -1e9)) @ v
    logits = jax.nn.log_softmax(x @ w["embedding"].T)
    picked = jnp.take_along_axis(logits[:, :-1], tokens[:, 1:, None], -1)
    return -picked.mean()


ATTENTION = (
    {"embedding": of(64, WIDTH), "qkv": of(WIDTH, 3 * WIDTH)},
    jnp.arange(8 * 12).reshape(8, 12) % 64,
)


def convolutional(w, x):
    for kernel in w:
        x = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jnp.mean(x**2)


CONVOLUTIONAL = ([of(3, 3, 4, 8), of(3, 3, 8, 8)], of(8, 16, 16, 4))


def by_example(w, x, y):
    """Gradients of each example, of which the longest are shortened."""
    gradients = jax.vmap(jax.grad(perceptron), (None, 0, 0))(w, x[:, None], y[:, None])
    lengths = jnp.sqrt(sum(jnp.sum(g**2, range(1, g.ndim)) for g in jax.tree.leaves(gradients)))
    scale = 1 / jnp.maximum(1.0, lengths)
    return jax.tree.map(lambda g: jnp.einsum("b,b...->...", scale, g), gradients), lengths.max()


def narrow(w, x):
    hidden = jax.nn.gelu(x.astype(jnp.bfloat16) @ w["in"].astype(jnp.bfloat16))
    return jnp.mean((hidden @ w["out"].astype(jnp.bfloat16)).astype(jnp.float32) ** 2)


def layer(x, w, key=None):
    scores = jax.nn.softmax(jnp.einsum("btd,bsd->bts", x @ w["query"], x))
    x = x + scores @ x
    hidden = jnp.tanh(x @ w["up"] + w["bias"])
    kept = hidden if key is None else hidden * jax.random.bernoulli(key, 0.8, hidden.shape)
    return x + kept @ w["up"].T


def layers(w, x, keys):
    """A scan of layers that drop out at random, and add to what the loss has, too."""

    def turn(carry, of_layer):
        x, penalty = carry
        x = layer(x, *of_layer)
        return (x, penalty + jnp.mean(x**2)), jnp.mean(x)

    (x, penalty), means = jax.lax.scan(turn, (x, 0.0), (w, keys))
    return jnp.mean(jnp.sin(x)) + 0.1 * penalty, means


LAYERS = (
    {"query": of(3, WIDTH, WIDTH), "up": of(3, WIDTH, 2 * WIDTH), "bias": of(3, 2 * WIDTH)},
    of(8, 12, WIDTH),
    jax.random.split(jax.random.key(0), 3),
)


def one_layer(w, x, key):
    """One layer over and over, in a loop that counts, with a key that is split in each turn."""

    def turn(_, carry):
        x, key = carry
        key, own = jax.random.split(key)
        return jax.checkpoint(layer)(x, jax.tree.map(lambda leaf: leaf[0], w), own), key

    return jnp.mean(jnp.sin(jax.lax.fori_loop(0, 3, turn, (x, key))[0]))


def recurrent(w, x):
    """The steps that were made are of all, whatever the slice."""

    def turn(carry, x):
        state, steps = carry
        gate, new = jnp.split(jnp.concatenate([x, state], -1) @ w["in"] + w["bias"], 2, -1)
        state = jax.nn.sigmoid(gate) * state + jnp.tanh(new)
        return (state, steps + 1), state

    first = jnp.zeros((x.shape[0], HIDDEN))
    (_, steps), states = jax.lax.scan(turn, (first, 0), x.swapaxes(0, 1))
    return jnp.mean((states @ w["out"]) ** 2), steps


RECURRENT = (
    {"in": of(WIDTH + HIDDEN, 2 * HIDDEN), "bias": of(2 * HIDDEN), "out": of(HIDDEN, 4)},
    of(BATCH, 5, WIDTH),
)


def nested(w, x):
    def turn(x, w):
        return jnp.sin(jax.lax.scan(lambda x, w: (jnp.tanh(x @ w) + x, None), x, w)[0]), None

    return jnp.mean(jax.lax.scan(turn, x, w)[0] ** 2)


NESTED = (of(3, 4, WIDTH, WIDTH), of(BATCH, WIDTH))


def unrolled(w, x):
    """Steps one after another, by the same weights."""
    state = jnp.zeros((x.shape[0], HIDDEN))
    for place in range(x.shape[1]):
        state = jnp.tanh(jnp.concatenate([x[:, place], state], -1) @ w["in"][:, :HIDDEN])
    return jnp.mean(jnp.sin(state @ w["out"]))


def looked_up(w, places):
    """Every turn looks places up in a table, whose gradient is added up at these."""

    def turn(state, places):
        return jnp.tanh(state @ w["in"] + w["table"][:, places].T), None

    first = jnp.zeros((places.shape[1], HIDDEN))
    return jnp.mean(jnp.sin(jax.lax.scan(turn, first, places)[0]))


LOOKED_UP = (
    {"in": of(HIDDEN, HIDDEN), "table": of(HIDDEN, 9)},
    jnp.arange(5 * BATCH).reshape(5, BATCH) ** 2 % 9,
)


def added_at(table, w, x, places):
    """What is added at places to something that is there, of all slices, and only once."""
    return jnp.sin(table.at[places].add(jnp.tanh(x @ w["in"]) @ w["out"]))


ADDED_AT = (of(9, HIDDEN), *WEIGHTED[:2], jnp.arange(BATCH) ** 2 % 9)


def mapped(w, x, keys):
    """A part of the batch in each turn, of which nothing but a count is carried."""

    def turn(count, of_turn):
        x, key = of_turn
        hidden = jnp.tanh(x @ w["in"])
        hidden = hidden * jax.random.bernoulli(key, 0.8, hidden.shape)
        return count + jnp.sum(x > 0), hidden @ w["out"]

    count, made = jax.lax.scan(turn, 3, (x.reshape(8, 8, WIDTH), keys))
    return jnp.mean(jnp.sin(made)), count


MAPPED = (*WEIGHTED[:2], jax.random.split(jax.random.key(1), 8))


def in_chunks(w, x):
    """Attention of some queries in each turn, to keys that belong to the same axis as they do."""
    q, k, v = jnp.split(x @ w, 3, -1)
    made = jax.lax.map(lambda q: jax.nn.softmax(q @ k.T) @ v, q.reshape(8, 8, WIDTH))
    return jnp.mean(jnp.sin(made))


IN_CHUNKS = (of(WIDTH, 3 * WIDTH), of(BATCH, WIDTH))


def accumulated(w, x, y):
    """Gradients of one part of a batch after another."""

    def turn(total, part):
        return jax.tree.map(jnp.add, total, jax.grad(perceptron)(w, *part)), None

    return jax.lax.scan(turn, jax.tree.map(jnp.zeros_like, w), (x, y))[0]


ACCUMULATED = PERCEPTRON[0], of(3, BATCH, WIDTH), of(3, BATCH, 4)


def of_neighbours(w, x, places):
    """Each element reads itself, and others at places, of the same."""
    x = jnp.tanh(x)
    return jnp.mean(jnp.sin(x[places] @ w["others"] + x @ w["own"]) @ w["out"])


OF_NEIGHBOURS = (
    {"others": of(WIDTH, 8), "own": of(WIDTH, 8), "out": of(8, 4)},
    of(8 * BATCH, WIDTH),
    np.random.default_rng(0).permutation(8 * BATCH),
)


def contrasted(w, x, y):
    """Each element of a batch is compared with all others, so that the loss waits for all of them:
    gradients need what is made of the batch before."""

    def tower(weights, x):
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x

    scores = tower(w["left"], x) @ tower(w["right"], y).T
    rows, columns = jax.nn.log_softmax(scores), jax.nn.log_softmax(scores, 0)
    return -jnp.mean(jnp.sum((rows + columns) * jnp.eye(len(x)), -1))


def labelled(w, x, y):
    """The same by labels, of rows and of columns."""
    scores = jnp.tanh(x @ w["left"][0]) @ jnp.tanh(y @ w["right"][0]).T
    own = jnp.arange(len(x))
    losses = [
        -jnp.take_along_axis(jax.nn.log_softmax(one), own[:, None], -1)
        for one in (scores, scores.T)
    ]
    return jnp.mean(jnp.stack(losses))


CONTRASTED = (
    {side: of(8, HIDDEN, HIDDEN) for side in ("left", "right")},
    of(8 * BATCH, HIDDEN),
    of(8 * BATCH, HIDDEN) + 0.1,
)


def passed_on(w, nodes, senders, receivers):
    """Layers that add up what edges make of their ends, and so wait for all edges."""
    for pair in w:
        ends = jnp.concatenate([nodes[senders], nodes[receivers]], -1)
        made = jnp.tanh(ends @ pair["up"]) @ pair["down"]
        nodes = nodes + jnp.zeros_like(nodes).at[receivers].add(made)
    return jnp.mean(nodes**2)


PASSED_ON = (
    [{"up": of(2 * WIDTH, HIDDEN), "down": of(HIDDEN, WIDTH)} for _ in range(3)],
    of(BATCH, WIDTH),
    *np.random.default_rng(0).integers(0, BATCH, (2, 8 * BATCH)),
)

PROGRAMS = {
    "perceptron": (jax.value_and_grad(perceptron), PERCEPTRON),
    "normalised": (normalised, NORMALISED),
    "weighted": (jax.grad(weighted), WEIGHTED),
    "attention": (jax.value_and_grad(attention), ATTENTION),
    "convolutional": (jax.grad(convolutional), CONVOLUTIONAL),
    "by example": (by_example, PERCEPTRON),
    "narrow": (jax.grad(narrow), WEIGHTED[:2]),
    "layers": (jax.value_and_grad(layers, has_aux=True), LAYERS),
    "one layer": (jax.value_and_grad(one_layer), (*LAYERS[:2], LAYERS[2][0])),
    "recurrent": (jax.value_and_grad(recurrent, has_aux=True), RECURRENT),
    "nested": (jax.value_and_grad(nested), NESTED),
    "unrolled": (jax.value_and_grad(unrolled), RECURRENT),
    "looked up": (jax.value_and_grad(looked_up), LOOKED_UP),
    "added at": (added_at, ADDED_AT),
    "of neighbours": (jax.value_and_grad(of_neighbours), OF_NEIGHBOURS),
    "contrasted": (jax.value_and_grad(contrasted), CONTRASTED),
    "labelled": (jax.value_and_grad(labelled), CONTRASTED),
    "passed on": (jax.value_and_grad(passed_on), PASSED_ON),
    "mapped": (jax.value_and_grad(mapped, has_aux=True), MAPPED),
    "in chunks": (jax.value_and_grad(in_chunks), IN_CHUNKS),
    "accumulated": (accumulated, ACCUMULATED),
    "rows": (lambda x, w: (jnp.tanh(x @ w) @ w.T, jnp.max(x @ w)), (of(BATCH, 8), of(8, 256))),
}
