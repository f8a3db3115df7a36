"""How one model of the zoo is made into graphs."""

import importlib.metadata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from regal_jax.graphs.computation_graph import ComputationGraph

MODES = ("inference", "training", "training_adam", "training_checkpointed")
"""What is traced: the forward pass; that and the gradients of all parameters; these and an Adam
update; gradients with activation checkpointing."""


def each(option: str, *values: Any, **more: Any) -> list[dict[str, Any]]:
    """Variants that differ in one option."""
    return [{option: value, **more} for value in values]


class Recipe(NamedTuple):
    """A model that can be traced.

    Attributes:
      name: ``package/model``, unique.
      family: the architecture, the same for variants that differ in depth, width or head; splits
        keep families together.
      modes: those of MODES that ``build`` takes.
      build: mode -> graph; raises anything where it fails.
    """

    name: str
    family: str
    modes: tuple[str, ...]
    build: Callable[[str], ComputationGraph]


class Source(NamedTuple):
    """A kind of package.

    Attributes:
      name: of the source, such as ``timm``.
      packages: distributions it takes models from, for the graphs' ``source``.
      recipes: every model, in a fixed order; imports the packages when called.
    """

    name: str
    packages: tuple[str, ...]
    recipes: Callable[[], Iterator[Recipe]]

    def version(self) -> str:
        """``timm-1.0.31`` or, where the first package is called otherwise, ``xla/jax-0.10.2``.

        Raises PackageNotFoundError without the package.
        """
        package = self.packages[0]
        version = f"{package}-{importlib.metadata.version(package)}"
        return version if package == self.name else f"{self.name}/{version}"


def build(source: Source, recipe: Recipe, mode: str) -> ComputationGraph:
    """The named graph of a recipe in a mode: ``package/model:mode``, without labels of its own."""
    graph = recipe.build(mode)
    return graph.replace(
        name=f"{recipe.name}:{mode}",
        family=recipe.family,
        source=f"{source.version()}/{mode}",
    )
