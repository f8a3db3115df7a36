"""CP-SAT for schedules in which ops run again: the least work within a memory limit.

Retention intervals as in Moccasin (Bartan et al. 2023, "Moccasin: Efficient Tensor
Rematerialization for Neural Networks", arXiv 2304.14463). Ops stand in a base order. Its stage j
ends with the first run of op j, and before that each earlier op may run again, once, in the base
order: that of op i is event j (j + 1) / 2 + i. A run of an op begins an interval for each tensor
that it makes, in which all of the tensor's readers lie that run before the next one. What is proven
holds for this base order, this order within stages, and at most so many runs an op.

Deviation: ops may make several tensors, have a workspace and wait for control tensors, and tensors
may persist or be there from the start (BUILD_NOTES.md, section 3).
"""

import time
from typing import Any, NamedTuple

import numpy as np

from regal_jax.environments.recompute import checker
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.cp_sat import solver
from regal_jax.search.cp_sat.integer_times import time_unit

MOST_RUNS = 2
"""Of an op."""


class Solution(NamedTuple):
    """What the solver found.

    Attributes:
      runs: int64[R], the ops as they run; None if nothing was found. work: us, of these; or inf.
      bound: us, no less work is possible under the model's restrictions; infinite if none fits.
      optimal: whether the two meet.
    """

    runs: np.ndarray | None
    work: float
    bound: float
    optimal: bool


class _Run(NamedTuple):
    """A run of an op that may be: whether it is, and when (an event)."""

    active: Any
    event: Any


class _Model(NamedTuple):
    """ortools' CpModel; the runs of each op, by place in the base order; the last event."""

    program: Any
    runs: list[list[_Run]]
    horizon: int


def solve(
    graph: ComputationGraph,
    order: np.ndarray,
    limit: int,
    *,
    seconds: float,
    hint: np.ndarray | None = None,
    most_runs: int = MOST_RUNS,
    seed: int = 0,
    workers: int = 1,
) -> Solution:
    """The least work CP-SAT finds within a limit of bytes, and how little is possible.

    Args:
      graph: O ops. order: int[O], the base order. limit: bytes.
      seconds: wall-clock limit, with the building of the model.
      hint: int[R], runs to start from, whose first ones stand in the base order.
      most_runs: of an op.

    Raises MissingDependencyError without the package ortools, OptionError for a bad option.
    """
    began = time.monotonic()
    cp_model = solver.load()
    solver.check_limits(seconds, workers)
    unit = time_unit(graph.duration, float(graph.duration.sum()) * most_runs)
    best: list[np.ndarray] = []
    least = float(graph.duration.sum())
    if unit is None or _num_constraints(graph, most_runs) > solver.most_constraints(seconds):
        return Solution(None, np.inf, least, False)
    model = _build(cp_model.CpModel(), graph, order.tolist(), limit, most_runs)
    durations = unit.whole(graph.duration[order])
    model.program.minimize(
        sum(
            run.active * duration
            for runs, duration in zip(model.runs, durations, strict=True)
            for run in runs
        )
    )
    for variable, value in _hints(model, order, order if hint is None else hint):
        model.program.add_hint(variable, value)
    proven = solver.minimise(
        model.program,
        seconds=seconds - (time.monotonic() - began),
        seed=seed,
        workers=workers,
        relaxations=2,
        on_found=lambda value: best.append(order[_decoded(model, value)]),
    )
    bound = max(least, unit.bound(proven, graph.num_ops * most_runs))
    if not best:
        return Solution(None, np.inf, bound, bound == np.inf)
    assert max(checker.usage(graph, best[-1].tolist())) <= limit
    work = float(graph.duration[best[-1]].sum())
    return Solution(best[-1], work, min(bound, work), work <= bound * (1 + 1e-9))


def _num_constraints(graph: ComputationGraph, most_runs: int) -> int:
    """About how many a model has."""
    return 3 * most_runs * (graph.num_ops + graph.num_tensors + most_runs * len(graph.edges))


def _event(stage: int, place: int) -> int:
    """Of a run, for the place in the base order ``stage``."""
    return stage * (stage + 1) // 2 + place


def _build(program, graph: ComputationGraph, order: list[int], limit: int, most: int) -> _Model:
    """The model of the runs, without an objective."""
    horizon = _event(len(order), 0)
    place = {op: index for index, op in enumerate(order)}
    readers = [sorted(place[op] for op in row) for row in graph.consumers.lists()]
    runs = [_runs(program, graph, place[op], op, order, readers, most) for op in order]
    intervals, bytes_held = [], []
    for op, its in zip(order, runs, strict=True):
        if graph.workspace[op]:
            intervals += [_interval(program, run, run.event, 0) for run in its]
            bytes_held += [int(graph.workspace[op])] * len(its)
    for tensor in np.flatnonzero(graph.size).tolist():
        producer = int(graph.producer[tensor])
        if producer < 0 and not readers[tensor]:
            continue
        making = runs[place[producer]] if producer >= 0 else [_Run(True, -1)]
        if graph.persistent[tensor]:
            held = [(making[0], horizon)]
        else:
            held = [(run, program.new_int_var(-1, horizon, "")) for run in making]
            _add_reads(program, held, [run for place in readers[tensor] for run in runs[place]])
        intervals += [_interval(program, run, end, horizon + 1) for run, end in held]
        bytes_held += [int(graph.size[tensor])] * len(held)
    program.add_cumulative(intervals, bytes_held, limit)
    return _Model(program, runs, horizon)


def _runs(program, graph, place: int, op: int, order, readers, most: int) -> list[_Run]:
    """The first run, and those after it: before any op that waits for it."""
    from ortools.sat.python import cp_model

    outputs = graph.outputs.row(op).tolist()
    waiting = [
        readers[tensor][0] for tensor in outputs if not graph.size[tensor] if readers[tensor]
    ]
    last = min([*waiting, len(order) - 1])
    useful = any(graph.size[t] and readers[t] and not graph.persistent[t] for t in outputs)
    stages = range(place + 1, last + 1) if useful else range(0)
    runs = [_Run(True, _event(place, place))]
    for _ in range(min(most - 1, len(stages))):
        events = cp_model.Domain.from_values([_event(stage, place) for stage in stages])
        run = _Run(program.new_bool_var(""), program.new_int_var_from_domain(events, ""))
        if len(runs) > 1:
            program.add_implication(run.active, runs[-1].active)
            program.add(run.event > runs[-1].event).only_enforce_if(run.active)
        runs.append(run)
    return runs


def _interval(program, run: _Run, end, most: int):
    """From a run to the event ``end``, both held, at most so many later."""
    size = program.new_int_var(1, most + 1, "") if most else 1
    return program.new_optional_interval_var(run.event, size, end + 1, run.active, "")


def _add_reads(program, held, reading: list[_Run]) -> None:
    """Each of the runs that read a tensor lies in one of the intervals in which it is held."""
    for (making, end), following in zip(held, [*held[1:], None], strict=True):
        program.add(end >= making.event).only_enforce_if(making.active)
        if following is not None:
            program.add(end < following[0].event).only_enforce_if(following[0].active)
    for run in reading:
        inside = []
        for making, end in held:
            literal = program.new_bool_var("")
            if making.active is not True:
                program.add_implication(literal, making.active)
            program.add(making.event < run.event).only_enforce_if(literal)
            program.add(run.event <= end).only_enforce_if(literal)
            inside.append(literal)
        program.add_at_least_one([*inside, *([] if run.active is True else [~run.active])])


def _hints(model: _Model, order: np.ndarray, hint: np.ndarray):
    """(variable, value) of the runs of a schedule."""
    place = np.empty(len(order), int)
    place[order] = np.arange(len(order))
    stage = 0
    at: list[list[int]] = [[] for _ in order]
    for one in place[hint].tolist():
        at[one].append(_event(stage, one))
        stage += one == stage
    for runs, events in zip(model.runs, at, strict=True):
        for run, event in zip(runs[1:], [*events[1:], *([None] * len(runs))], strict=False):
            yield run.active, int(event is not None)
            if event is not None:
                yield run.event, event


def _decoded(model: _Model, value) -> list[int]:
    """Places in the base order, as they run."""
    found = [
        (run.event if run.active is True else value(run.event), place)
        for place, runs in enumerate(model.runs)
        for run in runs
        if run.active is True or value(run.active)
    ]
    return [place for _, place in sorted(found)]
