"""Sweeps on more workers: on the cores of this machine, and simulated beyond.

    python benchmarks/workers.py

The sweep is ``auto`` on graphs of the model zoo's test split, in this process and in others
(``--executor=processes:N``), which import the package and compile for themselves. The simulation
hands tasks to whoever is free, each worker after its start: tasks that take what those of the sweep
for docs/results/proofs.csv took. Rows go to docs/results/workers.csv, and
experiments/results_pages.py makes the table of them.
"""

import argparse
import time
from pathlib import Path

import instances

import regal_jax as rj
from regal_jax import datasets
from regal_jax.datasets.corpora import evenly_by_size
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import results
from regal_jax.studies import executors, keys
from regal_jax.studies.comparison import workers

LONG_SWEEP = Path(__file__).parents[1] / "docs/results/proofs.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=60)
    parser.add_argument("--evaluations", type=int, default=20_000)
    parser.add_argument("--simulated", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--path", default="docs/results/workers.csv")
    flags = parser.parse_args()
    zoo = [graph for graph in datasets.model_zoo(split="test") if graph.num_ops <= 1000]
    tasks = [(graph, flags.evaluations) for graph in evenly_by_size(zoo, flags.graphs)]
    cores = instances.cores()
    alone, took = sweep(executors.HERE, tasks)
    one, _ = sweep("processes:1", tasks)
    start = max(one - alone, 0.0)
    common = {"graph": f"{len(tasks)} searches", "seed": 0, "start": start}
    common |= {"tasks": len(tasks), "mean_seconds": sum(took) / len(tasks)}
    measured = {1: one} | {n: sweep(f"processes:{n}", tasks)[0] for n in range(2, cores + 1)}
    rows = [
        common | {"method": "measured", "workers": n, "value": alone / seconds}
        for n, seconds in measured.items()
    ]
    long = [row["value"] for row in results.read_results(LONG_SWEEP) if row["metric"] == "seconds"]
    common |= {"graph": "proofs.csv", "tasks": len(long), "mean_seconds": sum(long) / len(long)}
    rows += [
        common
        | {"method": "simulated", "workers": n, "value": sum(long) / workers.wall(long, n, start)}
        for n in flags.simulated
    ]
    about = {"flags": vars(flags), "machine": keys.machine(), "cores": cores}
    about["long sweep"] = LONG_SWEEP
    key = keys.key(graphs=[graph for graph, _ in tasks], **about)
    rows = [row | {"metric": workers.SPEEDUP, "key": key} for row in rows]
    results.write_results(flags.path, rows, workers.COLUMNS)
    print(workers.page(results.read_results(flags.path)))


def sweep(where: str, tasks: list[tuple[ComputationGraph, int]]) -> tuple[float, list[float]]:
    """Seconds of all, and of each."""
    begin = time.perf_counter()
    took = dict(executors.completed(where, seconds_of, tasks))
    return time.perf_counter() - begin, [took[number] for number in range(len(tasks))]


def seconds_of(graph: ComputationGraph, evaluations: int) -> float:
    """A search on two devices; one task."""
    begin = time.perf_counter()
    rj.optimize(graph, num_devices=2, evaluations=evaluations)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
