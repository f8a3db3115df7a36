"""Searches over orders on one device: states a second, and seconds by the width of the beam.

    python benchmarks/approximate_dp.py

The graph is a layered one (neural_topological_ordering). Columns: the peak found, in MB; seconds;
thousands of states expanded a second. The approximate dynamic programme, beam search with random
priorities, and ten seconds of depth-first dynamic programming. Compilation is not timed.
"""

import argparse
import time

import instances
import numpy as np

from regal_jax.datasets import layered
from regal_jax.search.orders import dynamic_programming


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--num_ops", type=int, default=500)
    parser.add_argument("--widths", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    flags = parser.parse_args()
    graph = layered.layered_graph(0, flags.num_ops)
    priorities = np.random.default_rng(0).normal(size=graph.num_ops)
    print(f"{instances.machine()}; {graph.num_ops} ops, {len(graph.edges)} edges")
    compile_all(graph, priorities)
    rows = [
        measure(name, graph, values, width, threads)
        for name, values in [("approximate DP", None), ("beam search", priorities)]
        for width in flags.widths
        for threads in flags.threads
    ]
    rows.append(depth_first(graph, 10.0))
    instances.print_table(["search", "width", "threads", "peak MB", "s", "1000 states/s"], rows)


def compile_all(graph, priorities) -> None:
    dynamic_programming.beam_search(graph, width=2)
    dynamic_programming.beam_search(graph, width=2, priorities=priorities)
    dynamic_programming.depth_first_dp(graph, deadline=0.0)


def measure(name: str, graph, priorities, width: int, threads: int) -> list[object]:
    start = time.perf_counter()
    result = dynamic_programming.beam_search(
        graph, width=width, priorities=priorities, num_threads=threads
    )
    seconds = time.perf_counter() - start
    rate = result.states / seconds / 1e3
    return [name, width, threads, result.peak / 1e6, seconds, rate]


def depth_first(graph, seconds: float) -> list[object]:
    deadline = time.perf_counter() + seconds
    result = dynamic_programming.depth_first_dp(graph, deadline=deadline)
    return ["depth first", "", 1, result.peak / 1e6, seconds, result.states / seconds / 1e3]


if __name__ == "__main__":
    main()
