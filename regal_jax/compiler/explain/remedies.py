"""What would lower a program's memory: arrays made again, arguments donated, work split.

Every number is an estimate of what can be saved at most, found by counting again on the accounting
of ``live_memory``:
- recompute: temporaries that are idle at the peak are made again for their next reader
  (``recomputation``).
- donate: an output could take the memory of a parameter of its shape and type that isn't read
  after it is made. XLA holds the memory of arguments and of results throughout, so all of it is
  saved, wherever the peak is.
- split: temporaries whose first dimension is the commonest at the peak, each halved, as in half
  the batch. Arrays of a parameter's shape (gradients, copies) are left out.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from regal_jax.compiler.explain.recomputation import Recipe, recipes, without
from regal_jax.compiler.explain.source_lines import Origin, SourceLine
from regal_jax.compiler.xla.live_memory import LiveMemory
from regal_jax.graphs.importers.xla.text import Array, Module

Advice = Literal["recompute", "donate", "split"]

BACKWARD = "transpose(jvp("
"""What the op names of a backward pass contain."""


class Remedy(NamedTuple):
    """One thing to change, and what it saves.

    Attributes:
      advice: the kind of change.
      saves: bytes, estimated; of several that recompute, what each adds to those before it.
      peak: bytes of the peak after it (after it and those before it that recompute).
      memories: numbers of the buffers that it is about, the largest first.
      num_bytes: of these buffers.
      source: recompute: the line that makes them, None where it is XLA itself.
      is_residual: recompute: made in a forward pass and read next in the backward pass, which is
        what ``jax.checkpoint`` is for.
      name: donate: the argument's name; split: the size of the dimension.
    """

    advice: Advice
    saves: int
    peak: int
    memories: tuple[int, ...]
    num_bytes: int
    source: SourceLine | None = None
    is_residual: bool = False
    name: str = ""


def remedies(
    module: Module, memory: LiveMemory, origins: Mapping[tuple[str, str], Origin]
) -> list[Remedy]:
    """What saves more than a thousandth of the peak, the most first."""
    found = [
        *_recomputations(module, memory, origins),
        *_donations(memory, origins),
        *_splits(memory),
    ]
    least = _LEAST * memory.live_bytes().max()
    useful = (remedy for remedy in found if remedy.saves > least)
    return sorted(useful, key=lambda remedy: -remedy.saves)


def _recomputations(
    module: Module, memory: LiveMemory, origins: Mapping[tuple[str, str], Origin]
) -> Iterator[Remedy]:
    """By line of the source, those that free most at the peak first."""
    live = memory.live_bytes()
    groups: dict[tuple[SourceLine | None, bool], list[Recipe]] = {}
    results = _first_results(memory)
    for recipe in recipes(module, memory, int(live.argmax())):
        made = origins[memory.steps[memory.values[recipe.value].step]]
        reader = _op_name(memory, origins, results, recipe.needed)
        forward = made.source is not None and BACKWARD not in made.op_name
        is_residual = forward and BACKWARD in reader
        groups.setdefault((made.source, is_residual), []).append(recipe)
    chosen: list[Recipe] = []
    peak = int(live.max())
    ordered = sorted(groups.items(), key=lambda group: -_total(memory, _of(memory, group[1])))
    for (source, is_residual), group in ordered:
        after = int(without(memory, live, [*chosen, *group]).max())
        if after >= peak:
            continue
        chosen += group
        about = _of(memory, group)
        size = _total(memory, about)
        yield Remedy("recompute", peak - after, after, about, size, source, is_residual)
        peak = after


def _first_results(memory: LiveMemory) -> dict[int, int]:
    """The number of the first value made at every step that makes any."""
    return {value.step: number for number, value in reversed(list(enumerate(memory.values)))}


def _op_name(
    memory: LiveMemory,
    origins: Mapping[tuple[str, str], Origin],
    results: Mapping[int, int],
    step: int,
) -> str:
    """The op name at a step; where XLA wrote none, that of who reads what is made there."""
    for _ in range(_HOPS):
        name = origins[memory.steps[step]].op_name
        reads = memory.values[results[step]].reads if step in results else ()
        if name or not reads:
            return name
        step = reads[0]
    return ""


def _of(memory: LiveMemory, recipes: Sequence[Recipe]) -> tuple[int, ...]:
    """The buffers that recipes free, the largest first."""
    found = {memory.values[recipe.value].memory for recipe in recipes}
    return tuple(sorted(found, key=lambda number: -memory.memories[number].num_bytes))


def _total(memory: LiveMemory, numbers: Collection[int]) -> int:
    return sum(memory.memories[number].num_bytes for number in numbers)


def _donations(memory: LiveMemory, origins: Mapping[tuple[str, str], Origin]) -> Iterator[Remedy]:
    """By argument of the function."""
    live = memory.live_bytes()
    groups: dict[str, list[tuple[int, int]]] = {}
    for parameter, output in _donatable(memory):
        groups.setdefault(argument(memory, origins, parameter), []).append((parameter, output))
    for name, pairs in groups.items():
        after = live.copy()
        for parameter, output in pairs:
            size, last = memory.memories[parameter].num_bytes, _last_read(memory, parameter)
            after[last + (memory.memories[output].first != last) :] -= size
        about = sorted((p for p, _ in pairs), key=lambda number: -memory.memories[number].num_bytes)
        size = _total(memory, about)
        yield Remedy("donate", size, int(after.max()), tuple(about), size, name=name)


def argument(memory: LiveMemory, origins: Mapping[tuple[str, str], Origin], parameter: int) -> str:
    """The name of the argument that a parameter is part of, without the path in it."""
    place = memory.steps[memory.values[memory.memories[parameter].values[0]].step]
    path = origins[place].op_name or place[1]
    return re.split(r"[\[.]", path, maxsplit=1)[0] or path


def _donatable(memory: LiveMemory) -> Iterator[tuple[int, int]]:
    """(parameter, output that could take its memory), none twice; updates of it come first."""
    donated = {one.donor for one in memory.memories}
    free: dict[Array, list[int]] = {}
    for number, one in enumerate(memory.memories):
        if one.kind == "parameter" and number not in donated and one.num_bytes:
            free.setdefault(_array(memory, number), []).append(number)
    for output, one in enumerate(memory.memories):
        if one.kind != "output" or one.donor is not None:
            continue
        result = memory.values[one.values[-1]]
        same = free.get(result.array, [])
        fitting = [number for number in same if _last_read(memory, number) <= result.step]
        updated = (n for n in fitting if memory.memories[n].values[0] in result.operands)
        parameter = next(updated, next(iter(fitting), None))
        if parameter is not None:
            same.remove(parameter)
            yield parameter, output


def _array(memory: LiveMemory, number: int) -> Array:
    return memory.values[memory.memories[number].values[0]].array


def _last_read(memory: LiveMemory, number: int) -> int:
    return max(memory.memories[number].reads, default=0)


def _splits(memory: LiveMemory) -> Iterator[Remedy]:
    """Half of every temporary with the commonest first dimension."""
    live = memory.live_bytes()
    peak = memory.live_at(int(live.argmax()))
    given = {
        _array(memory, number).dims
        for number, one in enumerate(memory.memories)
        if one.kind == "parameter"
    }
    sizes: dict[int, int] = {}
    for number in peak:
        first = _first_dimension(memory, number, given)
        sizes[first] = sizes.get(first, 0) + memory.memories[number].num_bytes
    sizes.pop(0, None)
    if not sizes:
        return
    size = max(sizes, key=lambda size: sizes[size])
    after = live.copy()
    about = [
        number
        for number in range(len(memory.memories))
        if _first_dimension(memory, number, given) == size
    ]
    for number in about:
        one = memory.memories[number]
        after[one.first : one.last + 1] -= one.num_bytes // 2
    most, present = int(after.max()), tuple(n for n in peak if n in set(about))
    saves = int(live.max()) - most
    yield Remedy("split", saves, most, present, sizes[size], name=str(size))


def _first_dimension(memory: LiveMemory, number: int, given: Collection[tuple[int, ...]]) -> int:
    """The first dimension of a temporary that can be split, else 0."""
    one, dims = memory.memories[number], _array(memory, number).dims
    can_split = one.kind == "temporary" and dims not in given and dims and dims[0] > 1
    return dims[0] if can_split else 0


_HOPS = 8
"""Readers that are asked for an op name."""

_LEAST = 0.001
"""The part of the peak that a remedy has to save."""
