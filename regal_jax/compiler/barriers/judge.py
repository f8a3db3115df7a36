"""A program in segments: compiled for an accelerator, and what it needs then."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.measure import Measurement, compile_for, measured
from regal_jax.compiler.accelerators.timing import run_seconds
from regal_jax.compiler.barriers.carried import through_cuts
from regal_jax.compiler.barriers.emission import donated_arguments, in_segments, program_of
from regal_jax.compiler.barriers.kernels import Kernels, kernels
from regal_jax.compiler.xla.behind import REORDERED, Behind, compile_behind, compile_reordered
from regal_jax.compiler.xla.settings import Search


class Segments(NamedTuple):
    """A way to run a program.

    Attributes:
      name: method and number of cuts; PLAIN for XLA's own choice.
      order: the kernels as they run; nothing for XLA's own choice.
      cuts: how many kernels run before each barrier, ascending.
      behind: the order that the compiled program is given.
    """

    name: str
    order: tuple[int, ...] = ()
    cuts: tuple[int, ...] = ()
    behind: Behind = ()


class Attempt(NamedTuple):
    """A way that was compiled, the program, and what it needs."""

    segments: Segments
    compiled: Any
    measurement: Measurement


class Judge(NamedTuple):
    """Compiles a traced function in segments, for an accelerator.

    Attributes:
      traced: ``jax.jit(fn).trace(...)``.
      kernels: of the function.
      target: what it is compiled for.
      options: XLA's compiler options.
      runs: whether programs are timed, rather than by estimate.
    """

    traced: Any
    kernels: Kernels
    target: Accelerator
    options: Mapping[str, Any] | None
    runs: bool = False

    def __call__(self, segments: Segments) -> Attempt:
        """Raises CompilerError where the compiler refuses the program."""
        lowered, where = self._lowered(segments), (self.target, self.options)
        if segments.behind:
            return self._attempt(segments, compile_behind(lowered, segments.behind, *where))
        return self._attempt(segments, compile_for(lowered, *where))

    def reordered(self, attempt: Attempt, how: Search) -> Attempt | None:
        """The same in another order behind the scheduler; None if none is expected to need less.

        Raises CompilerError where no order can be given there.
        """
        segments = attempt.segments
        lowered = self._lowered(segments)
        compiled, behind = compile_reordered(lowered, how, self.target, self.options)
        made = segments._replace(name=segments.name + REORDERED, behind=behind)
        return self._attempt(made, compiled) if behind else None

    def _lowered(self, segments: Segments) -> Any:
        traced = self.traced
        if segments.order:
            carried = through_cuts(self.kernels, segments.order, segments.cuts)
            traced = in_segments(traced, self.kernels, segments.order, carried)
        return traced.lower()

    def _attempt(self, segments: Segments, compiled: Any) -> Attempt:
        needs = measured(compiled, self.target)
        if self.runs and (seconds := run_seconds(compiled)) is not None:
            needs = dataclasses.replace(needs, seconds=seconds)
        return Attempt(segments, compiled, needs)


def judge_of(traced: Any, target: Accelerator, options: Mapping[str, Any] | None) -> Judge:
    """Raises CompilerError for a function whose ops may not be moved."""
    return Judge(traced, kernels(program_of(traced), donated_arguments(traced)), target, options)
