"""REGAL's synthetic graphs: a random graph made a DAG, with random sizes and run times.

The released graphs are not public; this follows what is known of their recipe. Each parameter of
``RegalSyntheticConfig`` is marked with its source: [R] the README of REGAL's repository; [S] the
later papers that use the set; [T] TrafPy, a re-implementation; [M] the appendix of the ICLR 2020
paper from memory; [?] open, chosen here.

Deviations: two models of run times, since the released example contradicts the recipe; source and
sink aren't counted among the 50 to 200 nodes; graphs aren't filtered by what BRKGA gains on them,
whose limits aren't published.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs import random_graphs
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.topology_hash import topology_hash

MODELS = ("erdos_renyi", "barabasi_albert", "watts_strogatz", "stochastic_block_model")
"""The random-graph models [S], drawn with equal probability."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegalSyntheticConfig:
    """The parameters of the recipe.

    Attributes:
      min_nodes, max_nodes: node count, uniform, both ends included [M], source and sink not
        counted [?].
      er_probability: of each edge, Erdos-Renyi [S, T, M].
      ba_attachments: edges of each new node, Barabasi-Albert [M].
      ws_neighbours, ws_probability: nearest neighbours and rewiring, Watts-Strogatz [M].
      sbm_blocks, sbm_inside, sbm_between: blocks and edge probabilities [S, M].
      control_probability: of an edge to be a control dependency, 0.1 [M]; 0.2 in [T].
      mean_size, deviation_size: of the normal distribution of tensor sizes [M, T], bytes-like
        units; rounded, and at least 1.
      run_time: what the duration of an op is proportional to (source and sink: 0 [T]):
        "inputs_and_outputs", the sum of the sizes of its data tensors [T, M]; or "outputs", the
        size of its output, which is what the example of [R] looks like.
      deviation_run_time: of the normal factor ``1 + r``, 0.1 [T, M]; 0.2 in a later TrafPy. The
        product is rounded, as costs are integers in [R], and at least 0; microseconds-like units.
    """

    min_nodes: int = 50
    max_nodes: int = 200
    er_probability: float = 0.05
    ba_attachments: int = 2
    ws_neighbours: int = 4
    ws_probability: float = 0.3
    sbm_blocks: int = 4
    sbm_inside: float = 0.3
    sbm_between: float = 0.001
    control_probability: float = 0.1
    mean_size: float = 50.0
    deviation_size: float = 10.0
    run_time: Literal["inputs_and_outputs", "outputs"] = "inputs_and_outputs"
    deviation_run_time: float = 0.1

    def __post_init__(self):
        least = max(self.ba_attachments + 1, self.ws_neighbours, self.sbm_blocks)
        if not least <= self.min_nodes <= self.max_nodes:
            raise OptionError(f"needs {least} <= min_nodes <= max_nodes for these graph models")
        if self.run_time not in ("inputs_and_outputs", "outputs"):
            raise OptionError(f"run_time is {self.run_time!r}: inputs_and_outputs or outputs")


def regal_synthetic(
    seed: int | Sequence[int], *, config: RegalSyntheticConfig | None = None
) -> ComputationGraph:
    """One random graph of REGAL's recipe; the same seed gives the same graph.

    Op 0 is the source and the last op the sink. An op with data successors has one output tensor,
    consumed by them all (as in the example of [R]: one ``output_info`` a node); one with control
    successors has one tensor of size 0 that they consume [S]. All edges of the source are control
    (in the example it has no output); those of the sink are data or control like any other [?].
    Nothing is persistent. The name is ``graph_`` and the topology hash [R]; ``family`` is
    ``regal_synthetic``; ``source`` tells the seed and the random-graph model.
    """
    config = config or RegalSyntheticConfig()
    rng = np.random.default_rng(seed)
    num_nodes = int(rng.integers(config.min_nodes, config.max_nodes + 1))
    model = MODELS[rng.integers(len(MODELS))]
    edges = random_graphs.orient(rng, _undirected(rng, model, num_nodes, config), num_nodes)
    edges = random_graphs.add_source_and_sink(edges, num_nodes)
    control = (rng.random(len(edges)) < config.control_probability) | (edges[:, 0] == 0)
    graph = _with_costs(rng, _topology(edges, control, num_nodes + 2), config)
    return graph.replace(
        name=f"graph_{topology_hash(graph)}",
        family="regal_synthetic",
        source=f"seed {seed}, {model}",
    )


def regal_synthetic_dataset(
    seed: int, count: int, *, config: RegalSyntheticConfig | None = None
) -> Iterator[ComputationGraph]:
    """``count`` graphs of different topologies [R], of seeds ``(seed, 0)``, ``(seed, 1)``, ...

    A graph whose topology came before is left out. The released set was also filtered by what
    BRKGA could improve [R], with limits that are not given; that is not done here. Never ends if
    the configuration has fewer topologies than asked for.
    """
    seen: set[str] = set()
    for index in itertools.count():
        if len(seen) >= count:
            return
        graph = regal_synthetic((seed, index), config=config)
        if graph.name not in seen:
            seen.add(graph.name)
            yield graph


def _undirected(
    rng: np.random.Generator, model: str, num_nodes: int, config: RegalSyntheticConfig
) -> np.ndarray:
    """int32[E, 2]: the edges of a random graph of the model."""
    arguments: dict[str, tuple] = {
        "erdos_renyi": (config.er_probability,),
        "barabasi_albert": (config.ba_attachments,),
        "watts_strogatz": (config.ws_neighbours, config.ws_probability),
        "stochastic_block_model": (config.sbm_blocks, config.sbm_inside, config.sbm_between),
    }
    return getattr(random_graphs, model)(rng, num_nodes, *arguments[model])


def _topology(edges: np.ndarray, control: np.ndarray, num_ops: int) -> ComputationGraph:
    """The graph with a data and a control tensor (size 1 and 0) an op, as far as it needs them."""
    kind = 2 * edges[:, 0] + control  # one number for each (producer, data or control)
    kinds, tensor_of = np.unique(kind, return_inverse=True)
    consumers: list[list[int]] = [[] for _ in kinds]
    for tensor, consumer in zip(tensor_of, edges[:, 1].tolist(), strict=True):
        consumers[tensor].append(consumer)
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=(kinds // 2).astype(np.int64),
        size=(1 - kinds % 2).astype(np.int64),
        consumers=consumers,
    )


def _with_costs(
    rng: np.random.Generator, graph: ComputationGraph, config: RegalSyntheticConfig
) -> ComputationGraph:
    """Draws the sizes of data tensors, then the durations of all ops but source and sink."""
    drawn = rng.normal(config.mean_size, config.deviation_size, graph.num_tensors)
    size = np.where(graph.size > 0, np.maximum(np.rint(drawn), 1), 0).astype(np.int64)
    factor = np.maximum(1 + rng.normal(0.0, config.deviation_run_time, graph.num_ops), 0)
    duration = np.rint(_moved(graph.replace(size=size), config.run_time) * factor)
    duration[[0, -1]] = 0.0
    return graph.replace(size=size, duration=duration)


def _moved(graph: ComputationGraph, run_time: str) -> np.ndarray:
    """float64[O]: the bytes each op writes, and reads if the run-time model counts them."""
    written = np.bincount(graph.producer, graph.size, graph.num_ops)
    if run_time == "outputs":
        return written
    read_size = graph.size[graph.consumers.row_of_value()]
    return written + np.bincount(graph.consumers.values, read_size, graph.num_ops)
