"""Project scheduling as machine problems: PSPLIB.

An activity is an op and a renewable resource a machine type. Since an op is of one machine type,
only activities that use at most one resource can be said; PSPLIB has 120 such instances each of
30 and of 60 activities and 150 of 120 activities. It has no open licence, so the package has none
of it: Kolisch and Sprecher 1996, "PSPLIB - a project scheduling problem library".
"""

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regal_jax.datasets.task_graphs import Bounds, name_and_text, read_records, task_graph
from regal_jax.errors import GraphError, RegalError
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph


def load_psplib(folder: str | os.PathLike, set_name: str) -> list[tuple[ComputationGraph, Bounds]]:
    """The instances of a set that a machine problem can say, and what is known of each.

    ``{set_name}.jsonl.gz`` (j30, j60, j120) has an instance a line, without the dummy activities:
    ``name``; ``durations``; ``demands``, a list for each activity, by resource; ``capacities``;
    ``edges``, pairs of activities; ``published_lower_bound``, or null, and
    ``published_upper_bound``; ``critical_path_length``; ``energy_bound``, the largest of the
    resources' works over their capacities.

    Raises:
      RegalError: naming file and line.
    """
    found = read_records(Path(folder) / f"{set_name}.jsonl.gz", _psplib_instance)
    return [instance for instance in found if instance is not None]


def read_project(path_or_text: str | os.PathLike) -> ComputationGraph:
    """A single-mode instance of PSPLIB (``.sm``), from a file or a string of several lines.

    The dummy first and last jobs are left out: job 2 is op 0. A job that uses no resource is of
    machine type 0 and its demand is 0.

    Raises:
      RegalError: naming file and line, also for a job with more than one mode or resource.
    """
    name, text = name_and_text(path_or_text, "project")
    precedence, requests, capacities = _sections(name, text)
    capacity = capacities[-1].numbers
    successors = [_successors(row, job) for job, row in enumerate(precedence, 1)]
    needs = [_need(row, job, len(capacity)) for job, row in enumerate(requests, 1)]
    num_jobs = len(needs)
    if len(successors) != num_jobs or num_jobs < 3:
        raise RegalError(f"{name}: {len(successors)} jobs precede others, {num_jobs} make requests")
    for row, dummy in ((requests[0], needs[0]), (requests[-1], needs[-1])):
        if dummy.duration or dummy.demand:
            raise RegalError(f"{row.where}: the first and the last job must be dummies, of no time")
    edges = [(job, after) for job, row in enumerate(successors, 1) for after in row]
    with files.located(name):
        return task_graph(
            [(job - 2, after - 2) for job, after in edges if job > 1 and after != num_jobs],
            [need.duration for need in needs[1:-1]],
            machine_type=[need.resource for need in needs[1:-1]],
            demand=[need.demand for need in needs[1:-1]],
            capacity=capacity,
            name=Path(name).stem,
            family="psplib",
            source="PSPLIB",
        )


class _Row(NamedTuple):
    where: str
    numbers: list[int]


class _Need(NamedTuple):
    """What an activity takes: units of one resource (0 of the first if none) for a time."""

    duration: float
    resource: int
    demand: int


_TITLES = ("PRECEDENCE RELATIONS:", "REQUESTS/DURATIONS:", "RESOURCEAVAILABILITIES:")
_NOT_RENEWABLE = re.compile(r"\s*-\s*(nonrenewable|doubly constrained)\s*:\s*0*[1-9]")


def _sections(name: str, text: str) -> list[list[_Row]]:
    """The rows of numbers of each section of a ``.sm`` file, in the order of ``_TITLES``."""
    rows: dict[str, list[_Row]] = {title: [] for title in _TITLES}
    current: list[_Row] = []
    for number, line in enumerate(text.splitlines(), 1):
        where, content = f"{name}, line {number}", line.strip()
        if match := _NOT_RENEWABLE.match(line):
            raise RegalError(f"{where}: a machine problem has no {match[1]} resources")
        current = rows.get(content, current)
        if content[:1].isdigit():  # not a title, nor a line of stars
            current.append(_row(where, content))
    for title, found in rows.items():
        if not found:
            raise RegalError(f"{name}: no numbers under {title}")
    return list(rows.values())


def _row(where: str, line: str) -> _Row:
    try:
        return _Row(where, [int(word) for word in line.split()])
    except ValueError:
        raise RegalError(f"{where}: must hold integers only") from None


def _successors(row: _Row, job: int) -> list[int]:
    """Of the line of a job: its number, number of modes, number of successors, successors."""
    if len(row.numbers) < 3 or row.numbers[0] != job or len(row.numbers) != row.numbers[2] + 3:
        raise RegalError(f"{row.where}: must be job {job}, its modes and its counted successors")
    if row.numbers[1] != 1:
        raise RegalError(f"{row.where}: job {job} has {row.numbers[1]} modes where 1 is needed")
    return row.numbers[3:]


def _need(row: _Row, job: int, num_resources: int) -> _Need:
    """Of the line of a job: its number, mode, duration, units of each resource."""
    if row.numbers[:2] != [job, 1] or len(row.numbers) != num_resources + 3:
        raise RegalError(f"{row.where}: must be job {job}, 1, and {num_resources + 1} numbers")
    used = [index for index, units in enumerate(row.numbers[3:]) if units]
    if len(used) > 1:
        places = " and ".join(str(index + 1) for index in used)
        raise RegalError(f"{row.where}: job {job} uses resources {places}; an op can use only one")
    resource = used[0] if used else 0
    return _Need(row.numbers[2], resource, row.numbers[3 + resource])


def _psplib_instance(record: dict[str, Any]) -> tuple[ComputationGraph, Bounds] | None:
    """The instance of a line; none where an activity uses several resources."""
    try:
        demands = np.array(record["demands"], np.int64)
    except (TypeError, ValueError, OverflowError):
        raise GraphError("demands", "must be rows of integers of one length") from None
    if demands.ndim != 2:
        raise GraphError("demands", "must be rows of integers of one length")
    if np.any(np.count_nonzero(demands, axis=1) > 1):
        return None
    graph = task_graph(
        record["edges"],
        record["durations"],
        machine_type=np.argmax(demands != 0, axis=1),
        demand=demands.sum(axis=1),
        capacity=record["capacities"],
        name=record["name"],
        family="psplib",
        source="PSPLIB",
    )
    known = record["published_lower_bound"], record["critical_path_length"], record["energy_bound"]
    lower = max(bound for bound in known if bound is not None)
    return graph, Bounds(float(lower), float(record["published_upper_bound"]))
