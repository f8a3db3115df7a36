"""A traced function as another one, in a given order and cut by optimisation barriers.

XLA's compilers for GPUs and TPUs choose an order of their own, but never move work across a barrier
that all live values go through. Bodies of loops, branches and custom calls stay as they are; so do
names, PRNG keys and shardings. The arithmetic is the same, op by op; fusions may differ.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.errors import CompilerError
from regal_jax.graphs.importers.jax.flat_program import FlatProgram, flat_jaxpr, shapes_of


def program_of(traced: Any) -> FlatProgram:
    """The ops of a traced function.

    Args:
      traced: ``jax.jit(fn).trace(...)``.

    Raises:
      CompilerError: the function has side effects, whose order may not change.
    """
    check_pure(traced)
    return flat_jaxpr(traced.jaxpr)


def check_pure(traced: Any) -> None:
    """Raises CompilerError for a traced function with side effects, whose order may not change."""
    if traced.jaxpr.effects:
        effects = ", ".join(sorted(str(effect) for effect in traced.jaxpr.effects))
        raise CompilerError(f"a new order could change its side effects ({effects})")


def donated_arguments(traced: Any) -> frozenset[int]:
    """The flat arguments whose memory results may take."""
    flags = _params(traced)["donated_invars"]
    return frozenset(number for number, flag in enumerate(flags) if flag)


def in_segments(
    traced: Any, kernels: Kernels, order: Sequence[int], cuts: Mapping[int, Sequence[int]]
) -> Any:
    """The traced function with its kernels in this order, and a barrier at each cut.

    Args:
      cuts: the values that go through each, by the number of kernels before it.

    Shardings, donations and compiler options are those of ``traced``.
    """
    return with_program(traced, program_in_segments(kernels, order, cuts))


def program_in_segments(
    kernels: Kernels, order: Sequence[int], cuts: Mapping[int, Sequence[int]]
) -> Callable[..., Any]:
    """The same as a function of the flat arguments; see ``in_segments``."""
    program = kernels.program
    maker = {value: op for op in program.ops for value in op.writes}

    def run(*arguments: Any) -> Any:
        known = dict(enumerate(arguments)) | dict(program.constants)

        def make(values: Sequence[int]) -> None:
            """Runs what makes these values, and first what that reads, where it isn't there."""
            waiting = [maker[value] for value in values if value not in known]
            while waiting:
                missing = [v for v in waiting[-1].reads if v not in known]
                if missing:
                    waiting += [maker[value] for value in missing]
                    continue
                one = waiting.pop()
                if one.writes[0] not in known:
                    outputs = one(*[known[value] for value in one.reads])
                    known.update(zip(one.writes, outputs, strict=True))

        for place, kernel in enumerate(order):
            if place in cuts:
                through = cuts[place]
                make(through)
                barred = jax.lax.optimization_barrier([known[value] for value in through])
                known.clear()
                known.update(zip(through, barred, strict=True))
            make(program.ops[kernels.ops[kernel]].writes)
        make(program.bases())
        return program.outputs(known)

    return run


def with_program(traced: Any, run: Callable[..., Any]) -> Any:
    """The traced function with another program: ``run`` takes the flat arguments.

    Shardings, donations and compiler options are those of ``traced``.
    """
    return _with_jaxpr(traced, jax.make_jaxpr(run)(*shapes_of(traced.jaxpr)))


def _params(traced: Any) -> dict[str, Any]:
    """What JAX compiles a traced function with. Raises CompilerError where it can't be seen."""
    params = getattr(traced, "_params", None)
    if not isinstance(params, dict) or "donated_invars" not in params:
        raise CompilerError(
            f"JAX {jax.__version__} doesn't show what it traced: pip install 'jax>=0.10'"
        )
    return params


def _with_jaxpr(traced: Any, closed: ClosedJaxpr) -> Any:
    """A traced function with another program of the same arguments and results."""
    made = copy.copy(traced)
    made._params = {**_params(traced), "jaxpr": closed}
    for cached in ("_lojax", "_closure_converted"):
        if hasattr(made, cached):
            setattr(made, cached, None)
    return made
