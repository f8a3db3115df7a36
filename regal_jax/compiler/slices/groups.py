"""A slice of a region: all at once, or of groups of elements that have each its own part of sums.

XLA sends a sum over what devices have parts of where it is made, in every slice. Rows of groups
stay where the groups are, and are sent once, when they are added up.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from regal_jax.compiler.slices.cut import Cut
from regal_jax.compiler.slices.regions import Region
from regal_jax.compiler.slices.turn import Turn
from regal_jax.graphs.importers.jax.flat_program import FlatProgram


def slice_of(
    program: FlatProgram,
    region: Region,
    cut: Cut,
    given: Mapping[int, Any],
    slices: Mapping[tuple[int, int], Any] | None = None,
) -> tuple[list[Any], list[Any]]:
    """A slice of what a region stacks, and its part of what all combine."""
    made = Turn(program, cut, given, slices)
    for one in region.ops.values():
        for step, dim in one.steps:
            made.run(step, dim)
    stacked = [made.slices[pair] for pair in region.stacked.items()]
    return stacked, [made.wholes[value] for value in region.combined]


def slice_of_each_group(
    program: FlatProgram, region: Region, cut: Cut, given: Mapping[int, Any]
) -> tuple[list[Any], list[Any]]:
    """The same of a slice that has a part of each of ``cut.among`` groups. Each has a row of what
    is to be combined, so that devices with some groups need nothing of others."""

    def of_group(group: Any, parts: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        own = Cut(cut.among * cut.turns, group * cut.turns + cut.number)
        return slice_of(program, region, own, given, dict(zip(region.cut, parts, strict=True)))

    parts = [cut.take_apart(given[value], axis) for value, axis in region.cut]
    axes = [axis for _value, axis in region.cut]
    out = list(region.stacked.values()), 0
    return jax.vmap(of_group, in_axes=(0, axes), out_axes=out)(jnp.arange(cut.among), parts)
