"""Compiles a function for an accelerator that this machine need not have, and prints its memory.

With --jit the function is compiled as rj.jit would, too, beside XLA's own choice; with --budget as
rj.fit would, which computes parts of it again until it fits, or with both as rj.jit would within
the budget; --frontier prints what memory costs in FLOPs. A guard for training code: over --limit,
more than --tolerance above a --baseline, or where nothing fits the --budget, the exit status is 1.

examples:
  regal-jax memory train.py:step --accelerator=h100 --limit=70GiB
  regal-jax memory package.module:function --accelerator=v5e:2x2 --jit --json
  regal-jax memory train.py:step --accelerator=h100 --budget=16GiB
  regal-jax memory train.py:step --accelerator=h100 --baseline=memory.json --tolerance=0.02
"""

import argparse
import contextlib
import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # or JAX looks for the devices that aren't there

from regal_jax.cli import flags, printing
from regal_jax.compiler.accelerators import baselines
from regal_jax.compiler.accelerators.accelerator import accelerator
from regal_jax.compiler.accelerators.measure import Measurement, measure
from regal_jax.compiler.accelerators.specifications import SPECIFICATIONS
from regal_jax.compiler.named_programs import program_named
from regal_jax.compiler.ways.fit import Frontier, fit, frontier
from regal_jax.compiler.xla.jit import jit, reschedule
from regal_jax.errors import LimitError, OptionError
from regal_jax.graphs import files
from regal_jax.reporting.tables import human_bytes
from regal_jax.reporting.terminal import say

_SOURCE = (
    "package.module:function or path/to/file.py:function, which is called without arguments and"
    " returns (function, arguments); arguments may be jax.ShapeDtypeStruct"
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The function, the accelerator, and what is too much."""
    parser.add_argument("source", metavar="SOURCE", type=flags.text, help=_SOURCE)
    known = ", ".join(SPECIFICATIONS)
    parser.add_argument(
        "--accelerator",
        type=flags.text,
        required=True,
        metavar="NAME",
        help=f"{known}; several as h100:8 or v5e:4x4 (arguments on each)",
    )
    parser.add_argument("--jit", action="store_true", help="compile it as rj.jit does, too")
    parser.add_argument(
        "--budget",
        type=flags.byte_count,
        metavar="BYTES",
        help="compile it within it, too, as rj.fit does, or rj.jit with --jit: parts are computed"
        " again until it fits, as 16GiB",
    )
    parser.add_argument(
        "--frontier", action="store_true", help="print memory against FLOPs, as rj.frontier does"
    )
    group = parser.add_argument_group("what is too much")
    group.add_argument("--limit", type=flags.byte_count, metavar="BYTES", help="such as 70GiB")
    group.add_argument(
        "--baseline",
        type=flags.text,
        metavar="FILE",
        help="compare with; written if it isn't there",
    )
    group.add_argument(
        "--tolerance", type=float, default=0.0, metavar="SHARE", help="above the baseline"
    )
    flags.add_printing(parser)


def run(options: argparse.Namespace) -> None:
    """Measures. Raises LimitError for what needs too much, RegalError for what can't be told."""
    if not 0 <= options.tolerance < float("inf"):
        raise OptionError(f"--tolerance must be at least 0, got {options.tolerance}")
    if options.baseline:
        files.check_writable(options.baseline)
    if options.frontier:
        points = _frontier(options)
        printing.report(options, points.rows(), lambda: say(str(points)))
        return
    found = _measured(options)
    value = {name: baselines.numbers(one) for name, one in found.items()}
    text = "\n".join(f"{name}: {one}" for name, one in found.items())
    printing.report(options, value, lambda: say(text))
    needs = min(found.values(), key=lambda one: one.peak)
    if options.baseline:
        baselines.check(options.baseline, options.source, needs, options.tolerance)
    if options.limit is not None and needs.peak > options.limit:
        raise LimitError(
            f"{options.source}: {human_bytes(needs.peak)} on {needs.accelerator}, over --limit of"
            f" {human_bytes(options.limit)}"
        )


@contextlib.contextmanager
def _program(options: argparse.Namespace) -> Iterator[tuple[Any, tuple]]:
    """The function that is named, and its arguments."""
    with program_named(options.source) as (fn, args):
        if not callable(fn):
            raise OptionError("must return (function, arguments) to be compiled for an accelerator")
        yield fn, args


def _frontier(options: argparse.Namespace) -> Frontier:
    with _program(options) as (fn, args):
        return frontier(fn, *args, accelerator=options.accelerator)


def _measured(options: argparse.Namespace) -> dict[str, Measurement]:
    target = accelerator(options.accelerator)
    with _program(options) as (fn, args):
        found = {"jax.jit": measure(fn, *args, accelerator=target)}
        if options.jit:
            make = reschedule if hasattr(fn, "lower") else jit
            made = make(fn, memory_budget=options.budget)
            found["rj.jit"] = measure(made, *args, accelerator=target)
        elif options.budget is not None:
            fitted = fit(fn, *args, memory_budget=options.budget, accelerator=target)
            found["rj.fit"] = measure(fitted.function, *args, accelerator=target)
    return found
