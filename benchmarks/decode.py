"""Evaluations a second: the compiled kernel against plain C++ and pure JAX, in one run.

    python benchmarks/decode.py

Columns: microseconds an evaluation (batch of 100, best of several) of the kernel on one core, and
how many times slower its peers are. All results are compared for equality before they are timed.
"""

import argparse
import ctypes
from collections.abc import Callable
from pathlib import Path

import instances
import jax
import numpy as np
from timing import compiled_library, fastest, on_device

from regal_jax.environments.placement import batch
from regal_jax.environments.placement import columns as placement_columns
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native import threads

SOURCE = Path(__file__).with_name("plain_decode.cpp")
PEERS = {"cpp": "plain C++", "jax": "pure JAX"}
"""Of those that are timed, the ones that are kept, and their names there."""


def main() -> None:
    flags = parser().parse_args()
    library = compiled_library(SOURCE)
    graphs = instances.graphs_of_sizes(flags.data_dir, flags.sizes)
    print(f"{instances.machine()}; batch {flags.batch}, {flags.num_devices} devices")
    header = ["graph", "ops", "tensors", "kernel us", "C++ us", "C++ / kernel"]
    header += ["in jit / kernel", "JAX / kernel", "speedup of all cores"]
    rows = [measure(graph, library, flags) for graph in graphs]
    instances.print_table(header, rows)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data_dir", help="folder of graph files instead of the model zoo")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500, 1000, 2000])
    parser.add_argument("--num_devices", type=int, default=2)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--jax_largest", type=int, default=1200, help="ops; pure JAX up to here")
    parser.add_argument("--csv", help="file that the ratios are added to")
    return parser


def measure(graph: ComputationGraph, library, flags) -> list[object]:
    seconds = times(graph, library, flags)
    ratio = {name: value / seconds["kernel"] for name, value in seconds.items()}
    known = {name: ratio[peer] for peer, name in PEERS.items() if peer in ratio}
    instances.keep("cost of a chromosome", graph, known, flags)
    microseconds = {name: value / flags.batch * 1e6 for name, value in seconds.items()}
    return [
        graph.name[:32],
        graph.num_ops,
        graph.num_tensors,
        microseconds["kernel"],
        microseconds.get("cpp", "-"),
        ratio.get("cpp", "-"),
        ratio["jit"],
        ratio.get("jax", "-"),
        1 / ratio["all"],
    ]


def times(graph: ComputationGraph, library, flags) -> dict[str, float]:
    """Seconds that a batch takes the kernel, and each peer: the same costs, compared first."""
    num_devices = flags.num_devices
    kernel = placement_columns.native_graph(graph)
    problem = PlacementProblem(graph, num_devices, backend="native")
    rng = np.random.default_rng(0)
    genes = rng.random((flags.batch, problem.num_genes), np.float32)

    def one_core():
        return batch.evaluate_batch(kernel, genes, num_devices=num_devices, num_threads=1)[0]

    def all_cores():
        cores = threads.num_cores()
        return batch.evaluate_batch(kernel, genes, num_devices=num_devices, num_threads=cores)[0]

    peak = one_core()
    contenders: dict[str, Callable] = {"kernel": one_core, "all": all_cores}
    contenders["jit"] = jax.jit(problem.fitness).lower(genes).compile()
    contenders["jit"] = on_device(contenders["jit"], genes)
    np.testing.assert_array_equal(contenders["jit"](), peak.max(axis=1).astype(np.float32))
    if library is not None:
        contenders["cpp"] = plain_decoder(library, graph, genes, num_devices)
        np.testing.assert_array_equal(contenders["cpp"](), peak)
    if graph.num_ops <= flags.jax_largest:
        contenders["jax"] = pure_jax(graph, genes, num_devices, peak)
    return fastest(contenders, flags.repeats, slow=("jax",))


def pure_jax(graph, genes, num_devices, peak) -> Callable:
    """The vmapped pure-JAX cost; compared within float32 rounding of sums of bytes."""
    costs = jax.jit(PlacementProblem(graph, num_devices, backend="jax").fitness)
    genes = jax.device_put(genes)
    np.testing.assert_allclose(costs(genes), peak.max(axis=1), rtol=1e-3)
    return on_device(costs, genes)


def plain_decoder(library, graph, genes, num_devices) -> Callable:
    """A call of the C++ decode; its arrays live as long as the closure."""
    columns = [graph.producer, graph.size, graph.persistent, *graph.consumers]
    columns += [*graph.inputs, *graph.outputs, graph.workspace, genes]
    columns = [np.ascontiguousarray(column) for column in columns]
    counts = [graph.num_ops, graph.num_tensors, num_devices]
    peaks = np.empty((len(genes), num_devices), np.int64)
    arguments = [ctypes.c_int64(count) for count in counts]
    arguments += [ctypes.c_void_p(column.ctypes.data) for column in columns]
    arguments += [ctypes.c_int64(len(genes)), ctypes.c_void_p(peaks.ctypes.data)]

    def run(keep=columns):
        library.plain_decode(*arguments)
        return peaks

    return run


if __name__ == "__main__":
    main()
