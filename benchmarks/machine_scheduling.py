"""Schedules a second of machine problems: the compiled kernel against plain C++, in one run.

    python benchmarks/machine_scheduling.py

Columns: schedules a second on one core (batch of 100, best of several), and how many times slower
the peers and the other generations are. All results are compared for equality before they are
timed. The graphs: layered ones on three machine types of capacities 1, 1 and 4, with whole
durations; and unions of small graphs on one type of 6,000 units, as of TPC-H's queries, with
demands of 1 to 593.
"""

import argparse
import ctypes
from collections.abc import Callable
from pathlib import Path

import instances
import jax
import numpy as np
from timing import compiled_library, fastest, on_device

from regal_jax.datasets.layered import layered_graph
from regal_jax.environments.rcpsp import batch, kernel
from regal_jax.environments.rcpsp.columns import MachineColumns, machine_columns
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.graphs.computation_graph import ComputationGraph

SOURCE = Path(__file__).with_name("plain_machine_scheduling.cpp")


def main() -> None:
    flags = parser().parse_args()
    library = compiled_library(SOURCE)
    print(f"{instances.machine()}; batch {flags.batch}")
    header = ["graph", "ops", "schedules/s", "us", "C++ / kernel", "in jit / kernel"]
    header += ["serial / kernel", "speedup of all cores"]
    graphs = [make(size) for make in (three_types, queries) for size in flags.sizes]
    instances.print_table(header, [measure(graph, library, flags) for graph in graphs])


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 5000])
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--csv", help="file that the ratios are added to")
    return parser


def three_types(num_ops: int) -> ComputationGraph:
    """A layered graph on machine types of capacities 1, 1 and 4, loaded about alike."""
    rng = np.random.default_rng(num_ops)
    return layered_graph(num_ops, num_ops).replace(
        machine_type=rng.choice(3, num_ops, p=[1 / 6, 1 / 6, 2 / 3]).astype(np.int32),
        capacity=np.array([1, 1, 4]),
        duration=rng.integers(1, 200, num_ops).astype(np.float64),
    )


def queries(num_ops: int) -> ComputationGraph:
    """Graphs of 2 to 18 ops, side by side on one machine type, one op waiting for some before."""
    rng = np.random.default_rng(num_ops)
    consumers: list[list[int]] = []
    while len(consumers) < num_ops:
        first, count = len(consumers), min(int(rng.integers(2, 19)), num_ops - len(consumers))
        for op in range(count):
            later = np.arange(op + 1, count)
            consumers.append((first + later[rng.random(len(later)) < 2 / count]).tolist())
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=np.zeros(num_ops, np.int64),
        consumers=consumers,
        demand=rng.integers(1, 594, num_ops),
        capacity=[6000],
        duration=rng.uniform(1, 10_000, num_ops),
        name=f"queries {num_ops}",
    )


def measure(graph: ComputationGraph, library, flags) -> list[object]:
    seconds = times(graph, library, flags)
    ratio = {name: value / seconds["kernel"] for name, value in seconds.items()}
    if "cpp" in ratio:
        peer = {"plain C++": ratio["cpp"]}
        instances.keep("schedule on machine types", graph, peer, flags)
    return [
        graph.name,
        graph.num_ops,
        round(flags.batch / seconds["kernel"]),
        seconds["kernel"] / flags.batch * 1e6,
        ratio.get("cpp", "-"),
        ratio["jit"],
        ratio["serial"],
        1 / ratio["all"],
    ]


def times(graph: ComputationGraph, library, flags) -> dict[str, float]:
    """Seconds that a batch takes the kernel, and each peer: the same makespans, compared first."""
    problem, columns = MachineProblem(graph), machine_columns(graph)
    rng = np.random.default_rng(0)
    genes = rng.random((flags.batch, graph.num_ops), np.float32)
    makespan = problem.makespans(genes)
    contenders = {
        "kernel": _kernel(columns, genes, kernel.PARALLEL),
        "serial": _kernel(columns, genes, kernel.SERIAL),
        "all": lambda: problem.makespans(genes),
        "jit": on_device(jax.jit(problem.fitness).lower(genes).compile(), genes),
    }
    np.testing.assert_array_equal(contenders["kernel"](), makespan)
    np.testing.assert_array_equal(contenders["jit"](), makespan.astype(np.float32))
    if library is not None:
        contenders["cpp"] = plain_scheduler(library, columns, genes)
        np.testing.assert_array_equal(contenders["cpp"](), makespan)
    return fastest(contenders, flags.repeats, slow=("serial",))


def _kernel(columns: MachineColumns, genes: np.ndarray, generation: int) -> Callable:
    packed = batch.pack(columns)
    return lambda: batch.evaluate_batch(columns, packed, genes, generation, num_threads=1)[0]


def plain_scheduler(library, columns: MachineColumns, genes: np.ndarray) -> Callable:
    """A call of the C++ list scheduler; its arrays live as long as the closure."""
    arrays = [columns.duration, columns.demand, columns.capacity, columns.machine]
    arrays += [columns.num_dependencies, columns.successor_offsets, columns.successors, genes]
    makespans = np.empty(len(genes))
    arguments = [ctypes.c_int64(len(columns.duration)), ctypes.c_int64(len(columns.capacity))]
    arguments += [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    arguments += [ctypes.c_int64(len(genes)), ctypes.c_void_p(makespans.ctypes.data)]

    def run(keep=arrays):
        library.plain_machine_scheduling(*arguments)
        return makespans

    return run


if __name__ == "__main__":
    main()
