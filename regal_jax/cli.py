"""The ``regal-jax`` command: schedule, import, check, info, explain and methods."""

import argparse
import dataclasses
import json
import re
import sys
import types
import typing
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from regal_jax import __version__, api, compilation_cache, registry
from regal_jax.compiler.explain import page
from regal_jax.compiler.explain import text as explain_text
from regal_jax.compiler.explain.explain import explain_named
from regal_jax.datasets import job_shop, project_scheduling, tpch
from regal_jax.environments import claims
from regal_jax.environments.base import has_machines
from regal_jax.environments.execution.targets import read_target, simulated
from regal_jax.environments.placement import bounds
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.environments.schedule import Schedule, load_schedule, save_schedule
from regal_jax.errors import InfeasibleError, OptionError, RegalError
from regal_jax.graphs import files, precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.any_file import import_graph
from regal_jax.methods import rcpsp, robust
from regal_jax.methods.simple import best_simple_schedule
from regal_jax.options import Options
from regal_jax.reporting import figures, progress, tables
from regal_jax.reporting.terminal import one_line, say

READERS = {
    "job_shop": job_shop.read_job_shop,
    "psplib": project_scheduling.read_project,
}
USAGE_ERROR = 2
INFEASIBLE = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status. Bad input is one line on stderr, no traceback."""
    try:
        options = _parser().parse_args(arguments)
        compilation_cache.enable()
        with progress.warnings_in_one_line("regal-jax"):
            options.run(options)
    except RegalError as error:
        say(f"regal-jax: error: {one_line(str(error))}", sys.stderr)
        return INFEASIBLE if isinstance(error, InfeasibleError) else USAGE_ERROR
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        print("regal-jax: interrupted; nothing was written", file=sys.stderr)
        return 130
    return 0


def schedule(options: argparse.Namespace) -> None:
    """Searches for a schedule, prints what it saves, writes what was asked for."""
    graph = _graph(options)
    outputs = [path for path in (options.output, options.trace, options.plot) if path]
    for path in outputs:
        files.check_writable(path)
    if options.plot:
        figures.check_suffix(options.plot)
    target = None if options.target is None else _Recorded(graph, options.target)
    asked = {field.name: getattr(options, field.name) for field in dataclasses.fields(Options)}
    plan = api.plan(graph, Options(**asked | {"target": target}))
    total = plan.budget.options.trials or plan.budget.evaluations
    with progress.search_progress(plan.method.name, total) as on_progress:
        best = api.run(plan, on_progress)
    platform, on_machines = _platform(options), isinstance(plan.problem, MachineProblem)
    if isinstance(plan.problem, MachineProblem):
        label, simple = "best rule", rcpsp.best_rule_schedule(plan.problem)
    else:
        label = "best simple order"
        simple = best_simple_schedule(graph, options.objective, platform)
    if options.output:
        save_schedule(best, options.output)
    if options.trace:
        from regal_jax.reporting import traces

        traces.save_trace(graph, best, options.trace, platform)
    if options.plot:
        _plot(graph, simple, best, options.plot, platform)
    if options.json:
        _say_json({label: _costs(simple), "schedule": _costs(best), "wrote": outputs})
    else:
        say(tables.comparison({f"{label} ({simple.method})": simple, best.method: best}))
        if target is not None:
            say(f"\n{_on_target(graph, best, target, platform)}")
        for path in outputs:
            say(f"wrote {path}")
    if not on_machines:
        _check_feasible(best, platform)


def import_(options: argparse.Namespace) -> None:
    """Converts any importable file to ``regal-graph/1``."""
    if options.tpch:
        tpch.convert_tpch(options.graph, options.output)
        say(f"wrote {options.output}")
        return
    if options.dimensions and options.reader != "any":
        raise OptionError(f"{options.graph}: only ONNX models have --dimensions")
    graph = _graph(options) if options.reader == "any" else READERS[options.reader](options.graph)
    files.save_graph(graph, options.output)
    say(f"wrote {options.output}: {graph.num_ops} ops, {graph.num_tensors} tensors")


def check(options: argparse.Namespace) -> None:
    """Validates a schedule against its graph, and its claimed costs against the exact ones."""
    graph, claimed = _graph(options), load_schedule(options.schedule)
    on_machines = has_machines(graph, claimed.objective)
    cost = api.evaluate(
        graph,
        claimed,
        memory_capacity=options.memory_capacity,
        latency=options.latency,
        per_byte=options.per_byte,
    )
    start = None if on_machines else cost.start
    claims.check_claims(claimed, cost.peak_memory, cost.makespan, start)
    if options.json:
        memory = None if on_machines else cost.peak_memory.tolist()
        _say_json({"valid": True, "peak_memory": memory, "makespan": cost.makespan})
        return
    if on_machines:
        say(f"valid on {claimed.num_devices} machine types: makespan {cost.makespan:g} us")
        return
    say(f"valid: peak memory {cost.peak_memory.tolist()} bytes, makespan {cost.makespan:g} us")


def info(options: argparse.Namespace) -> None:
    """Prints what is in a graph and what bounds its cost; draws it if asked to."""
    graph = _graph(options)
    platform = _platform(options)
    if options.plot:
        files.check_writable(options.plot)
        figures.check_suffix(options.plot)
    facts = _facts(graph, platform)
    if options.json:
        _say_json({key: value for key, (value, _) in facts.items()})
    else:
        width = max(len(key) for key in facts)
        lines = ((key, one_line(human(value))) for key, (value, human) in facts.items())
        say("\n".join(f"{key:<{width}}  {text}" for key, text in lines))
    if options.plot:
        from regal_jax.reporting import graph_plot

        graph_plot.plot_graph(graph, options.plot)
        if not options.json:
            say(f"wrote {options.plot}")


def explain(options: argparse.Namespace) -> None:
    """Tells why a compiled XLA program's memory peak is where it is, and what would lower it."""
    explain_text.check_top(options.top)
    if options.html:
        files.check_writable(options.html)
    explanation = explain_named(options.source, search=options.search)
    if options.html:
        page.write_page(explanation, options.html)
    say(explain_text.explanation_text(explanation, top=options.top))
    if options.html:
        say(f"wrote {options.html}")


def methods(options: argparse.Namespace) -> None:
    """Lists the methods: for which graphs, learned or not, from which paper, what they do."""
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
    _say_json(rows) if options.json else say(tables.text_table(rows))


_GRAPHS = {"placement": "devices", "rcpsp": "machine types"}


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


def _costs(schedule: Schedule) -> dict[str, Any]:
    """What a schedule costs and how it was found, for --json."""
    names = (
        *("method", "objective", "peak_memory", "makespan", "target_time"),
        *("lower_bound", "is_optimal", "evaluations", "seconds"),
    )
    return {name: getattr(schedule, name) for name in names}


def _say_json(value: Any) -> None:
    say(json.dumps(value, indent=2))


class _Recorded:
    """The target of a file, which keeps what was tried on it, in order."""

    def __init__(self, graph: ComputationGraph, path: str):
        self.model = read_target(path)
        self.takes = simulated(graph, self.model)
        self.tried: list[Schedule] = []

    def __call__(self, schedule: Schedule) -> float:
        self.tried.append(schedule)
        return self.takes(schedule)


def _on_target(
    graph: ComputationGraph, best: Schedule, target: _Recorded, platform: Platform
) -> str:
    """A table of what the chosen schedule takes on proxy and target, and what two take there that
    one might choose without the target."""
    lists = robust.list_schedule(PlacementProblem.on(graph, platform, "makespan"))
    labelled = {
        f"{best.method}, best of {len(target.tried)} on the target": best,
        f"{best.method}, best by makespan": target.tried[0],
        "list scheduling (critical_path)": lists,
    }
    column = f"on {target.model.name or 'the target'}"
    rows = [
        {
            "schedule": label,
            "makespan": tables.human_time_us(schedule.makespan),
            column: tables.human_time_us(target.takes(schedule)),
        }
        for label, schedule in labelled.items()
    ]
    return tables.text_table(rows)


def _check_feasible(best: Schedule, platform: Platform) -> None:
    """Raises InfeasibleError for a schedule beyond the memory capacity."""
    excess = np.array(best.peak_memory) - platform.capacities()
    if np.any(excess > 0):
        device = int(np.argmax(excess))
        raise InfeasibleError(
            f"no schedule within --memory_capacity was found: device {device} of the best one"
            f" needs {best.peak_memory[device]} bytes, {int(excess[device])} too many"
        )


def _plot(graph: ComputationGraph, simple, best, path: str, platform: Platform) -> None:
    from regal_jax.reporting import plots

    if best.objective == "makespan":
        plots.plot_gantt(graph, best, path, platform)
    else:
        plots.plot_memory(graph, {simple.method: simple, best.method: best}, path)


def _platform(options: argparse.Namespace) -> Platform:
    num_devices = 2 if options.num_devices is None else options.num_devices
    return Platform(num_devices, options.memory_capacity, options.latency, options.per_byte)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all others."""

    def error(self, message: str):
        raise OptionError(f"{message} (see {self.prog} --help)")


_GRAPH = "a .json, .jsonl, .onnx, .pbtxt, .pb or .hlo / .txt (XLA) file"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="regal-jax", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"regal-jax {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_schedule(_command(commands, "schedule", schedule))
    _add_import(_command(commands, "import", import_))
    _add_check(_command(commands, "check", check))
    _add_info(_command(commands, "info", info))
    _add_explain(_command(commands, "explain", explain))
    _add_json(_command(commands, "methods", methods))
    return parser


def _add_schedule(command: argparse.ArgumentParser) -> None:
    _add_graph(command)
    for name, hint in typing.get_type_hints(Options, include_extras=True).items():
        kind, text = typing.get_args(hint)
        text = "what to search with; regal-jax methods lists them" if name == "method" else text
        flag = _CAPACITY if name == "memory_capacity" else _flag(kind, text)
        command.add_argument(f"--{name}", default=getattr(Options, name), **flag)
    command.add_argument("--output", type=_text, help="schedule file to write (.json)")
    command.add_argument("--trace", type=_text, help="Perfetto / Chrome trace to write (.json)")
    command.add_argument("--plot", type=_text, help="picture to write (.png, .svg, .pdf)")
    _add_json(command)


def _add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON, in bytes and us")


def _bytes(text: str) -> int:
    """Bytes, of a number with or without a unit: 2GiB, 1.5MiB, 500MB, 4096."""
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?) ?(?:([KMGT]?)(i?)B)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not bytes, such as 2GiB, 500MB or 4096")
    number, prefix, binary = found.groups()
    exponent = " KMGT".index(prefix or " ")
    if "." in number and exponent == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is a part of a byte")
    return round(Fraction(number) * (1024 if binary else 1000) ** exponent)


_CAPACITY: dict[str, Any] = {"type": _bytes, "help": "bytes per device, such as 2GiB"}


def _flag(hint: Any, text: str) -> dict[str, Any]:
    """How argparse reads an option of that type; of a union, its first member."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is typing.Literal:
        return {"choices": typing.get_args(hint), "help": text}
    return {"type": hint if hint in (int, float) else _text, "help": text}


def _text(value: str) -> str:
    """A path or a name: an empty one is a mistake, such as a shell variable that isn't set."""
    if not value or "\0" in value:
        raise argparse.ArgumentTypeError("must not be empty, or hold a null character")
    return value


def _add_graph(command: argparse.ArgumentParser) -> None:
    command.add_argument("graph", metavar="GRAPH", type=_text, help=_GRAPH)
    command.add_argument(
        "--dimensions",
        type=_sizes,
        help="sizes of an ONNX model's unknown dimensions: batch=1,height=320 (*=1: of all others)",
    )


def _sizes(text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for item in text.split(","):
        name, equals, size = item.rpartition("=")
        if not (name and equals and size.isascii() and size.isdigit() and len(size) < 19):
            raise argparse.ArgumentTypeError(f"{item!r} is not NAME=SIZE")
        if name in sizes:
            raise argparse.ArgumentTypeError(f"{name!r} twice")
        sizes[name] = int(size)
    return sizes


def _graph(options: argparse.Namespace) -> ComputationGraph:
    return import_graph(options.graph, dimensions=options.dimensions)


def _add_import(command: argparse.ArgumentParser) -> None:
    _add_graph(command)
    command.add_argument("--output", type=_text, required=True, help="graph file to write (.json)")
    readers = command.add_mutually_exclusive_group()
    for name, text in (("job_shop", "a job shop (two formats)"), ("psplib", "a .sm file")):
        readers.add_argument(
            f"--{name}", dest="reader", action="store_const", const=name, help=f"GRAPH is {text}"
        )
    readers.add_argument("--tpch", action="store_true", help="GRAPH is a TPC-H .jsonl.gz")
    command.set_defaults(reader="any")


def _add_check(command: argparse.ArgumentParser) -> None:
    _add_graph(command)
    command.add_argument("schedule", metavar="SCHEDULE", type=_text, help="a schedule file")
    _add_platform(command, with_devices=False)
    _add_json(command)


def _add_info(command: argparse.ArgumentParser) -> None:
    _add_graph(command)
    command.add_argument("--plot", type=_text, help="picture to write (.png, .svg, .pdf)")
    _add_platform(command)
    _add_json(command)


def _add_explain(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "source",
        metavar="SOURCE",
        type=_text,
        help="scheduled HLO: a text (--xla_dump_to) or a .pb file; or package.module:function or"
        " path/to/file.py:function, which is called without arguments and returns (function,"
        " arguments), or a lowered or compiled function",
    )
    command.add_argument("--html", type=_text, help="page to write (.html)")
    command.add_argument(
        "--search", action="store_true", help="search for orders that need less, and compare them"
    )
    command.add_argument("--top", type=int, default=12, help="buffers to list (12)")


def _command(commands, name: str, run) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
    command.set_defaults(run=run)
    return command


def _add_platform(command: argparse.ArgumentParser, *, with_devices: bool = True) -> None:
    if with_devices:
        command.add_argument("--num_devices", type=int, help="2, or the number of machine types")
    command.add_argument("--memory_capacity", **_CAPACITY)
    command.add_argument("--latency", type=float, default=0.0, help="us per transfer")
    command.add_argument("--per_byte", type=float, default=0.0, help="us per byte transferred")


if __name__ == "__main__":
    sys.exit(main())
