"""Prints what is in a graph and what bounds its cost; makes a page of it if asked to.

examples:
  regal-jax info model.onnx
  regal-jax info model.json --num_devices=4
  regal-jax info model.onnx --page=model.html
  regal-jax info model.json --json | jq .ops
"""

import argparse
from typing import Any

from regal_jax.cli import flags, printing
from regal_jax.environments.placement import bounds
from regal_jax.environments.platform import Platform
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.graphs import files, precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import tables
from regal_jax.reporting.terminal import one_line, say


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The graph, the platform that bounds are for, and a page."""
    flags.add_graph(parser)
    parser.add_argument(
        "--page", type=flags.text, metavar="FILE", help="interactive page to write (.html)"
    )
    flags.add_platform(parser)
    flags.add_printing(parser)


def run(options: argparse.Namespace) -> None:
    """Prints facts and writes the page. Raises RegalError."""
    graph = flags.read_graph(options)
    platform = flags.platform(options)
    if options.page:
        files.check_writable(options.page)
    facts = _facts(graph, platform)
    if options.page:
        from regal_jax.reporting import graph_page

        graph_page.write_graph_page(graph, options.page)

    def show() -> None:
        _show(facts)
        printing.say_wrote([options.page] if options.page else [])

    printing.report(options, {key: value for key, (value, _) in facts.items()}, show)


def _show(facts: dict[str, tuple[Any, Any]]) -> None:
    width = max(len(key) for key in facts)
    for key, (value, human) in facts.items():
        say(f"{key:<{width}}  {one_line(human(value))}")


def _facts(graph: ComputationGraph, platform: Platform) -> dict[str, tuple[Any, Any]]:
    """By what it is: a number in bytes or us, and how a person reads it."""
    many, memory, time = f"{platform.num_devices} devices", tables.human_bytes, tables.human_time_us
    length, _ = precedence.critical_path(graph)
    facts: dict[str, tuple[Any, Any]] = {
        "name": (graph.name, str),
        "family": (graph.family, str),
        "source": (graph.source, str),
        "ops": (graph.num_ops, str),
        "tensors": (graph.num_tensors, str),
        "edges": (len(graph.edges), str),
        "depth [ops]": (int(precedence.levels(graph).max(initial=-1)) + 1, str),
        "bytes in all tensors": (int(graph.size.sum()), memory),
        "persistent bytes": (int(graph.size[graph.persistent].sum()), memory),
        "work": (float(graph.duration.sum()), time),
        "critical path": (float(length), time),
        f"peak memory at least, {many}": (
            int(bounds.peak_memory_bound(graph, platform.num_devices)),
            memory,
        ),
        f"makespan at least, {many}": (float(bounds.makespan_bound(graph, platform)), time),
    }
    if graph.capacity is not None:
        capacity = graph.capacity.tolist()
        facts["capacity of machine types"] = (capacity, lambda units: " ".join(map(str, units)))
        facts["makespan at least, on them"] = (float(MachineProblem(graph).lower_bound), time)
    return facts
