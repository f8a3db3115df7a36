"""Tells why a memory peak is where it is, and what would lower it.

Of a compiled XLA program: its buffers with their lines of source, what to recompute, donate or
split. Of a graph file, an ONNX model or a module of PyTorch: the tensors of a schedule, by default
of program order on one device.

examples:
  regal-jax explain train.py:step --html=memory.html
  regal-jax explain dump/module_0001.after_optimizations.txt --search
  regal-jax explain model.onnx --dimensions=batch=8
  regal-jax explain model.json --schedule=schedule.json --html=model.html
  regal-jax explain package.module:function --json | jq '.remedies[0]'
"""

import argparse
from collections.abc import Callable
from typing import Any

from regal_jax.cli import flags, printing
from regal_jax.compiler.explain import graph_text, numbers, page, text
from regal_jax.compiler.explain.explain import GRAPH_FILES, explain_named
from regal_jax.compiler.explain.explanation import Explanation
from regal_jax.compiler.explain.graph_explanation import GraphExplanation, explain_graph
from regal_jax.environments.schedule import load_schedule
from regal_jax.errors import OptionError
from regal_jax.graphs import files
from regal_jax.graphs.importers.any_file import import_graph
from regal_jax.reporting import graph_page
from regal_jax.reporting.terminal import say

_SOURCE = (
    "scheduled HLO: a text (--xla_dump_to) or a .pb file; a graph file or an ONNX model; or"
    " package.module:function or path/to/file.py:function, which is called without arguments and"
    " returns (function, arguments), a lowered or compiled function, or (module of PyTorch, inputs)"
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The program or graph, a page to write, and how much to tell."""
    parser.add_argument("source", metavar="SOURCE", type=flags.text, help=_SOURCE)
    flags.add_dimensions(parser)
    parser.add_argument(
        "--schedule", type=flags.text, metavar="FILE", help="a schedule of the graph (.json)"
    )
    parser.add_argument("--html", type=flags.text, metavar="FILE", help="page to write (.html)")
    parser.add_argument(
        "--search", action="store_true", help="search for orders that need less, and compare them"
    )
    parser.add_argument("--top", type=int, default=12, metavar="N", help="buffers to list as text")
    flags.add_printing(parser)


def run(options: argparse.Namespace) -> None:
    """Explains a program or a graph. Raises RegalError for a source that is none."""
    text.check_top(options.top)
    if options.html:
        files.check_writable(options.html)
    explanation = _explained(options)
    told, value = _shown(explanation, options)

    def show() -> None:
        say(told())
        printing.say_wrote([options.html] if options.html else [])

    printing.report(options, value, show)


def _explained(options: argparse.Namespace) -> Explanation | GraphExplanation:
    source = options.source
    if options.schedule or source.lower().endswith(GRAPH_FILES):
        graph = import_graph(source, dimensions=options.dimensions)
        schedule = load_schedule(options.schedule) if options.schedule else None
        return explain_graph(graph, schedule, search=options.search)
    if options.dimensions:
        raise OptionError(f"{source}: only ONNX models have --dimensions")
    return explain_named(source, search=options.search)


def _shown(
    explanation: Explanation | GraphExplanation, options: argparse.Namespace
) -> tuple[Callable[[], str], Any]:
    """(what makes the text, what JSON is of); writes the page that was asked for."""
    if isinstance(explanation, GraphExplanation):
        if options.html:
            graph, schedule = explanation.graph, explanation.schedule
            graph_page.write_graph_page(graph, options.html, schedule)
        value = graph_text.graph_explanation_numbers(explanation)
        return lambda: graph_text.graph_explanation_text(explanation, top=options.top), value
    if options.html:
        page.write_page(explanation, options.html)
    value = numbers.explanation_numbers(explanation)
    return lambda: text.explanation_text(explanation, top=options.top), value
