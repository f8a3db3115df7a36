"""A function compiled one way or another, and what it needs then.

A way is a sequence of its kernels, cut by barriers or with some that run again, leaner loops or
slices, and an order of what the compiler makes of it. CPUs' compiler drops barriers before it
merges equal work and schedules; the pass that does so is left out (``KEEP_BARRIERS``), so that the
sequence is kept there, too.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.measure import compile_for, measured
from regal_jax.compiler.accelerators.timing import run_seconds
from regal_jax.compiler.barriers.carried import through_cuts
from regal_jax.compiler.barriers.emission import (
    donated_arguments,
    program_in_segments,
    program_of,
    with_program,
)
from regal_jax.compiler.barriers.kernels import Kernels, kernels
from regal_jax.compiler.barriers.pooling import without_indices
from regal_jax.compiler.recompute.emission import program_in_runs
from regal_jax.compiler.recompute.inner import Inner, inner_of
from regal_jax.compiler.recompute.loops import with_lean_loops
from regal_jax.compiler.recompute.work import repeated_flops
from regal_jax.compiler.slices.emission import InSlices, in_slices
from regal_jax.compiler.xla.behind import REORDERED, Behind, compile_behind, compile_reordered
from regal_jax.compiler.xla.decisions import Memory
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.reschedule import MEMORY_OPTIMIZED, QUICKLY, memory_of
from regal_jax.compiler.xla.settings import Search
from regal_jax.graphs.importers.jax.flat_program import FlatProgram

KEEP_BARRIERS: Mapping[str, Any] = {"xla_disable_hlo_passes": "cse_barrier_expander"}
"""Compiler options for CPUs."""

FUSED_SUMS: Mapping[str, Any] = {
    "xla_cpu_experimental_ynn_fusion_type": (
        "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
    )
}
"""Compiler options for CPUs: reductions are fused with what makes their operands, which the library
for them reads from memory. Often slower than the library, though FLOPs are level."""

LEAN = "lean_loops"
"""The name of a program that is as it is but for its loops."""

SLICED = 1.05
"""Work of a program in slices over its FLOPs, where time isn't known: smaller kernels take longer.
"""


class Way(NamedTuple):
    """How to run a program.

    Attributes:
      name: PLAIN, LEAN, "4_slices", or a base order with its cuts ("auto/16") or repeated kernels
        ("auto~26"), in slices, too.
      runs: kernels as they run; nothing where that is the compiler's choice.
      near: see ``program_in_runs``.
      compact: whether CPUs' compiler schedules for memory.
      loops: which of ``Judge.versions``: 0 as it is.
      cuts: runs before each barrier that all live values go through, ascending; no kernel runs
        again then, and ``near`` counts for nothing.
      behind: the order that the compiled program is given.
      fuses_sums: whether CPUs' compiler does (``FUSED_SUMS``).
      slices: of the version; 0 where it isn't sliced.
      inner: whether runs are of the body of the version's loop that holds most.
    """

    name: str
    runs: tuple[int, ...] = ()
    near: int = 0
    compact: bool = False
    loops: int = 0
    cuts: tuple[int, ...] = ()
    behind: Behind = ()
    fuses_sums: bool = False
    slices: int = 0
    inner: bool = False

    @property
    def as_scheduled(self) -> "Way":
        """The same in the compiler's own order."""
        return self._replace(name=self.name.removesuffix(REORDERED), behind=())


class Needs(NamedTuple):
    """What a compiled program needs of one device.

    Attributes:
      memory: bytes of temporaries and results.
      arguments, code: bytes.
      flops: floating-point operations.
      seconds: estimated, or timed; 0 on CPUs, infinite where the program was refused.
      beside: the share of collectives that have other work beside them; 1 without any.
      slowed: work over FLOPs, where there are no seconds.
    """

    memory: Memory
    arguments: int
    code: int
    flops: float
    seconds: float = 0.0
    beside: float = 1.0
    slowed: float = 1.0

    @property
    def total(self) -> int:
        """Bytes of arguments, temporaries, results that lie in no donated argument, and code."""
        return self.arguments + self.memory.total + self.code

    @property
    def work(self) -> float:
        """Estimated seconds; FLOPs on CPUs, where there is no estimate."""
        return self.seconds or self.slowed * self.flops

    @property
    def is_refused(self) -> bool:
        """Whether the compiler refused the program for its size: it takes forever."""
        return math.isinf(self.seconds)


class Attempt(NamedTuple):
    """A way that was compiled, what it needs, and the program; None on CPUs, where what is judged
    isn't optimised."""

    way: Way
    needs: Needs
    program: jax.stages.Compiled | None = None


class Version(NamedTuple):
    """A function, or another that does the same.

    Attributes:
      traced: ``jax.jit(fn).trace(...)``.
      kernels: of it; but on TPUs without arrays of indices (``pooling``). On accelerators sums
        wait: the compiler fuses what no barrier parts.
      name: of the way to run it as it is.
      slices: how it is sliced, if it is.
      inner: the body of its loop that holds most, if there is one.
    """

    traced: Any
    kernels: Kernels
    name: str = PLAIN
    slices: InSlices | None = None
    inner: Callable[[], Inner | None] = lambda: None

    @property
    def turns(self) -> int:
        """Slices; 0 where it isn't sliced."""
        return self.slices.turns if self.slices else 0

    def kernels_of(self, inner: bool) -> Kernels:
        """Its own, or those of its loop's body."""
        body = self.inner() if inner else None
        return body.kernels if body else self.kernels


class Versions(Sequence[Version]):
    """Versions, of which those in slices are made when they are first asked for.

    Args:
      first: those that are there.
      sliced: makes the others.
    """

    def __init__(self, first: Sequence[Version], sliced: Callable[[], Sequence[Version]]):
        self._first = first
        self._all = functools.cache(lambda: (*first, *sliced()))

    def __getitem__(self, place):
        is_there = isinstance(place, int) and 0 <= place < len(self._first)
        return self._first[place] if is_there else self._all()[place]

    def __len__(self) -> int:
        return len(self._all())


class Judge(NamedTuple):
    """Compiles a traced function in one way or another.

    Attributes:
      versions: the function as it is, with ever leaner loops, and in ever more slices.
      target: the accelerator; None for CPUs.
      options: XLA's compiler options.
      runs: whether programs are timed on the accelerator, rather than by estimate.
    """

    versions: Sequence[Version]
    target: Accelerator | None
    options: Mapping[str, Any]
    runs: bool = False

    @property
    def traced(self) -> Any:
        """The function as it is."""
        return self.versions[0].traced

    @property
    def kernels(self) -> Kernels:
        """Of the function as it is."""
        return self.versions[0].kernels

    def __call__(self, way: Way) -> Attempt:
        """Raises CompilerError where the compiler refuses the program."""
        return self._judged(way, self.compile(way, self._quickly))

    def built(self, way: Way) -> Attempt:
        """With the program as it will run. CompilerError where the compiler refuses it."""
        return self._attempt(way, self.compile(way))

    def compile(self, way: Way, more: Mapping[str, Any] | None = None) -> jax.stages.Compiled:
        """The program."""
        options = {**self.options, **self.options_of(way), **(more or {})}
        if way.behind:
            return compile_behind(self._lowered(way), way.behind, self.target, options)
        return compile_for(self._lowered(way), self.target, options)

    def reordered(self, attempt: Attempt, how: Search) -> Attempt | None:
        """The same in another order behind the scheduler, which takes no time; None if none is
        expected to need less.

        Raises CompilerError where no order can be given there.
        """
        way = attempt.way
        options = {**self.options, **self.options_of(way), **self._quickly}
        made, behind = compile_reordered(self._lowered(way), how, self.target, options)
        if not behind:
            return None
        return self._judged(way._replace(name=way.name + REORDERED, behind=behind), made)

    @property
    def _quickly(self) -> Mapping[str, Any]:
        """Options to judge with: on CPUs memory is the same with less effort."""
        return QUICKLY if self.target is None else {}

    def _judged(self, way: Way, made: jax.stages.Compiled) -> Attempt:
        """Without the program on CPUs, where little effort went into it."""
        attempt = self._attempt(way, made)
        return attempt if self.target else attempt._replace(program=None)

    def _attempt(self, way: Way, made: jax.stages.Compiled) -> Attempt:
        needs, version = needs_of(made, self.target), self.versions[way.loops]
        slices = version.slices
        if slices and self.target is None:  # XLA counts one turn of a loop
            again = repeated_flops(version.kernels_of(True), way.runs) if way.inner else 0.0
            unseen = slices.unseen + (slices.turns - 1) * again
            needs = needs._replace(flops=needs.flops + unseen, slowed=SLICED)
        if self.runs and (seconds := run_seconds(made)) is not None:
            needs = needs._replace(seconds=seconds)
        return Attempt(way, needs, made)

    def _lowered(self, way: Way) -> jax.stages.Lowered:
        traced = self.versions[way.loops].traced
        return (with_program(traced, self.program(way)) if way.runs else traced).lower()

    def program(self, way: Way) -> Callable[..., Any]:
        """A function of the flat arguments."""
        made = self.versions[way.loops].kernels_of(way.inner)
        if way.cuts:
            return program_in_segments(made, way.runs, through_cuts(made, way.runs, way.cuts))
        run = program_in_runs(made, way.runs, way.near)
        inner = self.versions[way.loops].inner() if way.inner else None
        return inner.whole(run) if inner else run

    def options_of(self, way: Way) -> Mapping[str, Any]:
        """The compiler options that a way needs."""
        if self.target is not None:
            return {}
        slices = self.versions[way.loops].slices
        return {
            **(KEEP_BARRIERS if way.runs or (slices and slices.unrolled) else {}),
            **(MEMORY_OPTIMIZED if way.compact else {}),
            **(FUSED_SUMS if way.fuses_sums else {}),
        }


def judge_of(
    traced: Any,
    target: Accelerator | None,
    options: Mapping[str, Any] | None = None,
    *,
    slices: bool = True,
) -> Judge:
    """With the function in slices, too, if asked for.

    Raises CompilerError for a function whose ops may not be moved.
    """
    versions: Sequence[Version] = versions_of(traced, target)
    if slices:
        versions = Versions(versions, functools.partial(_in_slices, traced, target))
    return Judge(versions, target, dict(options or {}))


def versions_of(traced: Any, target: Accelerator | None) -> tuple[Version, ...]:
    """The function as it is, and with ever leaner loops. CompilerError as ``judge_of``."""
    program = program_of(traced)
    lean = with_lean_loops(traced, program)
    return (
        _version(traced, program, target),
        *(_version(one, program_of(one), target, LEAN) for one in lean),
    )


def _in_slices(traced: Any, target: Accelerator | None) -> tuple[Version, ...]:
    """The function in ever more slices."""
    found = in_slices(
        traced,
        program_of(traced),
        for_cpus=target is None,
        devices=len(target.devices) if target else 1,
    )
    return tuple(
        _version(
            one.traced,
            program_of(one.traced),
            target,
            f"{one.turns}_slices" + "_apart" * one.apart + "_staged" * one.staged,
            one,
        )
        for one in found
    )


def _version(
    traced: Any,
    program: FlatProgram,
    target: Accelerator | None,
    name: str = PLAIN,
    slices: InSlices | None = None,
) -> Version:
    def kernels_of(program: FlatProgram, donated: frozenset[int]) -> Kernels:
        is_for_tpus = target is not None and target.specification.gpu is None
        ours = program if is_for_tpus else without_indices(program)
        return kernels(ours, donated, sums_wait=target is not None)

    own = kernels_of(program, donated_arguments(traced))
    inner = functools.cache(lambda: inner_of(own, kernels_of))
    return Version(traced, own, name, slices, inner)


def needs_of(made: jax.stages.Compiled, target: Accelerator | None) -> Needs:
    """What a program needs, as its compiler says."""
    found: Any = made.memory_analysis()
    arguments = int(found.argument_size_in_bytes)
    code = int(found.generated_code_size_in_bytes)
    if target is not None:
        costs = measured(made, target)
        beside = costs.overlapped / costs.collectives if costs.collectives else 1.0
        return Needs(memory_of(made), arguments, code, costs.flops, costs.seconds, beside)
    analysis: Any = made.cost_analysis()
    return Needs(memory_of(made), arguments, code, float(analysis.get("flops", 0.0)))


def flops_ratio(one: Needs, plain: Needs) -> float:
    """FLOPs over those of the plain program; 1 where that has none."""
    return one.flops / plain.flops if plain.flops else 1.0
