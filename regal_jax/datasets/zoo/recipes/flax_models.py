"""Architectures written for the zoo in Flax, from one dense layer to searched cells."""

from collections.abc import Iterator
from itertools import chain

from regal_jax.datasets.zoo.recipes import (
    flax_branching,
    flax_cells,
    flax_convolutional,
    flax_dynamics,
    flax_generative,
    flax_graphs,
    flax_multi_task,
    flax_recommenders,
    flax_sequence,
    flax_transformers,
    flax_unets,
)
from regal_jax.datasets.zoo.recipes.flax_families import Family, family_recipes
from regal_jax.datasets.zoo.recipes.recipe import Recipe, Source

FAMILIES: tuple[Family, ...] = (
    *flax_multi_task.FAMILIES,
    *flax_recommenders.FAMILIES,
    *flax_generative.FAMILIES,
    *flax_graphs.FAMILIES,
    *flax_dynamics.FAMILIES,
    *flax_convolutional.FAMILIES,
    *flax_branching.FAMILIES,
    *flax_cells.FAMILIES,
    *flax_unets.FAMILIES,
    *flax_transformers.FAMILIES,
    *flax_sequence.FAMILIES,
)


def recipes() -> Iterator[Recipe]:
    """Every variant of every family."""
    return chain.from_iterable(family_recipes(family) for family in FAMILIES)


SOURCE = Source("flax", ("flax", "jax"), recipes)
