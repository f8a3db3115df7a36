"""Lists the methods: for which graphs, learned or not, from which paper, what they do.

examples:
  regal-jax methods
  regal-jax methods --json | jq -r '.[].method'
"""

import argparse

from regal_jax import registry
from regal_jax.cli import flags, printing
from regal_jax.reporting import tables

_GRAPHS = {"placement": "devices", "rcpsp": "machine types"}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """How the list is printed."""
    flags.add_printing(parser)


def run(options: argparse.Namespace) -> None:
    """Prints a row each method."""
    problems: dict[str, list[str]] = {}
    found: dict[str, registry.Method] = {}
    for (problem, name), method in registry.entries("method").items():
        problems.setdefault(name, []).append(_GRAPHS.get(problem, problem))
        found.setdefault(name, method)
    rows = [
        {
            "method": name,
            "for": ", ".join(problems[name]),
            "learned": "learned" if found[name].learned else "",
            "from": found[name].paper or "ours, or classical",
            "what it does": found[name].summary,
        }
        for name in sorted(found)
    ]
    printing.report(options, rows, lambda: tables.print_table(rows))
