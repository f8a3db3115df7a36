"""What policies have in common: pure functions of one graph, which callers ``vmap``."""

import functools
from typing import Any, Protocol

import jax

from regal_jax import registry


class Policy(Protocol):
    """A distribution over decisions about a graph, given parameters.

    All have ``init``. What else a policy has goes by these names:

    - ``encode`` (params, inputs, ...) -> what is computed of a graph once, for all its decisions;
    - ``logits`` (what ``encode`` made, state) -> float[...], of one decision;
    - ``sample`` (params, key, inputs, ...) and ``mode`` (params, inputs) -> decisions;
    - ``log_prob`` and ``entropy`` (params, inputs, decisions) -> float[].
    """

    @property
    def init(self) -> Any:
        """(key, inputs, ...) -> params."""


@functools.partial(jax.jit, static_argnames=("config", "function"))
def call(config: Any, function: str, *arguments: Any) -> Any:
    """What a function of a configuration's policy returns, such as "mode" for (params, inputs)."""
    return getattr(registry.make_policy(config), function)(*arguments)
