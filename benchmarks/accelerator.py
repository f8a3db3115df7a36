"""Evaluations a second of the vmapped pure-JAX cost, against all CPU cores' compiled kernel.

    python benchmarks/accelerator.py --batches 100 1000 10000 100000

Runs on JAX's default device: on a CPU it says how far the pure-JAX path is behind, on a GPU or TPU
how large a batch has to be to be ahead. --csv keeps the rows, which docs/results/speed.md shows.
"""

import argparse
import time

import instances
import jax
import numpy as np

from regal_jax.environments.placement import batch as placement_batch
from regal_jax.environments.placement import columns
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import results, tables
from regal_jax.reporting.results import Row
from regal_jax.studies import keys
from regal_jax.studies.compiler import evaluation_speed


def main() -> None:
    on_cpu = jax.default_backend() == "cpu"
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data_dir", help="folder of graph files instead of the model zoo")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500])
    batches = [10, 100] if on_cpu else [100, 1000, 10_000, 100_000]
    parser.add_argument("--batches", type=int, nargs="+", default=batches)
    parser.add_argument("--num_devices", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--csv", help="file that the rows are added to")
    flags = parser.parse_args()
    rows = [
        row
        for graph in instances.graphs_of_sizes(flags.data_dir, flags.sizes)
        for batch in flags.batches
        for row in measure(graph, batch, flags)
    ]
    if flags.csv:
        results.append_results(flags.csv, rows, evaluation_speed.COLUMNS)
    print(tables.text_table(evaluation_speed.table(rows)))


def measure(graph: ComputationGraph, batch: int, flags) -> list[Row]:
    num_devices = flags.num_devices
    problem = PlacementProblem(graph, num_devices, backend="jax")
    costs = jax.jit(problem.fitness)
    genes = np.random.default_rng(0).random((batch, problem.num_genes), np.float32)
    on_device = jax.device_put(genes)
    kernel = columns.native_graph(graph)

    def compiled():
        return placement_batch.evaluate_batch(kernel, genes, num_devices=num_devices)[0].max(axis=1)

    first, found = timed(lambda: jax.block_until_ready(costs(on_device)))
    difference = np.max(np.abs(np.asarray(found) / compiled() - 1))
    pure, native = (
        min(timed(run)[0] for _ in range(flags.repeats)) / batch * 1e6
        for run in (lambda: jax.block_until_ready(costs(on_device)), compiled)
    )
    common = {"graph": graph.name, "seed": 0, "ops": graph.num_ops, "batch": batch}
    common |= {"device": jax.devices()[0].device_kind, "cores": instances.cores()}
    settings = {"batch": batch, "num_devices": num_devices, "cores": instances.cores()}
    common["key"] = keys.key(graph=graph, settings=settings, machine=keys.machine())
    return [
        common | {"method": method, "metric": metric, "value": float(value)}
        for method, metric, value in (
            (evaluation_speed.PURE, evaluation_speed.MICROSECONDS, pure),
            (evaluation_speed.KERNEL, evaluation_speed.MICROSECONDS, native),
            (evaluation_speed.PURE, "first_seconds", first),
            (evaluation_speed.PURE, "difference", difference),
        )
    ]


def timed(run):
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
