"""How far schedules go: a train step in ever more microbatches, up to 100,000 ops.

    python benchmarks/large_graphs.py [--replicas=1,4,40] [--seconds=60]

``auto`` within ``--seconds`` beside depth-first order, a method each process: the fullest device
over depth-first's and over the lower bound, seconds to read the graph, to schedule (compilation
apart) and to check, and the most memory that the process had.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import regal_jax as rj
from regal_jax import datasets
from regal_jax.graphs.rewrites.microbatches import microbatches
from regal_jax.reporting.tables import text_table
from regal_jax.studies.compiler.side_by_side import in_process

METHODS = ("depth_first", "auto")

OPS = 2500
"""Of the graph, about."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--replicas", default="1,4,40")
    parser.add_argument("--devices", default="1,2")
    parser.add_argument("--seconds", type=float, default=60.0)
    flags = parser.parse_args()
    zoo = [graph for graph in datasets.model_zoo(split="test") if "training" in graph.name]
    graph = min(zoo, key=lambda graph: abs(graph.num_ops - OPS))
    print(f"{graph.name} in {flags.replicas} microbatches")
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, flags.replicas.split(",")):
            path = Path(folder) / f"{count}.json"
            rj.save_graph(microbatches(graph, count), path)
            for devices in map(int, flags.devices.split(",")):
                found = {
                    method: in_process(measured, path, devices, method, flags.seconds)
                    for method in METHODS
                }
                lines.append(line_of(count * graph.num_ops, devices, found))
    print(text_table(lines))


def measured(path: Path, devices: int, method: str, seconds: float) -> dict:
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
        "bytes": max(schedule.peak_memory),
        "gap": schedule.gap,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def line_of(ops: int, devices: int, found: dict[str, dict]) -> dict[str, str]:
    """A row of the table."""
    simple, ours = (found[method] for method in METHODS)
    return {
        "ops": f"{ops:,}",
        "devices": str(devices),
        "over depth first": f"{ours['bytes'] / simple['bytes']:.3f}",
        "over the bound": f"{1 + ours['gap']:.3f}",
        "s to read": f"{ours['read']:.1f}",
        "to schedule": f"{ours['scheduled']:.1f}",
        "(depth first)": f"{simple['scheduled']:.1f}",
        "to check": f"{ours['checked']:.1f}",
        "GiB": f"{ours['gib']:.2f}",
    }


if __name__ == "__main__":
    main()
