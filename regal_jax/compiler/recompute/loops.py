"""Gradients of scans that keep less of each turn: the backward scan computes it again.

The gradient of a scan is two scans: the forward one stacks what the backward one reads of each turn
(its residuals). A loop is one kernel, whose inside no order and no plan reaches, so this is done to
the program before: residuals are left out of the forward scan, and made again in the backward one's
body from the carry, the slices of the forward scan's arguments, and the residuals that are kept.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jax.extend.core import Literal, jaxpr_as_fun

from regal_jax.compiler.barriers.emission import with_program
from regal_jax.compiler.barriers.kernels import bytes_of, is_cheap
from regal_jax.compiler.barriers.making import Making
from regal_jax.graphs.importers.jax.flat_program import (
    FlatProgram,
    flat_jaxpr,
    run_steps,
)
from regal_jax.graphs.importers.jax.loop_bodies import Loop, paths_of, with_body
from regal_jax.graphs.importers.jax.program import flops_of
from regal_jax.graphs.importers.jax.scans import Scan, scan_of
from regal_jax.graphs.importers.jax.values import value_bytes

SHARES = (1.0, 5 / 6, 2 / 3, 1 / 2, 1 / 3, 1 / 6, 0.0)
"""What is kept of the bytes that cheap ops don't make again, and not needed for least."""


def with_lean_loops(traced: Any, program: FlatProgram) -> list[Any]:
    """The traced function with loops that keep ever less; none where there are no such loops. Those
    of the program itself, or of the body of another loop: where the most is stacked.

    The first make again only what cheap ops make of what is kept; the last all but the carry;
    those between, what takes the least work for its bytes.

    Args:
      traced: ``jax.jit(fn).trace(...)``.
      program: its ops.
    """
    loops, inner, pairs = _stacking_most(program)
    chains = [(pair, _chain(pair)) for pair in pairs]
    made: list[dict[int, _Plan]] = [{}]
    for share in SHARES:
        plans = {pair.forward: _of_share(pair, chain, share) for pair, chain in chains}
        plans = {forward: plan for forward, plan in plans.items() if plan.again}
        if plans not in made:
            made.append(plans)
    bodies = [_program_with(inner, pairs, plans) for plans in made[1:]]
    return [with_program(traced, with_body(program, loops, body)) for body in bodies]


class _Pair(NamedTuple):
    """A forward and a backward scan.

    Attributes:
      forward, backward: ops of the program.
      scan, reader: their equations' parameters.
      residuals: (output of the forward scan's body, input of the backward scan's), the stacks that
        only the backward scan reads.
      body: of the forward scan. making: of its values. flops: of its ops.
      sizes: bytes of each residual in a turn.
      bases: the values of the body that residuals are, or are views of.
      whole: residuals that are no views, and the values of the body that they are.
      carried: residuals that are carries, and which.
    """

    forward: int
    backward: int
    scan: Scan
    reader: Scan
    residuals: tuple[tuple[int, int], ...]
    body: FlatProgram
    making: Making
    flops: tuple[float, ...]
    sizes: dict[int, int]
    bases: dict[int, int]
    whole: dict[int, int]
    carried: dict[int, int]


class _Plan(NamedTuple):
    """What the backward scan makes again.

    Attributes:
      again: residuals, as outputs of the forward scan's body, that aren't stacked.
      ops: of the body, that make them.
      carries: numbers of carries that are stacked for that.
      extra: other values of the body that are.
    """

    again: tuple[int, ...]
    ops: tuple[int, ...]
    carries: tuple[int, ...]
    extra: tuple[int, ...]


def _stacking_most(program: FlatProgram) -> tuple[tuple[Loop, ...], FlatProgram, list[_Pair]]:
    """The loops in whose body pairs of scans stack the most for a turn of it, none if that is the
    program; that body, and the pairs."""
    bodies = [((), program), *((loops, loops[-1].body) for loops in paths_of(program))]
    found = [(loops, body, _apart(list(_pairs(body)))) for loops, body in bodies]
    return max(found, key=lambda one: sum(map(_stacked, one[2])))


def _stacked(pair: _Pair) -> int:
    """Bytes of all turns' residuals."""
    return sum(pair.sizes.values()) * pair.scan.length


def _pairs(program: FlatProgram) -> Iterator[_Pair]:
    """Scans, the stacks of which only one other scan reads, turn by turn in the other direction."""
    scans = {
        number: scan
        for number, op in enumerate(program.ops)
        if (scan := scan_of(op.steps[-1].equation))
    }
    readers, results = program.readers(), frozenset(program.bases())
    for forward, scan in scans.items():
        op = program.ops[forward]
        for backward, reader in scans.items():
            inputs = program.ops[backward].steps[-1].inputs
            residuals = tuple(
                (output, inputs.index(value))
                for output, value in enumerate(op.writes)
                if output >= scan.carry
                and readers.get(value) == {backward}
                and value not in results
                and inputs.count(value) == 1
                and inputs.index(value) >= reader.consts + reader.carry
            )
            if residuals and scan.length == reader.length and scan.reverse != reader.reverse:
                yield _pair((forward, scan), (backward, reader), residuals)


def _pair(
    forward: tuple[int, Scan], backward: tuple[int, Scan], residuals: Sequence[tuple[int, int]]
) -> _Pair:
    """The pair of two scans with their numbers; residuals that are literals stay."""
    scan = forward[1]
    body = flat_jaxpr(scan.body)
    bases = {output: _base(body, output) for output, _ in residuals}
    whole = {output: base for output, base in bases.items() if body.results[output] == base}
    places = {output: value - scan.consts for output, value in whole.items()}
    return _Pair(
        *(forward[0], backward[0], scan, backward[1]),
        tuple(pair for pair in residuals if bases[pair[0]] >= 0),
        body,
        Making(body),
        tuple(sum(flops_of(step.equation) for step in op.steps) for op in body.ops),
        {output: value_bytes(scan.body.out_avals[output]) for output, _ in residuals},
        bases,
        whole,
        {output: place for output, place in places.items() if 0 <= place < scan.carry},
    )


def _apart(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Pairs that have no scan in common; those that stack most come first."""
    taken: set[int] = set()
    found = []
    for pair in sorted(pairs, key=_stacked, reverse=True):
        if taken.isdisjoint((pair.forward, pair.backward)):
            taken |= {pair.forward, pair.backward}
            found.append(pair)
    return found


def _chain(pair: _Pair) -> list[_Plan]:
    """Plans that make ever more again, from what cheap ops make to all but the carries.

    Results of the other ops may be stacked instead of what cheap ops make of them.
    """
    left = [output for output, _ in pair.residuals if output not in pair.carried]
    chain = [_cheaply_made(pair, left)]
    while nexts := _nexts(pair, left, chain[-1]):
        chain.append(min(nexts, key=functools.partial(_price, pair, chain[-1])))
    return chain


def _cheaply_made(pair: _Pair, left: Sequence[int]) -> _Plan:
    """What cheap ops make isn't stacked, where what they make it of takes no more bytes.

    What is made of the same is looked at together, such as slices of one product; so is all that
    takes carries.
    """
    extra, groups, of_carries = _dear(pair), dict[tuple[int, ...], list[int]](), list[int]()
    for output in left:
        plan = _plan(pair, (output,), extra)
        if all(is_cheap(pair.body.ops[op]) for op in plan.ops):
            group = of_carries if plan.carries else groups.setdefault(plan.extra, [])
            group.append(output)
    found = []
    for begin in ([], of_carries):
        best = _plan(pair, begin, extra)
        for made_of in sorted(groups, key=len):
            plan = _plan(pair, [*best.again, *groups[made_of]], extra)
            if _kept(pair, plan) <= _kept(pair, best):
                best = plan
        found.append(best)
    return min(found, key=functools.partial(_kept, pair))


def _nexts(pair: _Pair, left: Sequence[int], plan: _Plan) -> list[_Plan]:
    """Plans that stack one array less of each turn."""
    fewer = (tuple(other for other in plan.extra if other != one) for one in plan.extra)
    return [
        *(_plan(pair, [*plan.again, one], plan.extra) for one in left if one not in plan.again),
        *(_plan(pair, plan.again, extra) for extra in fewer),
    ]


def _dear(pair: _Pair) -> tuple[int, ...]:
    """What ops of the body make that aren't cheap."""
    dear = (op for op in pair.body.ops if not is_cheap(op))
    return tuple(value for op in dear for value in op.writes)


def _of_share(pair: _Pair, chain: Sequence[_Plan], share: float) -> _Plan:
    """The first plan that keeps no more than a share of what the first keeps above the last."""
    most, least = (_kept(pair, plan) for plan in (chain[0], chain[-1]))
    limit = least + share * (most - least)
    return next((plan for plan in chain if _kept(pair, plan) <= limit), chain[-1])


def _price(pair: _Pair, before: _Plan, after: _Plan) -> float:
    """FLOPs for each byte that is kept no more."""
    more = sum(pair.flops[op] for op in after.ops) - sum(pair.flops[op] for op in before.ops)
    fewer = _kept(pair, before) - _kept(pair, after)
    return more / max(fewer, 1e-3) if fewer >= 0 else math.inf


def _kept(pair: _Pair, plan: _Plan) -> int:
    """Bytes of a turn that a plan stacks."""
    carries = [pair.scan.consts + number for number in plan.carries]
    more = sum(bytes_of(pair.body, value) for value in (*carries, *plan.extra))
    return more + sum(pair.sizes[output] for output in pair.sizes.keys() - set(plan.again))


def _plan(pair: _Pair, again: Sequence[int], extra: Sequence[int]) -> _Plan:
    """How to make residuals again of the others, and of other values of the body."""
    scan = pair.scan
    stacked = {value for output, value in pair.whole.items() if output not in again}
    kept = stacked.union(extra)
    makers = frozenset(n for n, op in enumerate(pair.body.ops) if kept.issuperset(op.writes))
    ops, sources = pair.making.of([pair.bases[output] for output in again], makers)
    read = {value - scan.consts for value in sources} - set(pair.carried.values())
    carries = tuple(sorted(place for place in read if 0 <= place < scan.carry))
    used = tuple(value for value in extra if value in sources and value not in stacked)
    return _Plan(tuple(sorted(again)), ops, carries, used)


def _base(body: FlatProgram, output: int) -> int:
    """The value that an output of a body is, or is a view of; -1 for a literal."""
    atom, renamed = body.results[output], {step.outputs[0]: step for step in body.finish}
    while not isinstance(atom, Literal) and atom in renamed:
        (atom,) = renamed[atom].inputs
    return -1 if isinstance(atom, Literal) else atom


def _program_with(
    program: FlatProgram, pairs: Sequence[_Pair], plans: dict[int, _Plan]
) -> Callable[..., Any]:
    """The program with other loops, as a function of the flat arguments."""
    by_forward = {pair.forward: pair for pair in pairs}
    by_backward = {pair.backward: pair for pair in pairs if pair.forward in plans}

    def run(*arguments: Any) -> Any:
        known = dict(enumerate(arguments)) | dict(program.constants)
        given: dict[int, _Given] = {}
        for number, op in enumerate(program.ops):
            values = [known.get(value) for value in op.reads]
            if number in plans:
                pair, plan = by_forward[number], plans[number]
                outputs, given[number] = _forward(pair, plan, op.last_inputs(values))
            elif number in by_backward:
                pair = by_backward[number]
                inputs = op.last_inputs(values)
                outputs = _backward(pair, plans[pair.forward], inputs, given[pair.forward])
            else:
                outputs = list(op(*values))
            known.update(zip(op.writes, outputs, strict=True))
        return program.outputs(known)

    return run


class _Given(NamedTuple):
    """What the backward scan has of the forward one: its constants, its stacked arguments, and the
    stacks of carries and other values."""

    consts: tuple[Any, ...]
    stacks: tuple[Any, ...]
    more: tuple[Any, ...]


def _forward(pair: _Pair, plan: _Plan, inputs: Sequence[Any]) -> tuple[list[Any], _Given]:
    """The outputs, None for those that aren't kept, and what the backward scan needs."""
    scan = pair.scan
    consts, carry, stacks = scan.parts(inputs)
    kept = [n for n in range(scan.carry, len(scan.body.out_avals)) if n not in plan.again]
    more = _more(pair, plan)

    def body(carry: tuple, xs: tuple) -> tuple:
        known = dict(enumerate((*consts, *carry, *xs))) | dict(pair.body.constants)
        pair.body.run(range(len(pair.body.ops)), known)
        outputs = pair.body.outputs(known)
        stacked = tuple(outputs[number] for number in kept)
        return tuple(outputs[: scan.carry]), (stacked, tuple(known[value] for value in more))

    last, (ys, extra) = scan.run(body, carry, tuple(stacks))
    made = dict(zip(kept, ys, strict=True)) | dict(enumerate(last))
    outputs = [made.get(number) for number in range(len(scan.body.out_avals))]
    return outputs, _Given(tuple(consts), tuple(stacks), extra)


def _more(pair: _Pair, plan: _Plan) -> tuple[int, ...]:
    """The values of the body that are stacked besides residuals."""
    return (*(pair.scan.consts + number for number in plan.carries), *plan.extra)


def _backward(pair: _Pair, plan: _Plan, inputs: Sequence[Any], given: _Given) -> list[Any]:
    """The outputs; residuals that weren't kept are None among the inputs."""
    reader = pair.reader
    consts, carry, stacks = reader.parts(inputs)
    fn = jaxpr_as_fun(reader.body)
    place = {output: number - reader.consts - reader.carry for output, number in pair.residuals}
    own = {n: stack for n, stack in enumerate(stacks) if stack is not None}

    def body(carry: tuple, xs: tuple) -> tuple:
        slices, theirs, more = xs
        whole = pair.whole
        known = {
            whole[output]: slices[number]
            for output, number in place.items()
            if output in whole and output not in plan.again
        }
        first = pair.scan.consts
        known |= dict(enumerate(given.consts))
        known |= dict(zip(_more(pair, plan), more, strict=True))
        known |= dict(enumerate(theirs, first + pair.scan.carry))
        again = _made_again(pair.body, plan, known)
        full = slices | {place[output]: value for output, value in again.items()}
        outputs = fn(*consts, *carry, *(full[number] for number in range(len(stacks))))
        return tuple(outputs[: reader.carry]), tuple(outputs[reader.carry :])

    last, ys = reader.run(body, carry, (own, given.stacks, given.more))
    return [*last, *ys]


def _made_again(body: FlatProgram, plan: _Plan, known: dict[int, Any]) -> dict[int, Any]:
    """The residuals of a plan, of the values of the body that are there."""
    known = dict(body.constants) | known
    body.run(plan.ops, known)
    for step in body.finish:
        if known.keys() >= set(step.inputs):
            run_steps([step], known)
    results = {output: body.results[output] for output in plan.again}
    return {output: known[atom] for output, atom in results.items() if isinstance(atom, int)}
