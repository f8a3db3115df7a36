"""Axes of a program's values that belong together, since equations have a dimension for them."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from jax.extend.core import JaxprEqn

from regal_jax.compiler.slices.dims import Dim
from regal_jax.graphs.importers.jax.flat_program import Step

Pair = tuple[int, int]
"""A value, and one of its axes."""


class Axes:
    """The classes of axes, and the dimensions of steps.

    Args:
      steps: of the program.
      dims_of: the dimensions of an equation.
      ties: axes that belong together for other reasons.
      constants: values that no argument decides. As indices they tie nothing: "each with its own"
        doesn't make columns of what compares all with all belong to its rows.
    """

    def __init__(
        self,
        steps: Iterable[Step],
        dims_of: Callable[[JaxprEqn], list[Dim]],
        ties: Iterable[Sequence[Pair]] = (),
        constants: AbstractSet[int] = frozenset(),
    ):
        self._constants = constants
        self._parent: dict[Pair, Pair] = {}
        self._dims: dict[int, list[Dim]] = {}
        for step in steps:
            for dim in self._dims_of(step, dims_of):
                self._tie(self._tied(step, dim))
        for pairs in ties:
            self._tie(pairs)

    @property
    def known(self) -> list[Pair]:
        """All axes that belong to a class."""
        return list(self._parent)

    def root(self, pair: Pair) -> Pair:
        """Of the class of an axis."""
        while (parent := self._parent.get(pair, pair)) != pair:
            self._parent[pair] = pair = self._parent.get(parent, parent)
        return pair

    def within(self, step: Step, root: Pair) -> list[Dim]:
        """The dimensions of a step that belong to a class; the turns of a loop before others."""
        dims = self._dims[id(step.equation)]
        found = [dim for dim in dims if self.root(self._tied(step, dim)[0]) == root]
        turns = [dim for dim in found if dim.body and dim.body.of_turns]
        return turns or found

    def of_constant(self, step: Step) -> list[Dim]:
        """All dimensions of a step whose inputs no argument decides; none of another."""
        atoms = {atom for atom in step.inputs if isinstance(atom, int)}
        return self._dims[id(step.equation)] if atoms <= self._constants else []

    def _dims_of(self, step: Step, dims_of: Callable[[JaxprEqn], list[Dim]]) -> list[Dim]:
        key = id(step.equation)
        if key not in self._dims:
            self._dims[key] = [dim for dim in dims_of(step.equation) if self._tied(step, dim)]
        return self._dims[key]

    def _tied(self, step: Step, dim: Dim) -> list[Pair]:
        """But those of indices that no argument decides."""
        is_placed = step.equation.primitive.name.startswith(("gather", "scatter"))
        if is_placed and step.inputs[1] in self._constants:
            operand, _indices, *updates = dim.inputs
            dim = dim._replace(inputs=(operand, None, *updates))
        return tied(step, dim)

    def _tie(self, pairs: Sequence[Pair]) -> None:
        first = self.root(pairs[0])
        self._parent.setdefault(pairs[0], pairs[0])
        for pair in pairs:
            self._parent[self.root(pair)] = first


def tied(step: Step, dim: Dim) -> list[Pair]:
    """The axes of a step's values that a dimension has."""
    atoms = zip((*step.inputs, *step.outputs), (*dim.inputs, *dim.outputs), strict=True)
    return [(atom, axis) for atom, axis in atoms if isinstance(atom, int) and axis is not None]
