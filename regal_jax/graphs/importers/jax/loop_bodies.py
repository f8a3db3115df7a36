"""Bodies of scans, which are programs of their own."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from regal_jax.graphs.importers.jax.flat_program import FlatProgram, flat_jaxpr
from regal_jax.graphs.importers.jax.scans import Scan, scan_of


class Loop(NamedTuple):
    """A scan: the number of its op, what it is, and its body."""

    number: int
    scan: Scan
    body: FlatProgram


def loops_of(program: FlatProgram) -> Iterator[Loop]:
    """The scans among a program's ops that have no side effects."""
    for number, op in enumerate(program.ops):
        equation = op.steps[-1].equation
        scan = None if equation.effects else scan_of(equation)
        if scan is not None:
            yield Loop(number, scan, flat_jaxpr(scan.body))


def paths_of(program: FlatProgram) -> Iterator[tuple[Loop, ...]]:
    """Each loop of a program, at any depth, after those that it is in the body of."""
    for loop in loops_of(program):
        yield (loop,)
        yield from ((loop, *inner) for inner in paths_of(loop.body))


def with_body(
    program: FlatProgram, loops: Sequence[Loop], body: Callable[..., Any]
) -> Callable[..., Any]:
    """The program as a function of the flat arguments, with another body of a loop.

    Args:
      program: its ops.
      loops: each in the body of the one before, from outside in; without any the body is all.
      body: of the last of them; takes what it takes, and gives a list.
    """
    if not loops:
        return body
    loop, *rest = loops
    inner = with_body(loop.body, rest, body)
    op, ops = program.ops[loop.number], range(len(program.ops))

    def run(*arguments: Any) -> Any:
        known = dict(enumerate(arguments)) | dict(program.constants)
        program.run(ops[: loop.number], known)
        inputs = op.last_inputs([known[value] for value in op.reads])
        known.update(zip(op.writes, loop.scan.run_flat(inner, inputs), strict=True))
        program.run(ops[loop.number + 1 :], known)
        return program.outputs(known)

    return run
