"""Programs as users place ``jax.checkpoint`` in them: by its policies, or by layer."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from regal_jax.datasets import jax_train_steps
from regal_jax.datasets.jax_train_steps import Program

POLICIES: Mapping[str, Callable[..., Any] | None] = {
    "nothing saved": None,
    "dots_saveable": jax.checkpoint_policies.dots_saveable,
    "dots, no batch dims": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}
BY_LAYER = "by layer"
METHODS = (*POLICIES, BY_LAYER)


def program(name: str, method: str) -> Program | None:
    """A program by one of ``METHODS``, with the arguments and results of the plain one; None where
    it has no layers that can be checkpointed."""
    if method in POLICIES:
        return jax_train_steps.with_policy(name, POLICIES[method])
    family, mode, times = name.partition("/training")
    layered = f"{family}{mode}_checkpointed{times}"
    if layered.partition("*")[0] not in jax_train_steps.program_names():
        return None
    return _as(jax_train_steps.program(name), jax_train_steps.program(layered))


def _as(plain: Program, layered: Program) -> Program:
    """A layered program that takes and returns the plain one's trees, whose names Flax changes."""

    def function(*args: Any) -> Any:
        results = layered.function(*_renamed(args, layered.shapes))
        return _renamed(results, jax.eval_shape(plain.function, *plain.shapes))

    return plain._replace(function=function)


def _renamed(tree: Any, like: Any) -> Any:
    """The tree's leaves where another has those of the same names, but for Flax's prefix."""
    leaves = {_path(path): leaf for path, leaf in jax.tree.leaves_with_path(tree)}
    return jax.tree.map_with_path(lambda path, _: leaves[_path(path)], like)


def _path(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path).replace("Checkpoint", "")
