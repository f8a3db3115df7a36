"""Schedules that claim to be better than the best known ones of the model zoo."""

import os
from collections.abc import Mapping, Sequence

from regal_jax import api
from regal_jax.datasets.zoo import load
from regal_jax.environments import claims
from regal_jax.environments.schedule import load_schedule
from regal_jax.errors import OptionError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting.results import Row
from regal_jax.studies.proofs import report, runs


def judged(paths: Sequence[str | os.PathLike], rows: Sequence[Row]) -> list[str]:
    """What schedule files are worth, a line each.

    A schedule is executed and its claimed numbers are checked; then its peak is held against the
    best one and the best bound of the rows.

    Raises:
      RegalError: naming the file, for a schedule that is invalid, of another objective, of no graph
        of the zoo, or of one that the rows don't have.
    """
    graphs = {graph.name: graph for graph in load.model_zoo()}
    return [_judged(path, rows, graphs) for path in paths]


def _judged(
    path: str | os.PathLike, rows: Sequence[Row], graphs: Mapping[str, ComputationGraph]
) -> str:
    schedule = load_schedule(path)
    if schedule.objective != "peak_memory":
        raise OptionError(f"{path}: objective: must be peak_memory")
    name, _, suffix = schedule.graph.partition("@")
    parts = int(suffix) if suffix.isdecimal() and int(suffix) else 1
    known = report.best_known(rows, runs.setting(schedule.num_devices, parts))
    if name not in graphs or schedule.graph not in known:
        raise OptionError(
            f"{path}: graph: nothing is known of {schedule.graph!r} on"
            f" {schedule.num_devices} devices"
        )
    try:
        cost = api.evaluate(runs.in_parts(graphs[name], parts), schedule)
        claims.check_claims(schedule, cost.peak_memory, cost.makespan, None)
    except RegalError as error:
        raise type(error)(f"{path}: {error}") from None
    peak, best = int(max(cost.peak_memory)), known[schedule.graph]
    if peak >= best.cost:
        return f"{path}: {peak:,} bytes; the best known schedule needs {best.cost:,.0f}"
    gain = 100 * (1 - peak / best.cost)
    rest = "which is optimal" if peak <= best.bound else f"no less than {best.bound:,.0f} will do"
    return f"{path}: an improvement by {gain:.3g} %, {best.cost:,.0f} -> {peak:,} bytes; {rest}"
