"""Seconds of Topoformer's encoder and greedy decoder, and their ratio to approximate DP's.

  python benchmarks/topoformer.py --nodes=500,1000,2000

Layered graphs; the second call of each size, so without compilation. "growth" is the exponent of
the seconds in the number of nodes.
"""

import time

import jax
import numpy as np
from absl import app, flags

from regal_jax.datasets.layered import layered_graph
from regal_jax.methods import ordering, topoformer
from regal_jax.options import Budget
from regal_jax.policies.topological_order.policy import OrderingConfig, ordering_policy
from regal_jax.reporting import tables
from regal_jax.search.orders import dynamic_programming
from regal_jax.studies import flags as config_flags
from regal_jax.training.ordering_inputs import ordering_inputs

_NODES = flags.DEFINE_list("nodes", ["500", "1000", "2000", "5000"], "Sizes.")
_WIDTH = flags.DEFINE_integer("dp_width", 1000, "K of approximate DP; 0 leaves it out.")
config_flags.define(OrderingConfig(), flags.FLAGS)


def main(_) -> None:
    config = config_flags.read(OrderingConfig(), flags.FLAGS)
    small = layered_graph(0, 20)
    params = ordering_policy(config).init(jax.random.key(0), ordering_inputs(small, config))
    lines, before = [], None
    for nodes in map(int, _NODES.value):
        graph = layered_graph(0, nodes)
        encode = seconds(lambda graph=graph: topoformer.op_priorities(params, config, graph))
        priorities = topoformer.op_priorities(params, config, graph)
        budget = Budget(ordering.SAMPLES)
        line = {"nodes": nodes, "encoder": f"{encode:.3f}"}
        if before:
            line["growth"] = f"{np.log(encode / before[1]) / np.log(nodes / before[0]):.2f}"
        before = (nodes, encode)
        for name, decode in topoformer.DECODINGS.items():
            took = seconds(lambda d=decode, g=graph, p=priorities, b=budget: d(g, p, b))
            line[name] = f"{took:.4f}"
        if _WIDTH.value:
            took = seconds(
                lambda g=graph: dynamic_programming.beam_search(g, width=_WIDTH.value), calls=1
            )
            line["encoder + greedy over approximate DP"] = (
                f"{(encode + float(line['greedy'])) / took:.3g}"
            )
        lines.append(line)
    print(tables.text_table(lines, list(lines[-1])))


def seconds(run, calls: int = 2) -> float:
    """Of the last call."""
    for _ in range(calls):
        begin = time.perf_counter()
        run()
        took = time.perf_counter() - begin
    return took


if __name__ == "__main__":
    app.run(main)
