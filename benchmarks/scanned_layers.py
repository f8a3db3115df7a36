"""Scanned layers within a budget: rj.fit against jax.checkpoint around the scan's body.

    python benchmarks/scanned_layers.py
    python benchmarks/scanned_layers.py --accelerator=h100

For each policy of jax.checkpoint: bytes beyond the arguments and FLOPs over those of the gradient
without any, its own, and of what rj.fit finds within its bytes, which knows of no policy. Nothing
runs; the compiler says it. XLA counts the FLOPs of a loop's body once.
"""

import argparse

import instances
import jax
import jax.numpy as jnp
from jax import checkpoint_policies as policies

import regal_jax as rj
from regal_jax.compiler.ways.judge import Needs

POLICIES = {
    "nothing saved": None,
    "dots_saveable": policies.dots_saveable,
    "dots, no batch dims": policies.dots_with_no_batch_dims_saveable,
}
UNLIMITED = 2**50
BATCH, STEPS, WIDTH, HEADS, LAYERS = 8, 128, 256, 8, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--accelerator", help="compile for it, such as h100; else for this CPU")
    parser.add_argument("--evaluations", type=int, default=5000, help="of each search for a plan")
    flags = parser.parse_args()
    rows = [row for name in BODIES for row in measure(name, flags)]
    instances.print_table(["body", "policy", "its bytes", "its FLOPs", "bytes", "FLOPs"], rows)


def measure(name: str, flags) -> list[list[object]]:
    """A row a policy."""
    body, weights, carry = BODIES[name]
    weights = {key: jax.ShapeDtypeStruct(shape, jnp.float32) for key, shape in weights.items()}
    shapes = weights, jax.ShapeDtypeStruct(carry, jnp.float32)

    def fitted(body, budget):
        def loss(weights, carry):
            return (jax.lax.scan(lambda x, w: (body(x, w), None), carry, weights)[0] ** 2).mean()

        step = jax.value_and_grad(loss)
        options = {"accelerator": flags.accelerator, "evaluations": flags.evaluations}
        return rj.fit(step, *shapes, memory_budget=budget, **options).best.needs

    plain = fitted(body, UNLIMITED)
    rows = []
    for label, policy in POLICIES.items():
        other = fitted(jax.checkpoint(body, policy=policy, prevent_cse=False), UNLIMITED)
        both = (*over(other, plain), *over(fitted(body, other.total), plain))
        rows.append([name, label, *both])
    return rows


def over(one: Needs, plain: Needs) -> tuple[float, float]:
    """(bytes beyond the arguments, FLOPs) over the plain program's."""
    beyond = [needs.total - needs.arguments for needs in (one, plain)]
    return beyond[0] / beyond[1], one.flops / plain.flops


def transformer(x, w):
    split = (BATCH, STEPS, HEADS, WIDTH // HEADS)
    query, key, value = (one.reshape(split) for one in jnp.split(norm(x) @ w["qkv"], 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / split[-1] ** 0.5
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value).reshape(x.shape)
    x = x + mixed @ w["out"]
    return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]


def norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def gated(x, w):
    """SwiGLU."""
    return x + (jax.nn.silu(norm(x) @ w["gate"]) * (norm(x) @ w["up"])) @ w["down"]


def recurrent(x, w):
    """A GRU's step, with weights of each layer."""
    update, reset = jnp.split(jax.nn.sigmoid(x @ w["gates"]), 2, -1)
    return update * x + (1 - update) * jnp.tanh((reset * x) @ w["candidate"])


WIDE = 4 * WIDTH
BODIES = {
    "transformer": (
        transformer,
        {
            "qkv": (LAYERS, WIDTH, 3 * WIDTH),
            "out": (LAYERS, WIDTH, WIDTH),
            "up": (LAYERS, WIDTH, WIDE),
            "down": (LAYERS, WIDE, WIDTH),
        },
        (BATCH, STEPS, WIDTH),
    ),
    "gated": (
        gated,
        {
            "gate": (LAYERS, WIDTH, WIDE),
            "up": (LAYERS, WIDTH, WIDE),
            "down": (LAYERS, WIDE, WIDTH),
        },
        (BATCH * STEPS, WIDTH),
    ),
    "recurrent": (
        recurrent,
        {"gates": (LAYERS, WIDTH, 2 * WIDTH), "candidate": (LAYERS, WIDTH, WIDTH)},
        (BATCH * STEPS, WIDTH),
    ),
}
"""(body, shapes of the weights, shape of the carry)"""


if __name__ == "__main__":
    main()
