"""Validates a schedule against its graph, and its claimed costs against the exact ones.

The exit status is 0 for a valid schedule, 2 for any other.

examples:
  regal-jax check model.json schedule.json
  regal-jax check model.json schedule.json --memory_capacity=2GiB --latency=5 --quiet
"""

import argparse

from regal_jax import api
from regal_jax.cli import flags, printing
from regal_jax.environments import claims
from regal_jax.environments.base import has_machines
from regal_jax.environments.schedule import load_schedule
from regal_jax.reporting.terminal import say


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The graph, the schedule, and the platform it is for."""
    flags.add_graph(parser)
    parser.add_argument("schedule", metavar="SCHEDULE", type=flags.text, help="a schedule file")
    flags.add_platform(parser, with_devices=False)
    flags.add_printing(parser)


def run(options: argparse.Namespace) -> None:
    """Checks a schedule. Raises ScheduleError for one that is invalid, or claims what isn't so."""
    graph, claimed = flags.read_graph(options), load_schedule(options.schedule)
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
    memory = None if on_machines else cost.peak_memory.tolist()
    found = {"valid": True, "peak_memory": memory, "makespan": cost.makespan}
    on = (
        f" on {claimed.num_devices} machine types:"
        if on_machines
        else f": peak memory {memory} bytes,"
    )
    printing.report(options, found, lambda: say(f"valid{on} makespan {cost.makespan:g} us"))
