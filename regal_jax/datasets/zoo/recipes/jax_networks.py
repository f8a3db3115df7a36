"""Networks of comparators, sums and searches: sorting, prefixes, reductions, alignment, trees."""

import jax
import jax.numpy as jnp


def bitonic_sort(rows: jax.Array, *, size: int) -> jax.Array:
    """A sorting network over rows, each comparator two ops."""
    values, block = [rows[i] for i in range(size)], 2
    while block <= size:
        step = block // 2
        while step:
            for i in range(size):
                if not i & step:
                    _compare(values, i, i + step, bool(i & block))
            step //= 2
        block *= 2
    return jnp.stack(values)


def odd_even_sort(rows: jax.Array, *, size: int) -> jax.Array:
    """A sorting network of neighbours, as many rounds as rows."""
    values = [rows[i] for i in range(size)]
    for turn in range(size):
        for i in range(turn % 2, size - 1, 2):
            _compare(values, i, i + 1, False)
    return jnp.stack(values)


def _compare(values: list[jax.Array], low: int, high: int, descending: bool) -> None:
    small = jnp.minimum(values[low], values[high])
    large = jnp.maximum(values[low], values[high])
    values[low], values[high] = (large, small) if descending else (small, large)


def map_reduce(rows: jax.Array, *, parts: int, arity: int) -> list[jax.Array]:
    """Parts mapped, then reduced by a tree of some arity to moments and extremes."""
    mapped = [jnp.tanh(part @ part.T) for part in jnp.split(rows, parts)]
    return [
        _reduced(jnp.add, [m.sum(axis=0) for m in mapped], arity),
        _reduced(jnp.add, [(m**2).sum(axis=0) for m in mapped], arity),
        _reduced(jnp.maximum, [m.max(axis=0) for m in mapped], arity),
    ]


def _reduced(combine, parts: list[jax.Array], arity: int) -> jax.Array:
    while len(parts) > 1:
        groups = [parts[i : i + arity] for i in range(0, len(parts), arity)]
        parts = [_folded(combine, group) for group in groups]
    return parts[0]


def _folded(combine, parts: list[jax.Array]) -> jax.Array:
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return total


def prefix_sums(rows: jax.Array, *, size: int) -> jax.Array:
    """Parallel prefixes by Kogge and Stone's network."""
    values, step = [rows[i] for i in range(size)], 1
    while step < size:
        values = [v if i < step else v * values[i - step] for i, v in enumerate(values)]
        step *= 2
    return jnp.stack(values)


def wavelets(image: jax.Array, *, levels: int) -> list[jax.Array]:
    """Haar bands of an image, recursively of the lowest band."""
    if not levels:
        return [image]
    rows = image[::2] + image[1::2], image[::2] - image[1::2]
    bands = [band for x in rows for band in (x[:, ::2] + x[:, 1::2], x[:, ::2] - x[:, 1::2])]
    return wavelets(bands[0], levels=levels - 1) + bands[1:]


def alignment(first: jax.Array, second: jax.Array, *, count: int) -> jax.Array:
    """Soft dynamic time warping by tiles: each depends on those above, left and diagonal."""
    cost = ((first[:, None] - second[None]) ** 2).sum(axis=-1)
    size = cost.shape[0] // count
    best: dict[tuple[int, int], jax.Array] = {}
    for i in range(count):
        for j in range(count):
            tile = cost[i * size : (i + 1) * size, j * size : (j + 1) * size]
            near = [best[key] for key in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if key in best]
            total = jnp.cumsum(jnp.cumsum(tile, axis=0), axis=1)
            best[i, j] = total + _softmin([x[-1, -1] for x in near]) if near else total
    return best[count - 1, count - 1]


def _softmin(parts: list[jax.Array]) -> jax.Array:
    return -jax.nn.logsumexp(-jnp.stack(parts))


def beam_search(table: jax.Array, start: jax.Array, *, width: int, steps: int) -> list[jax.Array]:
    """Beams kept by score through a recurrent table."""
    scores, states = jnp.zeros(width), jnp.broadcast_to(start, (width, *start.shape))
    words: list[jax.Array] = []
    for _ in range(steps):
        logits = jax.nn.log_softmax(states @ table.T)
        total = (scores[:, None] + logits).reshape(-1)
        scores, best = jax.lax.top_k(total, width)
        parents, word = best // table.shape[0], best % table.shape[0]
        states = jnp.tanh(states[parents] + table[word])
        words = [previous[parents] for previous in words] + [word]
    return [scores, *words]


def tiled_attention(
    query: jax.Array, key: jax.Array, value: jax.Array, *, rows: int, columns: int
) -> jax.Array:
    """Attention in tiles with a running maximum and sum (as in FlashAttention)."""
    keys, values = jnp.split(key, columns), jnp.split(value, columns)
    return jnp.concatenate([_attended(tile, keys, values) for tile in jnp.split(query, rows)])


def _attended(query: jax.Array, keys: list[jax.Array], values: list[jax.Array]) -> jax.Array:
    high = jnp.full((query.shape[0], 1), -1e30)
    total, mixed = jnp.zeros_like(high), jnp.zeros_like(query)
    for key, value in zip(keys, values, strict=True):
        scores = query @ key.T
        higher = jnp.maximum(high, scores.max(axis=1, keepdims=True))
        weights, scale = jnp.exp(scores - higher), jnp.exp(high - higher)
        total = total * scale + weights.sum(axis=1, keepdims=True)
        mixed, high = mixed * scale + weights @ value, higher
    return mixed / total


def monte_carlo_tree(states: jax.Array, weight: jax.Array, *, depth: int, branching: int):
    """Values of a full game tree, leaves by a network, backed up as soft minimax."""

    def value(state: jax.Array, left: int) -> jax.Array:
        if not left:
            return jnp.tanh(state @ weight).mean(axis=-1)
        moves = [value(jnp.tanh(jnp.roll(state, k + 1, -1) @ weight), left - 1)
                 for k in range(branching)]  # fmt: skip
        return -jax.nn.logsumexp(jnp.stack(moves), axis=0)

    return value(states, depth)
