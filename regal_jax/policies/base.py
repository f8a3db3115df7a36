"""What policies have in common: pure functions of one graph, which callers ``vmap``."""

import functools
from typing import Any, Protocol

import jax
from flax.errors import ScopeCollectionNotFound, ScopeParamNotFoundError, ScopeParamShapeError

from regal_jax import registry
from regal_jax.errors import RegalError

_OF_PARAMS = ScopeCollectionNotFound, ScopeParamNotFoundError, ScopeParamShapeError


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
    """What a function of a configuration's policy returns, such as "mode" for (params, inputs).

    RegalError for parameters of a network of another shape, as in files of other versions.
    """
    try:
        return getattr(registry.make_policy(config), function)(*arguments)
    except _OF_PARAMS:
        name = registry.policy_for(type(config)).name
        raise RegalError(
            f"policy: its parameters aren't of this version's network of {name}; train it anew"
        ) from None
