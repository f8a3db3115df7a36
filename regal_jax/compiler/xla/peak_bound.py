"""A lower bound on the peak of a module's memory, whatever the order of its instructions.

On the accounting of ``live_memory``: what is there at the start (all parameters and constants),
what must be there at the end (outputs, constants and the parameters that aren't donated), what an
instruction works on, and the least that other instructions leave beside it in any order (a minimum
cut, ``largest_cut``); with each what is always there. Always there are constants, the parameters
that aren't donated, and those whose reader makes the output that takes their memory. Not counted is
a result that could be made in an operand's memory. Within a body, what it is called with is there
as well.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from regal_jax.compiler.xla import in_place
from regal_jax.compiler.xla.buffers import Kind
from regal_jax.compiler.xla.largest_cut import largest_cut
from regal_jax.compiler.xla.live_memory import LiveMemory
from regal_jax.graphs.importers.xla.text import Module, leaves

Term = Literal["start", "end", "working set", "cut"]


class Bound(NamedTuple):
    """A lower bound, and the term that it is.

    Attributes:
      num_bytes: no order needs less.
      term: the largest term.
      step: of the instruction at which they are there; the first or the last step otherwise.
      always: bytes of it that are there at every step, whatever the order.
      values: numbers of the values that make up the rest, the largest first.
    """

    num_bytes: int
    term: Term
    step: int
    always: int
    values: tuple[int, ...]


def peak_bound(module: Module, memory: LiveMemory) -> Bound:
    """The largest lower bound on the peak of any order."""
    place = _places(memory)
    always = _always(memory, place)
    end = len(memory.steps) - 1
    given, returned = _last_values(memory, "parameter", "constant"), _last_values(memory, "output")
    terms: list[tuple[Term, int, Sequence[int]]] = [("start", 0, given), ("end", end, returned)]
    working = _working_sets(module, memory, place)
    terms += [("working set", step, values) for step, values in enumerate(working) if values]
    counted = [number not in always for number in place]
    terms.append(("cut", *largest_cut(memory, module.entry, counted, working)))
    bounds = (_bound(memory, place, always, *term) for term in terms)
    return max(bounds, key=lambda bound: bound.num_bytes)


def _bound(
    memory: LiveMemory,
    place: Sequence[int],
    always: Mapping[int, int],
    term: Term,
    step: int,
    values: Sequence[int],
) -> Bound:
    """The bound of values that are in memory together, and with what is always there."""
    size = {number: memory.values[number].array.num_bytes for number in values}
    ordered = sorted(size, key=lambda number: -size[number])
    largest = {place[number]: number for number in reversed(ordered)}
    rest = [n for n in ordered if largest[place[n]] == n and place[n] not in always and size[n]]
    kept = sum(always.values())
    return Bound(kept + sum(size[n] for n in rest), term, step, kept, tuple(rest))


def _places(memory: LiveMemory) -> list[int]:
    """The same number for values that are in one memory in every order."""
    first = {
        memory.values[one.values[-1]].home: memory.memories[one.donor].values[0]
        for one in memory.memories
        if one.donor is not None
    }
    donor = {home: memory.values[number].home for home, number in first.items()}
    return [donor.get(value.home, value.home) for value in memory.values]


def _always(memory: LiveMemory, place: Sequence[int]) -> dict[int, int]:
    """Bytes, by place, of what is there at every step."""
    takers = {one.donor: one.values[-1] for one in memory.memories if one.donor is not None}
    found = {}
    for number, one in enumerate(memory.memories):
        taker = takers.get(number)
        made_of = () if taker is None else memory.values[taker].operands
        if one.kind in ("parameter", "constant") and (
            taker is None or not set(one.values).isdisjoint(made_of)
        ):
            found[place[one.values[0]]] = one.num_bytes
    return found


def _last_values(memory: LiveMemory, *kinds: Kind) -> list[int]:
    """The last value of every buffer of these kinds."""
    return [one.values[-1] for one in memory.memories if one.kind in kinds]


def _working_sets(module: Module, memory: LiveMemory, place: Sequence[int]) -> list[list[int]]:
    """For every step the values that are in memory together there in every order."""
    found: list[list[int]] = [[] for _ in memory.steps]
    made: list[list[int]] = [[] for _ in memory.steps]
    for number, value in enumerate(memory.values):
        made[value.step].append(number)
        for step in value.reads:
            found[step].append(number)
    for call in memory.calls:
        for step in range(call.first, call.last + 1):
            found[step] += call.operands
    for step, results in enumerate(made):
        if results:
            there = {place[number] for number in found[step]}
            new = [number for number in results if place[number] not in there]
            found[step] += _without_room(module, memory, step, new)
    return found


def _without_room(
    module: Module, memory: LiveMemory, step: int, results: Sequence[int]
) -> list[int]:
    """The results of a step that can't be made in the memory of an operand."""
    rooms = Counter(_rooms(module, memory, step, results))
    left = []
    for number in results:
        size = memory.values[number].array.num_bytes
        if rooms[size]:
            rooms[size] -= 1
        else:
            left.append(number)
    return left


def _rooms(module: Module, memory: LiveMemory, step: int, results: Sequence[int]) -> Iterator[int]:
    """Sizes of the temporary operands of a step that a result may be made in the memory of."""
    computation, name = memory.steps[step]
    operands = module.computations[computation].instructions
    read = iter(memory.values[results[0]].operands) if results else iter(())
    seen = set()
    for index, source in enumerate(operands[name].operands):
        sources = list(islice(read, sum(1 for _ in leaves(operands[source].shape))))
        if len(sources) != 1 or sources[0] in seen:
            continue
        seen.add(sources[0])
        is_free = memory.memories[memory.values[sources[0]].memory].kind in ("temporary", "output")
        if is_free and in_place.allowed(module, computation, operands[name], index):
            yield memory.values[sources[0]].array.num_bytes
