"""The most bytes that a program holds at once, by a model: cheap ops run inside what reads them, a
region holds nothing of its own, and arguments aren't counted."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from regal_jax.compiler.barriers.kernels import bytes_of, is_cheap
from regal_jax.compiler.slices.regions import Region, regions_of
from regal_jax.graphs.importers.jax.flat_program import FlatProgram

POWER = 8
"""Of the mean."""


def peak_of(program: FlatProgram, region: Region | None = None) -> int:
    """Bytes; of the ops in program order, but for those of a region, which run at once."""
    return int(_held(program, region).max())


def weight_of(program: FlatProgram, region: Region | None = None) -> float:
    """Bytes: a mean over ops, in which the most counts most, but what is beside it does, too."""
    held = _held(program, region).astype(np.float64)
    return float(np.mean(held**POWER) ** (1 / POWER))


def lightest(
    program: FlatProgram, is_wanted: Callable[[Region], bool]
) -> tuple[float, Region] | None:
    """The region that a program is lightest with, and its weight then; slices may make again what
    was made before."""
    found = [
        (weight_of(program, region), region)
        for region in regions_of(program, again=True)
        if is_wanted(region)
    ]
    return min(found, key=lambda one: one[0], default=None)


def _held(program: FlatProgram, region: Region | None) -> np.ndarray:
    """Bytes at each time."""
    places = _places(program, region)
    held = np.zeros(len(program.ops) + 2, np.int64)
    for value, (first, last) in _lives(program, region, places).items():
        held[first] += bytes_of(program, value)
        held[last + 1] -= bytes_of(program, value)
    return np.cumsum(held)


def _places(program: FlatProgram, region: Region | None) -> dict[int, int]:
    """When each op runs: those before the region, its own at once, and those after it."""
    if region is None:
        return {number: number for number in range(len(program.ops))}
    others = region.own | region.after
    before = [n for n in range(len(program.ops)) if n not in others]
    after = enumerate(sorted(region.after), start=len(before) + 1)
    return (
        {number: place for place, number in enumerate(before)}
        | dict.fromkeys(region.own, len(before))
        | {number: place for place, number in after}
    )


def _lives(
    program: FlatProgram, region: Region | None, places: dict[int, int]
) -> dict[int, tuple[int, int]]:
    """When each value that is an array of its own is made, and last read. What a cheap op makes is
    one if others than cheap ones read it, or the program returns it; else what reads that reads
    what the cheap op does."""
    own, inside = (region.own, region.ops) if region else (frozenset(), {})
    given = set(region.given if region else ())
    made_inside = {value for one in inside.values() for value in one.op.writes} - given
    last: dict[int, int] = defaultdict(int, dict.fromkeys(program.bases(), len(program.ops)))
    arrays, lives = set(last), {}
    for number, op in sorted(enumerate(program.ops), key=lambda one: (-places[one[0]], -one[0])):
        place = places[number]
        is_fused = is_cheap(op) and number not in own and arrays.isdisjoint(op.writes)
        if not is_fused:
            lives.update({value: (place, max(last[value], place)) for value in op.writes})
        if number in inside:
            read = set(op.reads) - made_inside
            arrays |= read
            last.update({value: max(last[value], places[min(own)]) for value in read})
        if number not in own:
            until = max((last[value] for value in op.writes), default=0) if is_fused else place
            arrays |= set() if is_cheap(op) else set(op.reads)
            last.update({value: max(last[value], until) for value in op.reads})
    return {
        value: life
        for value, life in lives.items()
        if value not in made_inside or life[1] > life[0]
    }
