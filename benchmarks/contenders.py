"""Programs that race for the best schedule: ours, and those of other makers.

A contender is a function (problem, seconds, seed) -> its best costs so far, each with the seconds
that it took: exact ones, bytes or us, by the cost model of ``regal_jax``. It may take longer.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import regal_jax as rj
from regal_jax import compile_clock
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.methods.simple import best_simple_schedule
from regal_jax.search.cp_sat import placement as cp_sat_placement
from regal_jax.search.evolution.brkga import BRKGAConfig
from regal_jax.search.placements.candidates import Candidates, best_schedules

Points = list[tuple[float, float]]
Contender = Callable[[PlacementProblem, float, int], Points]


def auto(problem: PlacementProblem, seconds: float, seed: int) -> Points:
    """Ours. What is compiled is compiled before, or not counted, as in ``Schedule.seconds``."""
    platform, points, begin = problem.platform, list[tuple[float, float]](), _clock()

    def note(cost: float) -> None:
        points.append((_clock() - begin, cost))

    schedule = rj.optimize(
        problem.graph,
        objective=problem.objective,
        num_devices=platform.num_devices,
        latency=platform.latency,
        per_byte=platform.per_byte,
        time_limit=seconds,
        seed=seed,
        on_progress=lambda _, cost: note(cost),
    )
    note(schedule.cost)
    return points


def _clock() -> float:
    """Seconds, without those of compilation."""
    return time.perf_counter() - compile_clock.seconds()


def cp_sat(problem: PlacementProblem, seconds: float, seed: int) -> Points:
    """OR-Tools' solver on our model, with the best simple schedule as a hint; one thread."""
    begin = time.perf_counter()
    graph, platform, objective = problem.graph, problem.platform, problem.objective
    hint = best_simple_schedule(graph, objective, platform)
    took = time.perf_counter() - begin
    found = cp_sat_placement.solve(
        graph, platform, objective, seconds=seconds - took, seed=seed, hint=hint
    )
    return [(took + later, cost) for later, cost in found.history]


def pymoo_brkga(problem: PlacementProblem, seconds: float, seed: int) -> Points:
    """pymoo's BRKGA with the paper's parameters; its cost is our compiled kernel."""
    from pymoo.termination.max_time import TimeBasedTermination

    points, begin = list[tuple[float, float]](), time.perf_counter()

    def costs(genes: np.ndarray) -> np.ndarray:
        found = problem.fitness(genes)
        points.append((time.perf_counter() - begin, float(found.min())))
        return found

    minimise_by_pymoo(costs, problem.num_genes, TimeBasedTermination(seconds), seed)
    return points


def minimise_by_pymoo(
    costs: Callable[[np.ndarray], np.ndarray], num_genes: int, termination: Any, seed: int
) -> float:
    """The best cost that pymoo's BRKGA finds. ``costs``: float32[B, genes] -> [B]."""
    from pymoo.algorithms.soo.nonconvex.brkga import BRKGA
    from pymoo.core.problem import Problem
    from pymoo.optimize import minimize

    class Vectorised(Problem):
        def __init__(self):
            super().__init__(n_var=num_genes, n_obj=1, xl=0.0, xu=1.0)

        def _evaluate(self, x, out, *args, **kwargs):
            out["F"] = costs(x.astype(np.float32)).astype(float)

    config = BRKGAConfig()
    algorithm = BRKGA(
        n_elites=config.elites,
        n_offsprings=config.children,
        n_mutants=config.newcomers - config.children,
        bias=config.elite_bias,
    )
    return float(minimize(Vectorised(), algorithm, termination, seed=seed).F[0])


def saga_heft(problem: PlacementProblem, seconds: float, seed: int) -> Points:
    """SAGA's HEFT, for the makespan, one schedule however long it takes; costed by our model.

    SAGA has a delay for each pair of ops, so its delay is the dearest tensor's between them.
    """
    from saga import Network, TaskGraph
    from saga.schedulers.heft import HeftScheduler

    begin = time.perf_counter()
    graph, platform = problem.graph, problem.platform
    delay = platform.latency + graph.size.astype(float) * platform.per_byte
    sizes: dict[tuple[str, str], float] = {}
    for source, tensor, reader in graph.edges.tolist():
        edge = (str(source), str(reader))
        sizes[edge] = max(sizes.get(edge, 0.0), float(delay[tensor]))
    devices = [str(device) for device in range(platform.num_devices)]
    links = [
        (one, other, math.inf if one == other else 1.0) for one in devices for other in devices
    ]
    planned = HeftScheduler().schedule(
        Network.create([(name, 1.0) for name in devices], links),
        TaskGraph.create(
            [(str(op), float(length)) for op, length in enumerate(graph.duration)],
            [(*edge, size) for edge, size in sizes.items()],
        ),
    )
    took = time.perf_counter() - begin
    start, placement = np.zeros(graph.num_ops), np.zeros(graph.num_ops, np.int32)
    for device, tasks in planned.items():
        for task in tasks:
            if not task.name.startswith("__"):  # its own first and last one
                start[int(task.name)], placement[int(task.name)] = task.start, int(device)
    topological = graph.topological_order
    planned = start[topological].round(6)
    order = topological[np.lexsort((planned + graph.duration[topological], planned))]
    schedules = best_schedules(
        problem, Candidates(placement[None], order[None].astype(np.int32)), 1
    )
    return [(took, schedules[0].cost)]
