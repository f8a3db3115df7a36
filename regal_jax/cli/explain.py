"""Tells why a compiled XLA program's memory peak is where it is, and what would lower it.

examples:
  regal-jax explain train.py:step --html=memory.html
  regal-jax explain dump/module_0001.after_optimizations.txt --search
  regal-jax explain package.module:function --json | jq '.remedies[0]'
"""

import argparse

from regal_jax.cli import flags, printing
from regal_jax.compiler.explain import numbers, page, text
from regal_jax.compiler.explain.explain import explain_named
from regal_jax.graphs import files
from regal_jax.reporting.terminal import say

_SOURCE = (
    "scheduled HLO: a text (--xla_dump_to) or a .pb file; or package.module:function or"
    " path/to/file.py:function, which is called without arguments and returns (function,"
    " arguments), or a lowered or compiled function"
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The program, a page to write, and how much to tell."""
    parser.add_argument("source", metavar="SOURCE", type=flags.text, help=_SOURCE)
    parser.add_argument("--html", type=flags.text, metavar="FILE", help="page to write (.html)")
    parser.add_argument(
        "--search", action="store_true", help="search for orders that need less, and compare them"
    )
    parser.add_argument("--top", type=int, default=12, metavar="N", help="buffers to list as text")
    flags.add_printing(parser)


def run(options: argparse.Namespace) -> None:
    """Explains a program. Raises RegalError for a source that is none."""
    text.check_top(options.top)
    if options.html:
        files.check_writable(options.html)
    explanation = explain_named(options.source, search=options.search)
    if options.html:
        page.write_page(explanation, options.html)

    def show() -> None:
        say(text.explanation_text(explanation, top=options.top))
        printing.say_wrote([options.html] if options.html else [])

    printing.report(options, numbers.explanation_numbers(explanation), show)
