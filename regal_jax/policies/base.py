"""What policies have in common: pure functions of one graph, which callers ``vmap``."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Protocol

import chex
import jax
from flax.errors import ScopeCollectionNotFound, ScopeParamNotFoundError, ScopeParamShapeError

from regal_jax import registry
from regal_jax.errors import ParameterError

_OF_PARAMS = KeyError, ScopeCollectionNotFound, ScopeParamNotFoundError, ScopeParamShapeError


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

    ParameterError as of ``fitting``.
    """
    with fitting(config):
        return getattr(registry.make_policy(config), function)(*arguments)


@contextlib.contextmanager
def fitting(config: Any) -> Iterator[None]:
    """In which a policy's parameters are read, or traced: raises ParameterError for those of a
    network of another shape, as in files of other versions."""
    try:
        yield
    except _OF_PARAMS:
        raise _unfit(config) from None


def check_shapes(config: Any, params: Any) -> None:
    """Raises ParameterError unless parameters have the shapes that a policy whose ``init`` takes
    a key alone begins with."""
    try:
        chex.assert_trees_all_equal_shapes(_shapes(config), params)
    except AssertionError:
        raise _unfit(config) from None


@functools.lru_cache(maxsize=64)
def _shapes(config: Any) -> Any:
    """Those of first parameters: tracing them takes longer than a short schedule."""
    return jax.eval_shape(registry.make_policy(config).init, jax.random.key(0))


def _unfit(config: Any) -> ParameterError:
    name = registry.policy_for(type(config)).name
    return ParameterError(
        f"the policy's parameters aren't of this version's network of {name}; train it anew"
    )
