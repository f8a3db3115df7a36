"""Arrays that needn't wait in memory, because they are quickly made again, and what that frees.

A temporary that is idle at a step, and that cheap instructions (no products, sorts, loops, calls,
communication) make of arrays which are there anyway, needn't be in memory between its last use
before the step and its next reader, which makes it again. What would have to be kept longer for
that counts against it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.compiler.xla import in_place
from regal_jax.compiler.xla.live_memory import LiveMemory
from regal_jax.graphs.importers.xla.text import Instruction, Module


class Recipe(NamedTuple):
    """How a value is made again.

    Attributes:
      value: the value; it is idle from after step ``idle`` to before step ``needed``.
      uses: values read for it that are in memory when it is needed.
      kept: values that must be kept for it until then.
    """

    value: int
    idle: int
    needed: int
    uses: frozenset[int]
    kept: frozenset[int]


def recipes(module: Module, memory: LiveMemory, step: int) -> Iterator[Recipe]:
    """Of everything idle at a step that can be made again for less than it frees."""
    cheap = {place: _is_cheap(module, *place) for place in set(memory.steps)}
    for number in memory.live_at(step):
        one, gap = memory.memories[number], memory.idle(number, step)
        idle, needed = gap or (step, None)
        if one.kind != "temporary" or needed is None:
            continue
        value = memory.held(number, step)
        inputs = _inputs(memory, cheap, value, needed, _DEEPEST)
        in_one_body = memory.steps[memory.values[value].step][0] == memory.steps[needed][0]
        if inputs and in_one_body and _size(memory, inputs.kept) < one.num_bytes:
            yield Recipe(value, idle, needed, *inputs)


def without(memory: LiveMemory, live: np.ndarray, recipes: Sequence[Recipe]) -> np.ndarray:
    """int64[S]: bytes in use when values are made again; ``live`` if none are.

    What another one is made again of is needed when that is.
    """
    needed = {recipe.value: recipe.needed for recipe in recipes}
    kept: dict[int, int] = {}
    for recipe in sorted(recipes, key=lambda recipe: -recipe.value):
        at = needed[recipe.value]
        needed |= {value: min(needed[value], at) for value in recipe.uses & needed.keys()}
        kept |= {value: max(kept.get(value, 0), at) for value in recipe.kept}
    after = live.copy()
    for recipe in recipes:
        after[recipe.idle + 1 : needed[recipe.value]] -= _size(memory, [recipe.value])
    for value, at in kept.items():
        after[_end(memory, value) + 1 : at + 1] += _size(memory, [value])
    return after


class _Inputs(NamedTuple):
    """``uses`` and ``kept`` of a recipe."""

    uses: frozenset[int]
    kept: frozenset[int]


def _inputs(
    memory: LiveMemory,
    cheap: Mapping[tuple[str, str], bool],
    value: int,
    needed: int,
    depth: int,
) -> _Inputs | None:
    """What a value is made again of at a step; None if that takes long.

    What isn't there any more is made again itself, or kept if that takes less.
    """
    if not depth or not cheap[memory.steps[memory.values[value].step]]:
        return None
    uses: set[int] = set()
    kept: set[int] = set()
    for operand in memory.values[value].operands:
        if _is_there(memory, operand, needed):
            uses.add(operand)
            continue
        inputs = _inputs(memory, cheap, operand, needed, depth - 1)
        if inputs is None or _size(memory, inputs.kept) >= _size(memory, [operand]):
            kept.add(operand)
        else:
            uses |= inputs.uses
            kept |= inputs.kept
    return _Inputs(frozenset(uses), frozenset(kept))


def _is_there(memory: LiveMemory, value: int, step: int) -> bool:
    """Whether a value is in memory when a step begins, and as long as that."""
    number = memory.values[value].memory
    one = memory.memories[number]
    return one.first < step <= one.last and memory.held(number, step - 1) == value


def _is_cheap(module: Module, computation: str, name: str) -> bool:
    one = module.computations[computation].instructions[name]
    return (
        _is_quick(one)
        and not any(in_place.required(module, one))
        and all(
            _is_quick(inner) or inner.opcode == "parameter"
            for body in one.called("calls")
            for inner in module.computations[body].instructions.values()
        )
    )


def _is_quick(one: Instruction) -> bool:
    return one.opcode not in _SLOW and not one.opcode.startswith(_COMMUNICATION)


def _size(memory: LiveMemory, values: Collection[int]) -> int:
    return sum(memory.values[number].array.num_bytes for number in values)


def _end(memory: LiveMemory, value: int) -> int:
    """The last step at which a value is in memory."""
    one = memory.memories[memory.values[value].memory]
    later = (memory.values[number].step - 1 for number in one.values if number > value)
    return min([one.last, *later])


_DEEPEST = 8
"""Instructions in a row that are run again to make an array."""

_SLOW = frozenset(
    """
    parameter dot convolution custom-call while conditional call async-start sort fft cholesky
    triangular-solve scatter select-and-scatter reduce-window rng rng-bit-generator
    rng-get-and-update-state infeed outfeed
    """.split()  # noqa: SIM905
)
_COMMUNICATION = ("all-", "collective-", "reduce-scatter", "ragged-", "send", "recv")
