"""Models in JAX as recipes: what a mode runs, and the roles and phases of its tensors and ops.

Every step returns (outputs, gradients, updated): what the caller reads (the loss and new state in
training), the gradient of every parameter, and new parameters and moments. JAX updates nothing in
place: new parameters are outputs, and the memory of the old ones may be freed after their last use
(they are donated). Gradients that a step consumes itself have their role, but don't outlive it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from regal_jax.datasets.zoo.recipes.recipe import Recipe
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.graph_builder import GraphBuilder
from regal_jax.graphs.importers.jax import program

TRAINING = ("inference", "training")
ADAM = (*TRAINING, "training_adam")
CHECKPOINTED = (*ADAM, "training_checkpointed")

Tree = Any


class Model(NamedTuple):
    """A model; trees of jax.ShapeDtypeStruct stand for its arrays.

    ``apply(params, state, inputs, training)`` gives (outputs, new state).
    """

    apply: Callable[[Tree, Tree, Tree, bool], tuple[Tree, Tree]]
    params: Tree
    state: Tree
    inputs: Tree


def model_recipe(
    name: str, family: str, make: Callable[[bool], Model], modes: Sequence[str]
) -> Recipe:
    """A recipe for the model ``make(checkpointed)``."""

    def build(mode: str) -> ComputationGraph:
        return step_graph(make(mode == "training_checkpointed"), mode)

    return Recipe(name, family, tuple(modes), build)


def step_graph(model: Model, mode: str) -> ComputationGraph:
    """The graph of a model in a mode of ``recipe.MODES``."""
    step, args, donated = step_of(model, mode)
    lowered = program.lower(step, args, {}, name=mode, donate_argnums=donated)
    return _labelled(lowered, [len(jax.tree.leaves(arg)) for arg in args], mode)


def step_of(model: Model, mode: str) -> tuple[Callable, tuple[Tree, ...], tuple[int, ...]]:
    """What a mode runs: a function, its arguments, and which of them are donated."""
    if mode == "inference":
        return forward(model), (model.params, model.state, model.inputs, ()), ()
    if mode != "training_adam":
        return gradients(model), (model.params, model.state, model.inputs, ()), ()
    moments = jax.eval_shape(optax.adam(1e-3).init, model.params)
    return adam_step(model), (model.params, model.state, model.inputs, moments), (0, 1, 3)


def forward(model: Model) -> Callable:
    """The step of inference."""

    def inference(params: Tree, state: Tree, inputs: Tree, moments: Tree) -> tuple:
        return model.apply(params, state, inputs, False)[0], (), ()

    return inference


def gradients(model: Model) -> Callable:
    """The step of training: the loss, new state, and the loss's gradients by all parameters."""

    def training(params: Tree, state: Tree, inputs: Tree, moments: Tree) -> tuple:
        def loss_of(params: Tree) -> tuple[jax.Array, Tree]:
            outputs, new_state = model.apply(params, state, inputs, True)
            return mean_loss(outputs), new_state

        found, slopes = jax.value_and_grad(loss_of, has_aux=True)(params)
        return found, slopes, ()

    return training


def adam_step(model: Model) -> Callable:
    """The step of training with an update by Adam."""

    def training_adam(params: Tree, state: Tree, inputs: Tree, moments: Tree) -> tuple:
        found, slopes, _ = gradients(model)(params, state, inputs, ())
        updates, moments = optax.adam(1e-3).update(slopes, moments, params)
        return found, slopes, (optax.apply_updates(params, updates), moments)

    return training_adam


def mean_loss(outputs: Tree) -> jax.Array:
    """The sum of the means of the floating-point arrays."""
    leaves = [x for x in jax.tree.leaves(outputs) if jnp.issubdtype(x.dtype, jnp.floating)]
    means = [leaf.mean() if leaf.ndim else leaf for leaf in leaves]
    total = means[0]
    for mean in means[1:]:
        total = total + mean
    return total


def _labelled(
    lowered: program.LoweredFunction, leaves: Sequence[int], mode: str
) -> ComputationGraph:
    """``leaves``: of params, state, inputs and moments."""
    builder, results = lowered.builder, lowered.results
    of_slopes = 0 if mode == "inference" else leaves[0]
    of_updated = leaves[0] + leaves[3] if mode == "training_adam" else 0
    of_outputs = len(results) - of_slopes - of_updated
    outputs, slopes, updated = _split(results, of_outputs, of_slopes, of_updated)
    _set_role(builder, outputs + updated, "output")
    _set_role(builder, slopes, "gradient")
    parts = _split(lowered.arguments, *leaves)
    for tensors, role in zip(parts, ("parameter", "state", "input", "state"), strict=True):
        _set_role(builder, tensors, role)
    _set_phases(builder, _tensors(outputs + slopes))
    kept = outputs + (updated if mode == "training_adam" else slopes)
    return builder.prune(_tensors(kept)).build(name=mode, source=f"jax-{jax.__version__}")


def _split(values: Sequence, *sizes: int) -> list[list]:
    parts, start = [], 0
    for size in sizes:
        parts.append(list(values[start : start + size]))
        start += size
    return parts


def _tensors(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _set_role(builder: GraphBuilder, tensors: Iterable[int | None], role: str) -> None:
    for tensor in _tensors(tensors):
        builder.tensors[tensor].role = role


def _set_phases(builder: GraphBuilder, before_update: list[int]) -> None:
    """Backward are the ops of a transposed program; update those that lead to no other result."""
    leading = _leading_to(builder, before_update)
    for index, op in enumerate(builder.ops):
        direction = "backward" if "transpose(" in op.scope else "forward"
        phase = direction if index in leading else "update"
        builder.ops[index] = op._replace(phase=phase)


def _leading_to(builder: GraphBuilder, tensors: Iterable[int]) -> set[int]:
    """The ops that at least one of these tensors depends on."""
    needed, leading = set(tensors), set()
    for index in range(len(builder.ops) - 1, -1, -1):
        if not needed.isdisjoint(builder.ops[index].outputs):
            leading.add(index)
            needed.update(builder.ops[index].inputs)
    return leading
