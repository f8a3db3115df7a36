"""``rj.explain``: from a function, a compiled one, a module of PyTorch, a graph, a text or a file
to its explanation."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import jax

from regal_jax.compiler.explain.budgets import budgeted
from regal_jax.compiler.explain.explanation import Explanation, explain_module
from regal_jax.compiler.explain.graph_explanation import GraphExplanation, explain_graph
from regal_jax.compiler.named_programs import is_function, program_named
from regal_jax.compiler.xla.candidates import Search
from regal_jax.compiler.xla.reschedule import memory_of
from regal_jax.errors import DAMAGE, ImporterError, OptionError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.any_file import import_graph
from regal_jax.graphs.importers.torch.model import from_torch
from regal_jax.graphs.importers.xla.module import text_of
from regal_jax.graphs.importers.xla.text import parse_module


def explain(
    source: Any, *args: Any, search: bool | Search = False, **kwargs: Any
) -> Explanation | GraphExplanation:
    """Why a program's or a schedule's memory peak is where it is, what bounds and would lower it.

    Of JAX functions and XLA programs it is an ``Explanation``, shown by ``text.explanation_text``
    and ``page.write_page``; of graphs, modules of PyTorch and ONNX models a ``GraphExplanation``,
    shown by ``graph_text.graph_explanation_text`` and ``reporting.graph_page``.

    Args:
      source: a function and, after it, arguments to compile it for (arrays or
        ``jax.ShapeDtypeStruct``); it may be jitted, or be one of ``rj.jit``. Or, without
        arguments, ``jax.stages.Lowered`` or ``Compiled``; the text of a scheduled HLO module; the
        path of a file of it, or of a serialized module (``.pb``). Or a module or an exported
        program of PyTorch and, after it, example inputs, traced as by ``rj.from_torch``; a
        ``ComputationGraph`` and, after it, a schedule of it (program order on one device without);
        the path of a graph file or an ONNX model.
      search: whether better orders are searched for, or how.

    Raises:
      ImporterError: no such file, or not a module. CompilerError: a module without a schedule, or
        a function that ``rj.jit(strict=True)`` refuses. OptionError: arguments where none belong.
        What the function raises when it is traced passes.
    """
    graph = _graph(source, args, kwargs)
    if graph is not None:
        schedule = args[0] if isinstance(source, ComputationGraph) and args else None
        return explain_graph(graph, schedule, search=bool(search))
    temp_bytes, traced = None, None
    if callable(source) or hasattr(source, "compile"):
        traced, source = _compiled(source, args, kwargs)
        temp_bytes = _temp_bytes(source)
    elif args or kwargs:
        raise OptionError("explain: only functions take arguments")
    elif not isinstance(source, str | bytes | os.PathLike):
        raise ImporterError(f"explain: {type(source).__name__} is no program")
    text, where, _ = text_of(source)
    wanted = search if isinstance(search, Search) else Search() if search else None
    try:
        found = explain_module(parse_module(text), text, temp_bytes=temp_bytes, search=wanted)
    except RegalError as error:
        raise type(error)(f"{where}: {error}") from None
    except DAMAGE as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImporterError(f"{where}: a malformed HLO module ({reason})") from error
    if traced is None:
        return found
    return dataclasses.replace(found, budgets=budgeted(traced, found.allocated))


GRAPH_FILES = (".json", ".jsonl", ".jsonl.gz", ".onnx", ".pbtxt")


def _graph(source: Any, args: tuple, kwargs: dict[str, Any]) -> ComputationGraph | None:
    """The graph that a source is or stands for; None for programs of XLA."""
    if isinstance(source, ComputationGraph):
        return source
    if any(kind.__module__.split(".")[0] == "torch" for kind in type(source).__mro__):
        return from_torch(source, *args, **kwargs)
    if isinstance(source, str | os.PathLike) and str(source).lower().endswith(GRAPH_FILES):
        return import_graph(source)
    return None


def explain_named(name: str, *, search: bool | Search = False) -> Explanation | GraphExplanation:
    """``explain`` for what a name on the command line stands for.

    Args:
      name: a file that there is; else ``package.module:function`` or ``path/to/file.py:function``,
        a function that is called without arguments and returns (function, arguments), a lowered
        or compiled function, or (module of PyTorch, example inputs). Modules are
        looked for in the working directory, too.
      search: as of ``explain``.

    Raises:
      ImporterError: no such file or function, or what loading, calling or tracing it raises. Others
        as ``explain``.
    """
    if not is_function(name):
        return explain(name, search=search)
    with program_named(name) as (source, args):
        return explain(source, *args, search=search)


def _compiled(source: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """(what was traced of a function, else None; the compiled function of it, of a lowered one, or
    itself)"""
    if hasattr(source, "as_text") and (args or kwargs):
        raise OptionError("explain: a lowered or compiled function takes no arguments")
    with _own_lines():
        traced = None
        if not hasattr(source, "as_text"):
            jitted = source if hasattr(source, "lower") else jax.jit(source)
            source = jitted.lower(*args, **kwargs)
            traced = jitted.trace(*args, **kwargs)
        return traced, source.compile() if hasattr(source, "compile") else source


@contextlib.contextmanager
def _own_lines() -> Iterator[None]:
    """Inside, JAX's compilation cache gives no program whose lines are those of another one."""
    name = "jax_compilation_cache_include_metadata_in_key"
    before = getattr(jax.config, name)
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, before)


def _temp_bytes(compiled: Any) -> int | None:
    """The temporaries that XLA allocates; None where it doesn't tell."""
    try:
        return memory_of(compiled).temporaries
    except (AttributeError, NotImplementedError, jax.errors.JaxRuntimeError):
        return None
