"""Evaluations a second of the vmapped pure-JAX cost, against all CPU cores' compiled kernel.

    python benchmarks/accelerator.py --batches 100 1000 10000 100000

Runs on JAX's default device: on a CPU it says how far the pure-JAX path is behind, on a GPU or TPU
how large a batch has to be to be ahead.
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


def main() -> None:
    on_cpu = jax.default_backend() == "cpu"
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data_dir", help="folder of graph files instead of the model zoo")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500])
    batches = [10, 100] if on_cpu else [100, 1000, 10_000, 100_000]
    parser.add_argument("--batches", type=int, nargs="+", default=batches)
    parser.add_argument("--num_devices", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    flags = parser.parse_args()
    device = jax.devices()[0]
    print(f"{instances.machine()}; JAX on {device.device_kind} ({device.platform})")
    header = ["graph", "ops", "batch", "JAX us/eval", "CPU kernel us/eval", "JAX / CPU speed"]
    rows = []
    for graph in instances.graphs_of_sizes(flags.data_dir, flags.sizes):
        rows += [measure(graph, batch, flags) for batch in flags.batches]
    instances.print_table([*header, "first call s", "largest difference"], rows)


def measure(graph: ComputationGraph, batch: int, flags) -> list[object]:
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
    pure, native_seconds = (
        min(timed(run)[0] for _ in range(flags.repeats))
        for run in (lambda: jax.block_until_ready(costs(on_device)), compiled)
    )
    microseconds = [pure / batch * 1e6, native_seconds / batch * 1e6]
    speed = native_seconds / pure
    name = graph.name[:32]
    return [name, graph.num_ops, batch, *microseconds, speed, first, float(difference)]


def timed(run):
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
