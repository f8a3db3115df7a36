"""A program in segments: compiled for an accelerator, and what it needs then."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.measure import Measurement, compile_for, measured
from regal_jax.compiler.accelerators.timing import run_seconds
from regal_jax.compiler.barriers.carried import through_cuts
from regal_jax.compiler.barriers.emission import donated_arguments, in_segments, program_of
from regal_jax.compiler.barriers.kernels import Kernels, kernels
from regal_jax.compiler.xla.candidates import better_order
from regal_jax.compiler.xla.module_orders import ModuleOrder
from regal_jax.compiler.xla.scheduler_hook import compile_choosing, digest
from regal_jax.compiler.xla.settings import Search
from regal_jax.errors import CompilerError
from regal_jax.graphs.importers.xla.text import Module

REORDERED = "+"
"""At the end of a way's name: in another order behind the scheduler."""


class Segments(NamedTuple):
    """A way to run a program.

    Attributes:
      name: method and number of cuts; PLAIN for XLA's own choice.
      order: the kernels as they run; nothing for XLA's own choice.
      cuts: how many kernels run before each barrier, ascending.
      behind: computations of what the compiler makes of it, and the instructions of each as they
        are to run; nothing for the scheduler's order.
    """

    name: str
    order: tuple[int, ...] = ()
    cuts: tuple[int, ...] = ()
    behind: tuple[tuple[str, tuple[str, ...]], ...] = ()


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
        if order := dict(segments.behind):
            known = functools.partial(_if_there, order)
            return self._attempt(segments, self._choosing(segments, known, digest(order))[0])
        compiled = compile_for(self._lowered(segments), self.target, self.options)
        return self._attempt(segments, compiled)

    def reordered(self, attempt: Attempt, how: Search) -> Attempt | None:
        """The same in another order behind the scheduler; None if none is expected to need less.

        Raises CompilerError where no order can be given there.
        """
        segments = attempt.segments
        compiled, order = self._choosing(segments, functools.partial(better_order, search=how))
        behind = tuple((name, tuple(names)) for name, names in order.items())
        made = segments._replace(name=segments.name + REORDERED, behind=behind)
        return self._attempt(made, compiled) if behind else None

    def _lowered(self, segments: Segments) -> Any:
        traced = self.traced
        if segments.order:
            carried = through_cuts(self.kernels, segments.order, segments.cuts)
            traced = in_segments(traced, self.kernels, segments.order, carried)
        return traced.lower()

    def _choosing(
        self, segments: Segments, choose: Callable[[Module], ModuleOrder], tag: str = ""
    ) -> tuple[Any, ModuleOrder]:
        lowered = self._lowered(segments)
        module = lowered.compiler_ir().operation.attributes["sym_name"].value
        return compile_choosing(lowered, module, choose, self.target, self.options, tag=tag)

    def _attempt(self, segments: Segments, compiled: Any) -> Attempt:
        needs = measured(compiled, self.target)
        if self.runs and (seconds := run_seconds(compiled)) is not None:
            needs = dataclasses.replace(needs, seconds=seconds)
        return Attempt(segments, compiled, needs)


def judge_of(traced: Any, target: Accelerator, options: Mapping[str, Any] | None) -> Judge:
    """Raises CompilerError for a function whose ops may not be moved."""
    return Judge(traced, kernels(program_of(traced), donated_arguments(traced)), target, options)


def _if_there(order: ModuleOrder, module: Module) -> ModuleOrder:
    """An order, if it is one of this module. Raises CompilerError."""
    for name, names in order.items():
        there = module.computations[name].instructions if name in module.computations else ()
        if set(names) != set(there):
            raise CompilerError(f"the compiler makes other instructions of {module.name} now")
    return order
