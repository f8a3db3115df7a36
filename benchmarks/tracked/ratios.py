"""Ratios that airspeed velocity keeps: times of peers over ours in one run, and costs over bounds.

    pip install asv
    asv run --config benchmarks/asv.conf.json HEAD^!
    asv publish --config benchmarks/asv.conf.json

Ratios hold where times don't: on other machines, and beside other programs.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import brkga
import decode
import instances
import jax
import machine_scheduling
from timing import compiled_library

import regal_jax as rj
from regal_jax.environments.placement.problem import PlacementProblem


class Costs:
    """Of chromosomes, by plain C++ on one core."""

    params = (100, 500, 1000, 2000)
    param_names = ("ops",)
    timeout = 600
    unit = "times ours"

    def track_plain_cpp(self, ops):
        flags = decode.parser().parse_args(["--jax_largest=0"])
        graph = instances.graphs_of_sizes(None, [ops])[0]
        seconds = decode.times(graph, compiled_library(decode.SOURCE), flags)
        return seconds["cpp"] / seconds["kernel"]


class MachineSchedules:
    """On machine types, by plain C++ on one core."""

    params = (("three_types", "queries"), (500, 1000, 5000))
    param_names = ("graph", "ops")
    timeout = 600
    unit = "times ours"

    def track_plain_cpp(self, graph, ops):
        flags = machine_scheduling.parser().parse_args([])
        library = compiled_library(machine_scheduling.SOURCE)
        made = getattr(machine_scheduling, graph)(ops)
        seconds = machine_scheduling.times(made, library, flags)
        return seconds["cpp"] / seconds["kernel"]


class Searches:
    """BRKGA of 5,000 evaluations, by pymoo, after one call that compiles."""

    timeout = 600
    unit = "times ours"

    def track_pymoo(self):
        graph = instances.graphs_of_sizes(None, [560])[0]
        problem = PlacementProblem(graph, backend="native")
        search = brkga.jitted_search(problem, 5000)
        brkga.timed(search, jax.random.key(0))
        seconds, _ = brkga.timed(search, jax.random.key(1))
        return brkga.timed(brkga.pymoo_search, graph, problem, 5000, 1)[0] / seconds


class Schedules:
    """``auto``'s cost with 5,000 evaluations, over the lower bound."""

    params = (("peak_memory", "makespan"), (1, 2, 4), (100, 500, 1000, 2000))
    param_names = ("objective", "devices", "ops")
    timeout = 600
    unit = "times the bound"

    def track_auto(self, objective, devices, ops):
        graph = instances.graphs_of_sizes(None, [ops])[0]
        schedule = rj.optimize(graph, objective=objective, num_devices=devices, evaluations=5000)
        return schedule.cost / schedule.lower_bound
