"""Searches for a schedule, prints what it saves, writes what was asked for.

examples:
  regal-jax schedule model.onnx --num_devices=1 --time_limit=60 --output=schedule.json
  regal-jax schedule step.json --num_devices=4 --memory_capacity=2GiB --plot=memory.png
  regal-jax schedule jobs.json --objective=makespan --plot=gantt.png --trace=trace.json
  regal-jax schedule model.onnx --num_devices=1 --page=model.html
  regal-jax schedule step.json --objective=makespan --target=latency --trials=100
  regal-jax schedule step.json --json | jq .schedule.peak_memory
"""

import argparse
import dataclasses
import math
import typing
from typing import TYPE_CHECKING, Any

import numpy as np

from regal_jax.cli import flags, printing
from regal_jax.environments.execution.targets import read_target, simulated
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule, save_schedule
from regal_jax.errors import InfeasibleError
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Options
from regal_jax.reporting import figures, progress, tables
from regal_jax.reporting.terminal import say

if TYPE_CHECKING:  # what searches is imported when it does, so that --help is quick
    from regal_jax import api

GROUPS = {
    "what is minimised, and on what": (
        *("objective", "num_devices", "memory_capacity", "latency", "per_byte"),
    ),
    "how it is searched for": ("method", "evaluations", "time_limit", "seed"),
    "of some methods": ("policy", "decoding", "generation", "temperature"),
    "tried on a target": ("target", "candidates", "trials"),
}
"""The fields of Options, as --help shows them."""
METAVARS = {
    "num_devices": "D",
    "memory_capacity": "BYTES",
    "latency": "US",
    "per_byte": "US",
    "method": "NAME",
    "evaluations": "N",
    "time_limit": "SECONDS",
    "seed": "N",
    "policy": "FILE",
    "temperature": "T",
    "target": "FILE",
    "candidates": "N",
    "trials": "N",
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """A flag for each option of a search, and files to write."""
    flags.add_graph(parser)
    hints = typing.get_type_hints(Options, include_extras=True)
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        for name in names:
            group.add_argument(f"--{name}", **_flag(name, hints[name]))
    written = parser.add_argument_group("files to write")
    for name, text in WRITTEN.items():
        written.add_argument(f"--{name}", type=flags.text, metavar="FILE", help=text)
    flags.add_printing(parser)


WRITTEN = {
    "output": "the schedule (.json)",
    "trace": "a trace for Perfetto or chrome://tracing (.json)",
    "page": "an interactive page: the graph, and the schedule step by step (.html)",
    "plot": "a picture: memory over time, or a Gantt chart (.png, .svg, .pdf)",
}


def _flag(name: str, hint: Any) -> dict[str, Any]:
    kind, text = typing.get_args(hint)
    how = flags.of_type(kind) | {"default": getattr(Options, name), "help": text}
    if name == "method":
        how["help"] = "what to search with; regal-jax methods lists them"
    if name == "memory_capacity":
        how |= {"type": flags.byte_count, "help": flags.CAPACITY}
    return how | ({"metavar": METAVARS[name]} if name in METAVARS else {})


def run(options: argparse.Namespace) -> None:
    """Searches, prints, writes. Raises RegalError; InfeasibleError beyond the memory capacity,
    after all else."""
    from regal_jax import api
    from regal_jax.environments.rcpsp.problem import MachineProblem

    graph = flags.read_graph(options)
    printing.detail(options, f"{graph.name}: {graph.num_ops:,} ops, {graph.num_tensors:,} tensors")
    outputs = [path for name in WRITTEN if (path := getattr(options, name))]
    for path in outputs:
        files.check_writable(path)
    if options.plot:
        figures.check_suffix(options.plot)
    target = None if options.target is None else _Recorded(graph, options.target)
    plan = api.plan(graph, _asked(options, target))
    best = _searched(plan, options)
    platform = flags.platform(options)
    label, simple = _compared_with(plan.problem, graph, options.objective, platform)
    _write(options, graph, simple, best, platform)
    costs = {label: _costs(simple), "schedule": _costs(best), "wrote": outputs}

    def show() -> None:
        tables.print_table(
            tables.compared({f"{label} ({simple.method})": simple, best.method: best})
        )
        if target is not None:
            say("")
            tables.print_table(_on_target(graph, best, target, platform))
        elif more := _outlook(best):
            say(f"\n{more}")
        printing.say_wrote(outputs)

    printing.report(options, costs, show)
    if not isinstance(plan.problem, MachineProblem):
        _check_feasible(graph, best, platform)


def _searched(plan: "api.Plan", options: argparse.Namespace) -> Schedule:
    """The best schedule of a plan, with progress on stderr."""
    from regal_jax import api

    total = plan.budget.options.trials or plan.budget.evaluations
    human = tables.human_time_us if options.objective == "makespan" else tables.human_bytes
    name, lowest = plan.method.name, math.inf
    printing.detail(options, f"{name}, {total:,} evaluations at most")
    with progress.bar(name, total, quiet=options.quiet) as update:

        def on_progress(done: int, cost: float) -> None:
            nonlocal lowest
            if cost < lowest:
                lowest = cost
                printing.detail(options, f"best {human(cost)} after {done:,} evaluations")
            update(done, f"best {human(cost)}")

        return api.run(plan, on_progress)


class _Recorded:
    """The target of a file, which keeps what was tried on it, in order."""

    def __init__(self, graph: ComputationGraph, path: str):
        self.model = read_target(path)
        self.takes = simulated(graph, self.model)
        self.tried: list[Schedule] = []

    def __call__(self, schedule: Schedule) -> float:
        self.tried.append(schedule)
        return self.takes(schedule)


def _asked(options: argparse.Namespace, target: _Recorded | None) -> Options:
    asked = {field.name: getattr(options, field.name) for field in dataclasses.fields(Options)}
    return Options(**asked | {"target": target})


def _compared_with(
    problem: Any, graph: ComputationGraph, objective: Any, platform: Platform
) -> tuple[str, Schedule]:
    """What one would have without a search, and its name."""
    from regal_jax.environments.rcpsp.problem import MachineProblem
    from regal_jax.methods import rcpsp, simple

    if isinstance(problem, MachineProblem):
        return "best rule", rcpsp.best_rule_schedule(problem)
    return "best simple order", simple.best_simple_schedule(graph, objective, platform)


def _write(
    options: argparse.Namespace,
    graph: ComputationGraph,
    simple: Schedule,
    best: Schedule,
    platform: Platform,
) -> None:
    if options.output:
        save_schedule(best, options.output)
    if options.trace:
        from regal_jax.reporting import traces

        traces.save_trace(graph, best, options.trace, platform)
    if options.plot:
        _plot(graph, simple, best, options.plot, platform)
    if options.page:
        from regal_jax.reporting import graph_page

        graph_page.write_graph_page(graph, options.page, best)


def _plot(
    graph: ComputationGraph, simple: Schedule, best: Schedule, path: str, platform: Platform
) -> None:
    from regal_jax.reporting import plots

    if best.objective == "makespan":
        plots.plot_gantt(graph, best, path, platform)
    else:
        plots.plot_memory(graph, {simple.method: simple, best.method: best}, path)


def _outlook(best: Schedule) -> str:
    """What more time would buy after a search that could go on; "" if nothing is known."""
    twice = 2 * best.evaluations
    gain = best.expected_gain(twice)
    if best.is_optimal or not best.history or not math.isfinite(gain):
        return ""
    share = 100 * gain / best.cost
    return f"twice the evaluations (--evaluations={twice}) may save another {share:.2g} %"


def _costs(schedule: Schedule) -> dict[str, Any]:
    """What a schedule costs and how it was found, for --json."""
    names = (
        *("method", "objective", "peak_memory", "makespan", "target_time"),
        *("lower_bound", "is_optimal", "evaluations", "seconds", "compile_seconds"),
    )
    return {name: getattr(schedule, name) for name in names}


def _on_target(
    graph: ComputationGraph, best: Schedule, target: _Recorded, platform: Platform
) -> list[dict[str, str]]:
    """Rows of what the chosen schedule takes on proxy and target, and what two take there that
    one might choose without the target."""
    from regal_jax.environments.placement.problem import PlacementProblem
    from regal_jax.methods import robust

    lists = robust.list_schedule(PlacementProblem.on(graph, platform, "makespan"))
    labelled = {
        f"{best.method}, best of {len(target.tried)} on the target": best,
        f"{best.method}, best by makespan": target.tried[0],
        "list scheduling (critical_path)": lists,
    }
    column = f"on {target.model.name or 'the target'}"
    return [
        {
            "schedule": label,
            "makespan": tables.human_time_us(schedule.makespan),
            column: tables.human_time_us(target.takes(schedule)),
        }
        for label, schedule in labelled.items()
    ]


def _check_feasible(graph: ComputationGraph, best: Schedule, platform: Platform) -> None:
    """Raises InfeasibleError for a schedule beyond the memory capacity."""
    excess = np.array(best.peak_memory) - platform.capacities()
    if np.any(excess > 0):
        device = int(np.argmax(excess))
        raise InfeasibleError(
            f"no schedule within --memory_capacity was found: device {device} of the best one"
            f" needs {best.peak_memory[device]} bytes, {int(excess[device])} too many"
            f"{_why_nothing_fits(graph, best, platform)}"
        )


def _why_nothing_fits(graph: ComputationGraph, best: Schedule, platform: Platform) -> str:
    """The bound, where ops may run again and it is beyond the capacity."""
    from regal_jax.environments.recompute.bounds import least_memory

    least = least_memory(graph) if best.method == "recompute" else 0
    if least <= platform.capacities()[0]:
        return ""
    return f"; none needs less than {least}, whatever runs again"
