"""How far schedules go: train steps of 100 ops and more, and one in ever more microbatches.

    python benchmarks/large_graphs.py [--sizes=2500] [--replicas=4,40,80] [--seconds=60]

``auto`` within ``--seconds`` beside depth-first order, a method each process: the fullest device
over depth-first's and over the lower bound, seconds to read the graph, to schedule (compilation
apart) and to check, and the most memory that the process had. With ``--csv`` these are rows of it,
and experiments/results_pages.py makes the table.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import regal_jax as rj
from regal_jax import datasets
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.microbatches import microbatches
from regal_jax.reporting import results
from regal_jax.reporting.results import Row
from regal_jax.studies import keys
from regal_jax.studies.comparison import growth
from regal_jax.studies.compiler.side_by_side import in_process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="100,300,1000,2500", help="ops, about, of whole graphs")
    parser.add_argument("--replicas", default="4,40,80", help="microbatches of the last one")
    parser.add_argument("--devices", default="1,2")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--csv", help="file that the rows are added to")
    flags = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for graph in graphs(_numbers(flags.sizes), _numbers(flags.replicas)):
            path = Path(folder) / "graph.json"
            rj.save_graph(graph, path)
            for devices in _numbers(flags.devices):
                made = measure(graph, path, devices, flags.seconds)
                rows += made
                if flags.csv:
                    results.append_results(flags.csv, made, growth.COLUMNS)
    print(growth.page(rows))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def graphs(sizes: list[int], replicas: list[int]) -> Iterator[ComputationGraph]:
    """Train steps of the test split of about these sizes, and the last in microbatches."""
    zoo = [graph for graph in datasets.model_zoo(split="test") if "training" in graph.name]
    chosen = [min(zoo, key=lambda graph: abs(graph.num_ops - size)) for size in sizes]
    yield from chosen
    for count in replicas:
        yield microbatches(chosen[-1], count)


def measure(graph: ComputationGraph, path: Path, devices: int, seconds: float) -> list[Row]:
    """Rows of both methods."""
    found = {
        method: in_process(measured, path, devices, method, seconds) for method in growth.METHODS
    }
    settings = [devices, seconds, growth.METHODS]
    key = keys.key(graph=graph, settings=settings, machine=keys.machine())
    common = {"graph": graph.name, "seed": 0, "ops": graph.num_ops, "devices": devices}
    common |= {"time_limit": seconds, "key": key}
    return [
        common | {"method": method, "metric": metric, "value": value}
        for method, values in found.items()
        for metric, value in values.items()
    ]


def measured(path: Path, devices: int, method: str, seconds: float) -> dict[str, float]:
    """Bytes, seconds and memory of one method on one graph; for a process of its own."""
    begin = time.perf_counter()
    graph = rj.load_graph(path)
    read = time.perf_counter()
    limit = {"time_limit": seconds} if method == "auto" else {}
    schedule = rj.optimize(graph, num_devices=devices, method=method, **limit)
    made = time.perf_counter()
    rj.evaluate(graph, schedule)
    return {
        "read": read - begin,
        "scheduled": schedule.seconds,
        "checked": time.perf_counter() - made,
        "bytes": float(max(schedule.peak_memory)),
        "bound": float(schedule.lower_bound),
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


if __name__ == "__main__":
    main()
