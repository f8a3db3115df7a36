"""The fewest bytes beyond the arguments that any way to run a program can need.

Results hold memory of their own, or donated arguments', from the start to the end, and what is made
before them can lie there, one array at a time in each. XLA:CPU's matrix products and convolutions
write whole arrays, and read whole what other such ops wrote, where none runs in slices.
"""

import bisect
import math
from collections.abc import Iterable

from regal_jax.compiler.barriers.emission import donated_arguments
from regal_jax.compiler.barriers.kernels import bytes_of
from regal_jax.compiler.ways.judge import Judge
from regal_jax.graphs.importers.jax.flat_program import FlatProgram
from regal_jax.graphs.importers.jax.values import value_bytes


def least_bytes(judge: Judge) -> int:
    """Of temporaries and results that lie in no donated argument; on accelerators the results'."""
    results, program = result_bytes(judge), judge.kernels.program
    if judge.target is not None or any(version.slices for version in judge.versions):
        return results
    products = [op for op in program.ops if _is_product(op.steps[-1])]
    whole = {value for op in products for value in op.writes}
    hosts = frozenset(program.bases())
    at_once = [{*op.writes, *whole.intersection(op.reads)} - hosts for op in products]
    return results + max((_beyond(program, values, hosts) for values in at_once), default=0)


def result_bytes(judge: Judge) -> int:
    """Of a program's results that lie in no donated argument."""
    given, program = donated_arguments(judge.traced), judge.traced.jaxpr
    donated = sum(value_bytes(program.in_avals[number]) for number in given)
    return max(0, sum(map(value_bytes, program.out_avals)) - donated)


def _is_product(step) -> bool:
    """Whether a step is a matrix product or a convolution; an outer product is elementwise."""
    equation = step.equation
    if equation.primitive.name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        shape = equation.invars[0].aval.shape
        return math.prod(shape[axis] for axis in contracted) > 1
    return equation.primitive.name == "conv_general_dilated"


def _beyond(program: FlatProgram, values: Iterable[int], hosts: Iterable[int]) -> int:
    """Bytes of values that find no host at least as large, the largest first, the closest taken."""
    free, beyond = sorted(bytes_of(program, value) for value in hosts), 0
    for size in sorted((bytes_of(program, value) for value in values), reverse=True):
        place = bisect.bisect_left(free, size)
        if place < len(free):
            del free[place]
        else:
            beyond += size
    return beyond
