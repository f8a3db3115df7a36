"""Evaluations a second of the local search: incremental costs against full ones, in one run.

    python benchmarks/local_search.py

Columns: microseconds of a full evaluation (the compiled kernel on one core decodes and costs
chromosomes, batch of 100), of an incremental one without and with the moves that a search makes
(best of several, one core), and how many times faster the two are. A search moves once in
``--neighbours`` evaluations at most. A makespan is given up once it is sure to be no better, which
is part of what makes it fast. Before anything is timed, costs along a random walk are
compared for equality.
"""

import argparse
from collections.abc import Callable

import instances
import numpy as np
from timing import fastest

from regal_jax.environments.placement import batch, columns
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Objective
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.local_search import kernel
from regal_jax.search.local_search import search as local_search_search
from regal_jax.search.local_search.search import Searcher
from regal_jax.search.orders import rules

ENDLESS = 2**62


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data_dir", help="folder of graph files instead of the model zoo")
    parser.add_argument("--sizes", type=int, nargs="+", default=[150, 600, 2000, 20000])
    parser.add_argument("--num_devices", type=int, default=2)
    parser.add_argument("--evaluations", type=int, default=5000)
    parser.add_argument("--neighbours", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    flags = parser.parse_args()
    print(f"{instances.machine()}; {flags.num_devices} devices, {flags.neighbours} neighbours")
    header = ["graph", "ops", "tensors", "objective", "full us", "move us", "search us"]
    header += ["full / move", "full / search"]
    graphs = instances.graphs_of_sizes(flags.data_dir, flags.sizes)
    objectives: tuple[Objective, ...] = ("peak_memory", "makespan")
    rows = [measure(graph, objective, flags) for graph in graphs for objective in objectives]
    instances.print_table(header, rows)


def measure(graph: ComputationGraph, objective: Objective, flags) -> list[object]:
    problem = PlacementProblem(graph, flags.num_devices, objective, backend="native")
    check_walk(problem)
    contenders = {
        "full": full_costs(problem),
        "alone": descent(problem, flags, neighbours=flags.evaluations),
        "search": descent(problem, flags, neighbours=flags.neighbours),
    }
    full, alone, search = fastest(contenders, flags.repeats + 1).values()  # the first may compile
    full, alone, search = full / 100, alone / flags.evaluations, search / flags.evaluations
    row = [graph.name[:32], graph.num_ops, graph.num_tensors, objective]
    return [*row, full * 1e6, alone * 1e6, search * 1e6, full / alone, full / search]


def full_costs(problem: PlacementProblem) -> Callable[[], object]:
    """Costs of 100 chromosomes on one core."""
    graph = columns.native_graph(problem.graph)
    genes = np.random.default_rng(0).random((100, problem.num_genes), np.float32)
    timed = problem.objective == "makespan"
    return lambda: batch.evaluate_batch(
        graph, genes, num_devices=problem.num_devices, with_makespan=timed, num_threads=1
    )


def descent(problem: PlacementProblem, flags, *, neighbours: int) -> Callable[[], object]:
    """As many evaluations of a descent, each call further down."""
    searcher = random_start(problem)
    tuning = (neighbours, ENDLESS, True)

    def run():
        stop = int(searcher.tally.spent[0]) + flags.evaluations
        searcher.tally.entries[0] = 0
        kernel.descend(*searcher, tuning, ENDLESS, stop)

    return run


def random_start(problem: PlacementProblem) -> Searcher:
    rng = np.random.default_rng(0)
    searcher = local_search_search.prepare(problem.graph, problem.platform, problem.objective, rng)
    placement = rng.integers(problem.num_devices, size=problem.graph.num_ops)
    local_search_search.put(searcher, (rules.random_order(problem.graph), placement))
    searcher.best.cost[0] = 0.0  # so that nothing is recorded
    return searcher


def check_walk(problem: PlacementProblem) -> None:
    """Random moves, one by one: the incremental cost is the full one."""
    searcher = random_start(problem)
    instance, state, scratch, _, tally = searcher
    for _ in range(20):
        kernel.shake(instance, state, scratch, tally, 1)
        schedule = rules.build_schedule(
            problem.graph,
            state.order,
            state.place,
            objective=problem.objective,
            num_devices=problem.num_devices,
        )
        full = problem.fitness(problem.encode(schedule)[None])[0]
        np.testing.assert_equal(state.cost[0], full)


if __name__ == "__main__":
    main()
