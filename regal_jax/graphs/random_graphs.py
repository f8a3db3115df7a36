"""Random graphs as edge lists, from a numpy Generator: undirected models, and DAGs made of them.

The four undirected models are networkx's. ``layered`` is a plain generator for tests and examples;
it is not the one of neural_topological_ordering.
"""

from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np

Edges = Callable[[int | Sequence[int], int], np.ndarray]
"""(seed, number of nodes) -> int32[E, 2], the edges of a DAG."""


def erdos_renyi(rng: np.random.Generator, num_nodes: int, probability: float) -> np.ndarray:
    """int32[E, 2]: every pair of nodes is an edge with the given probability."""
    return _edges(nx.fast_gnp_random_graph(num_nodes, probability, seed=_seed(rng)))


def barabasi_albert(rng: np.random.Generator, num_nodes: int, attachments: int) -> np.ndarray:
    """int32[E, 2]: each new node attaches to earlier ones, in proportion to their degrees.

    Starts from a star of ``attachments + 1`` nodes; needs ``1 <= attachments < num_nodes``.
    """
    return _edges(nx.barabasi_albert_graph(num_nodes, attachments, seed=_seed(rng)))


def watts_strogatz(
    rng: np.random.Generator, num_nodes: int, neighbours: int, probability: float
) -> np.ndarray:
    """int32[E, 2]: a ring of nodes joined to the nearest ``neighbours``, then edges are rewired.

    Args:
      neighbours: the nearest nodes each is joined to, half on either side (rounded down).
      probability: of each edge to have its far end moved to a random node.
    """
    return _edges(nx.watts_strogatz_graph(num_nodes, neighbours, probability, seed=_seed(rng)))


def stochastic_block_model(
    rng: np.random.Generator,
    num_nodes: int,
    num_blocks: int,
    probability_inside: float,
    probability_between: float,
) -> np.ndarray:
    """int32[E, 2]: equal blocks (sizes differ by at most one), dense inside, sparse between."""
    sizes = [len(block) for block in np.array_split(np.arange(num_nodes), num_blocks)]
    density = np.full((num_blocks, num_blocks), probability_between)
    np.fill_diagonal(density, probability_inside)
    return _edges(nx.stochastic_block_model(sizes, density.tolist(), seed=_seed(rng)))


def orient(rng: np.random.Generator, undirected_edges: np.ndarray, num_nodes: int) -> np.ndarray:
    """int32[E, 2]: directs each edge from the earlier to the later node of a random ordering."""
    position = rng.permutation(num_nodes)
    first, second = np.asarray(undirected_edges, np.int32).reshape(-1, 2).T
    forward = position[first] < position[second]
    directed = np.stack([np.where(forward, first, second), np.where(forward, second, first)], 1)
    return np.unique(directed, axis=0)


def random_dag(model: Callable[..., np.ndarray], *parameters: float) -> Edges:
    """The edges of a model's graphs with these parameters, directed by ``orient``."""

    def edges(seed: int | Sequence[int], num_nodes: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return orient(rng, model(rng, num_nodes, *parameters), num_nodes)

    return edges


def layered(
    rng: np.random.Generator,
    num_nodes: int,
    width: int,
    *,
    density: float = 0.3,
    skip_probability: float = 0.01,
) -> np.ndarray:
    """int32[E, 2]: a DAG in layers, edges from lower to higher node numbers.

    Node ``v`` is in layer ``v // width``. Each node past the first layer has at least one
    predecessor in the layer before it.

    Args:
      num_nodes: nodes in all.
      width: nodes a layer (the last may have fewer).
      density: probability of each possible edge between adjacent layers.
      skip_probability: probability of each possible edge that skips one layer or more.
    """
    layer = np.arange(num_nodes) // width
    gap = layer[None, :] - layer[:, None]
    probability = np.select([gap == 1, gap > 1], [density, skip_probability], 0.0)
    adjacent = rng.random((num_nodes, num_nodes)) < probability
    later = np.arange(width, num_nodes)
    chosen = (layer[later] - 1) * width + rng.integers(width, size=len(later))
    orphans = ~np.any(adjacent & (gap == 1), axis=0)[later]
    adjacent[chosen[orphans], later[orphans]] = True
    return np.argwhere(adjacent).astype(np.int32)


def add_source_and_sink(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    """int32[E', 2]: the DAG with a source (node 0) and a sink (node ``num_nodes + 1``) added.

    Node ``v`` becomes ``v + 1``. The source precedes every node without predecessors; the sink
    follows every node without successors.
    """
    edges = np.asarray(edges, np.int32).reshape(-1, 2) + 1
    nodes = np.arange(1, num_nodes + 1, dtype=np.int32)
    first, last = np.setdiff1d(nodes, edges[:, 1]), np.setdiff1d(nodes, edges[:, 0])
    from_source = np.stack([np.zeros_like(first), first], axis=1)
    to_sink = np.stack([last, np.full_like(last, num_nodes + 1)], axis=1)
    return np.concatenate([from_source, edges, to_sink])


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**32))


def _edges(graph: nx.Graph) -> np.ndarray:
    return np.array(graph.edges, np.int32).reshape(-1, 2)
