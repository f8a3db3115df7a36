"""Orders behind the scheduler of CPUs and GPUs: looked for, given again, and kept in decisions."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.xla.candidates import better_order
from regal_jax.compiler.xla.module_orders import ModuleOrder
from regal_jax.compiler.xla.scheduler_hook import compile_choosing, compile_in_order, digest
from regal_jax.compiler.xla.settings import Search
from regal_jax.errors import CompilerError
from regal_jax.graphs.importers.xla.text import Module

Behind = tuple[tuple[str, tuple[str, ...]], ...]
"""Computations of what the compiler makes of a program, and the instructions of each as they are to
run; nothing for the scheduler's order."""

REORDERED = "+"
"""At the end of a way's name: in another order behind the scheduler."""

_PREFIX = "behind the scheduler: "
"""Before the name of a computation, in a decision."""


def compile_reordered(
    lowered: Any, how: Search, target: Accelerator | None, options: Mapping[str, Any] | None
) -> tuple[Any, Behind]:
    """A program in the order that is expected to need the fewest bytes, and that order, which is
    nothing if XLA's needs no more.

    Raises CompilerError where no order can be given there.
    """
    compiled, order = _compile(
        lowered, functools.partial(better_order, search=how), target, options
    )
    return compiled, tuple((name, tuple(names)) for name, names in order.items())


def compile_behind(
    lowered: Any, behind: Behind, target: Accelerator | None, options: Mapping[str, Any] | None
) -> Any:
    """A program in an order that was found before. Raises CompilerError, too, where the compiler
    makes other instructions now."""
    order = dict(behind)
    if target is None:
        return compile_in_order(lowered, _name(lowered), order, options)
    known = functools.partial(_if_there, order)
    return _compile(lowered, known, target, options, digest(order))[0]


def words(behind: Behind) -> dict[str, list[str]]:
    """The part of a decision that says the order."""
    return {_PREFIX + name: list(names) for name, names in behind}


def from_words(order: Mapping[str, Sequence[str]]) -> Behind:
    """The order that a decision says."""
    return tuple(
        (name.removeprefix(_PREFIX), tuple(names))
        for name, names in order.items()
        if name.startswith(_PREFIX)
    )


def _compile(
    lowered: Any,
    choose: Callable[[Module], ModuleOrder],
    target: Accelerator | None,
    options: Mapping[str, Any] | None,
    tag: str = "",
) -> tuple[Any, ModuleOrder]:
    return compile_choosing(lowered, _name(lowered), choose, target, options, tag=tag)


def _name(lowered: Any) -> str:
    """Of the module in XLA."""
    return lowered.compiler_ir().operation.attributes["sym_name"].value


def _if_there(order: ModuleOrder, module: Module) -> ModuleOrder:
    """An order, if it is one of this module. Raises CompilerError."""
    for name, names in order.items():
        there = module.computations[name].instructions if name in module.computations else ()
        if set(names) != set(there):
            raise CompilerError(f"the compiler makes other instructions of {module.name} now")
    return order
