"""BRKGA end to end against pymoo's BRKGA, and what a search costs in all.

    python benchmarks/brkga.py

Both searches have the same population parameters, number of evaluations and compiled fitness, the
fitness on one core. Every measurement of time to first result runs in a process of its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time

import contenders
import instances
import jax
import numpy as np

from regal_jax.environments.placement import batch, columns
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.evolution import brkga

CONFIG = brkga.BRKGAConfig()


def main() -> None:
    flags = parse_flags()
    if flags.first_call:
        print(json.dumps(first_call(flags)))
        return
    print(instances.machine())
    graph = instances.graphs_of_sizes(flags.data_dir, [flags.ops])[0]
    print(f"\n{flags.evaluations} evaluations, {graph.name}, {graph.num_ops} ops, 2 devices")
    against_pymoo(graph, flags)
    print("\nTime to a first result in a new process (compilation, and the search)")
    processes(flags)


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data_dir", help="folder of graph files instead of the model zoo")
    parser.add_argument("--ops", type=int, default=560)
    parser.add_argument("--evaluations", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--csv", help="file that the ratios are added to")
    parser.add_argument("--first_call", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cache_dir", help=argparse.SUPPRESS)
    return parser.parse_args()


def jitted_search(problem: PlacementProblem, evaluations: int):
    """key -> history; the whole search is one program."""

    def search(key):
        mutants = brkga.uniform_mutants(problem.num_genes)
        return brkga.search(key, problem.fitness, mutants, evaluations).history

    return jax.jit(search)


def timed(run, *arguments):
    start = time.perf_counter()
    result = jax.block_until_ready(run(*arguments))
    return time.perf_counter() - start, result


def against_pymoo(graph: ComputationGraph, flags) -> None:
    problem = PlacementProblem(graph, backend="native")
    search = jitted_search(problem, flags.evaluations)
    first, _ = timed(search, jax.random.key(0))
    ours, theirs = [], []
    for seed in range(flags.seeds):
        seconds, history = timed(search, jax.random.key(seed))
        ours.append((seconds, float(history[-1])))
        theirs.append(timed(pymoo_search, graph, problem, flags.evaluations, seed))
    rows = []
    for name, runs in (("regal_jax", ours), ("pymoo", theirs)):
        seconds, costs = np.array(runs).T
        rows.append([name, seconds.min(), costs.mean() / problem.lower_bound])
        rows[-1].insert(2, rows[-1][1] / rows[0][1])
    instances.keep(f"BRKGA, {flags.evaluations:,} evaluations", graph, {"pymoo": rows[1][2]}, flags)
    alone = fitness_seconds(graph, problem, flags.evaluations)
    rows.append(["fitness alone", alone, alone / rows[0][1], "-"])
    instances.print_table(["search", "seconds", "x regal_jax", "mean cost / bound"], rows)
    print(f"first call of the jitted search: {first:.2f} s")


def pymoo_search(graph, problem: PlacementProblem, evaluations: int, seed: int) -> float:
    """The best cost of pymoo's BRKGA after the same number of evaluations, rounded up."""
    kernel = columns.native_graph(graph)

    def costs(genes: np.ndarray) -> np.ndarray:
        return batch.evaluate_batch(kernel, genes, num_devices=2, num_threads=1)[0].max(axis=1)

    termination = ("n_eval", evaluations)
    return contenders.minimise_by_pymoo(costs, problem.num_genes, termination, seed)


def fitness_seconds(graph, problem: PlacementProblem, evaluations: int) -> float:
    """Of evaluating as many random chromosomes in batches of a generation, on one core."""
    kernel = columns.native_graph(graph)
    rng = np.random.default_rng(0)
    genes = rng.random((CONFIG.newcomers, problem.num_genes), np.float32)
    start = time.perf_counter()
    for _ in range(evaluations // CONFIG.newcomers):
        batch.evaluate_batch(kernel, genes, num_devices=2, num_threads=1)
    return time.perf_counter() - start


def peak_rss() -> float:
    """MiB, of this process so far (Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def first_call(flags) -> dict[str, float]:
    """In a new process: seconds of the first and the second call, and peak memory."""
    if flags.cache_dir:
        jax.config.update("jax_compilation_cache_dir", flags.cache_dir)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    graph = instances.graphs_of_sizes(flags.data_dir, [flags.ops])[0]
    search = jitted_search(PlacementProblem(graph, backend="native"), flags.evaluations)
    first, _ = timed(search, jax.random.key(0))
    second, _ = timed(search, jax.random.key(1))
    return {"first": first, "second": second, "rss": peak_rss()}


def processes(flags) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, cache in (("no cache", None), ("fills the cache", folder), ("cached", folder)):
            command = [sys.executable, __file__, "--first_call", "--ops", str(flags.ops)]
            command += ["--evaluations", str(flags.evaluations)]
            command += ["--data_dir", flags.data_dir] if flags.data_dir else []
            command += ["--cache_dir", cache] if cache else []
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = json.loads(output)
            rows.append([name, found["first"], found["second"], found["first"] / found["second"]])
            rows[-1].append(found["rss"])
    header = ["process", "first call s", "second call s", "first / second", "peak RSS MiB"]
    instances.print_table(header, rows)


if __name__ == "__main__":
    main()
