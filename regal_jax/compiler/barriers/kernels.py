"""Which values of a function XLA keeps in memory, and the graph of the kernels that make them.

A matrix product, a convolution, a loop, a sort or a reduction is a kernel: its results are in
memory. An elementwise op, or one that only moves data, runs inside the kernels that read it, once
in each, and what it makes is virtual; but where a kernel that fuses nothing reads it, where it is a
result, or a sum that would have to wait for many products, it is a kernel too. XLA's own choice is
close to that, not the same: the compiler judges in the end.
"""

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from regal_jax.compiler.barriers.making import Inside, Making
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.jax.flat_program import FlatProgram
from regal_jax.graphs.importers.jax.values import value_bytes

ELEMENTWISE = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp complex conj
    convert_element_type copy copy_p cos cosh div eq erf erf_inv erfc exp exp2 expm1 floor ge gt
    imag integer_pow is_finite le log log1p log2 logistic lt max min mul ne neg nextafter not
    one_minus_square optimization_barrier or pow real reduce_precision rem round rsqrt select_n
    shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square
    stop_gradient sub tan tanh xor
    """.split()  # noqa: SIM905
)
"""Those of ``_CHEAP`` whose outputs have the shape of their inputs."""

_CHEAP = ELEMENTWISE | {
    *("bitcast_convert_type", "broadcast_in_dim", "expand_dims", "iota", "pad", "reshape", "rev"),
    *("slice", "split", "squeeze", "transpose"),
}
"""Primitives that XLA runs inside the kernels that read them, once in each."""

_FUSING = frozenset(
    """
    reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor argmax argmin
    reduce gather dynamic_slice dynamic_update_slice concatenate scatter scatter_add scatter-add
    """.split()  # noqa: SIM905
)
"""Kernels that run what they read inside them."""

MOST_SOURCES = 6
"""Values in memory that a virtual value is made of; one of more is in memory itself."""

MOST_HELD, LITTLE = 2.5, 4096
"""Times its own bytes, and bytes: a sum for which more has to stay in memory, besides arguments,
is in memory itself unless sums wait for what reads them."""

_SUMS = frozenset(("add", "add_any"))


class Kernels(NamedTuple):
    """The kernels of a program, in program order.

    Attributes:
      program: the function.
      ops: the op that each kernel ends with. insides: what runs in each before it.
      graph: of the kernels: its op k is kernel k; arguments and results are persistent.
    """

    program: FlatProgram
    ops: tuple[int, ...]
    insides: tuple[Inside, ...]
    graph: ComputationGraph


def kernels(
    program: FlatProgram, donated: frozenset[int] = frozenset(), *, sums_wait: bool = False
) -> Kernels:
    """The kernels of a program of which some arguments are donated.

    Args:
      sums_wait: whether a sum of many products is in one kernel with what reads it.
    """
    results = frozenset(program.bases())
    read_whole = _read_whole(program)
    partial = _partial_sums(program)
    made = frozenset(value for op in program.ops for value in op.writes)
    sources: dict[int, frozenset[int]] = {}
    ops = []
    for number, op in enumerate(program.ops):
        reads = frozenset().union(*(sources.get(v, frozenset((v,))) for v in op.reads))
        is_kept = not results.isdisjoint(op.writes) or not read_whole.isdisjoint(op.writes)
        is_kept |= not sums_wait and number in partial and _holds_much(program, op, reads & made)
        if is_cheap(op) and not is_kept and len(reads) <= MOST_SOURCES:
            sources |= dict.fromkeys(op.writes, reads)
        else:
            ops.append(number)
            sources |= {value: frozenset((value,)) for value in op.writes}
    making, kept = Making(program), frozenset(ops)
    insides = tuple(making.of(program.ops[number].reads, kept) for number in ops)
    return Kernels(program, tuple(ops), insides, _graph(program, ops, insides, results, donated))


def with_results_early(kernels: Kernels) -> Kernels:
    """As compilers have it: results have memory from the start, donated arguments' or their own,
    and what is added up to one lies there."""
    graph = kernels.graph
    made = graph.persistent & (graph.producer >= 0)
    donated = ~graph.persistent & (graph.producer < 0)
    own = max(int(graph.size[made].sum() - graph.size[donated].sum()), 0)
    graph = dataclasses.replace(
        graph,
        size=np.where(_in_results(kernels, made), 0, graph.size),
        persistent=graph.persistent | donated,
        workspace=graph.workspace + own,
    )
    return kernels._replace(graph=graph)


def _in_results(kernels: Kernels, results: np.ndarray) -> np.ndarray:
    """bool[T]: results, and of what is added up to one the last sum before, or else one summand."""
    graph, found = kernels.graph, results.copy()
    of = [_kind(kernels.program.ops[number]) in _SUMS for number in kernels.ops]
    once = (graph.producer >= 0) & (graph.consumers.lengths() == 1) & ~graph.persistent
    for kernel in reversed(np.flatnonzero(of)):
        outputs, inputs = graph.outputs.row(kernel), graph.inputs.row(kernel)
        if not found[outputs].all():
            continue
        alike = [t for t in inputs if once[t] and graph.size[t] == graph.size[outputs[0]]]
        if alike:
            found[max(alike, key=lambda t: of[graph.producer[t]])] = True
    return found


def is_cheap(op) -> bool:
    """Whether an op may run once in each kernel that reads it."""
    return all(step.equation.primitive.name in _CHEAP for step in op.steps)


def bytes_of(program: FlatProgram, value: int) -> int:
    """Of a value in memory; 0 for that of an effect."""
    aval = program.avals[value]
    return 0 if aval is None else value_bytes(aval)


def _partial_sums(program: FlatProgram) -> frozenset[int]:
    """Sums that other sums alone read, by number."""
    sums = {number for number, op in enumerate(program.ops) if _kind(op) in _SUMS}
    whole = {v for n, op in enumerate(program.ops) if n not in sums for v in op.reads}
    return frozenset(n for n in sums if whole.isdisjoint(program.ops[n].writes))


def _holds_much(program: FlatProgram, op, held: Iterable[int]) -> bool:
    """Whether much is held in memory for an op: these values."""
    own, of = (sum(bytes_of(program, v) for v in values) for values in (op.writes, held))
    return of > max(MOST_HELD * own, LITTLE)


def _kind(op) -> str:
    """The primitive that an op ends with."""
    return op.steps[-1].equation.primitive.name


def _read_whole(program: FlatProgram) -> frozenset[int]:
    """Values that a kernel which fuses nothing reads."""
    found: set[int] = set()
    for op in program.ops:
        if not is_cheap(op) and _kind(op) not in _FUSING:
            found.update(op.reads)
    return frozenset(found)


def _graph(program, ops, insides, results, donated) -> ComputationGraph:
    readers: dict[int, list[int]] = {}
    for kernel, inside in enumerate(insides):
        for source in inside.sources:
            readers.setdefault(source, []).append(kernel)
    maker = {v: k for k, number in enumerate(ops) for v in program.ops[number].writes}
    values = sorted({*readers, *maker})
    given = [value not in maker for value in values]
    return ComputationGraph.create(
        producer=[maker.get(value, -1) for value in values],
        size=[bytes_of(program, value) for value in values],
        consumers=[sorted(set(readers.get(value, ()))) for value in values],
        num_ops=len(ops),
        persistent=[
            value in results or (is_given and value not in donated)
            for value, is_given in zip(values, given, strict=True)
        ],
        workspace=np.zeros(len(ops), np.int64),
        name="kernels",
    )
