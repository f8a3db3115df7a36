"""Synthetic graphs of robust scheduling with GFlowNets: five families of random graphs.

Zhang et al. 2023, "Robust Scheduling with GFlowNets", appendix E.5: the random graphs of REGAL
(Paliwal et al. 2020, A.1.4; parameters in ``datasets.synthetic``) and the layered graphs of neural
topological ordering (``datasets.layered``), with run times U(0, 1).
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from regal_jax.datasets import machine_graphs, task_graphs
from regal_jax.datasets.layered import layered_graph
from regal_jax.datasets.synthetic import RegalSyntheticConfig
from regal_jax.errors import OptionError
from regal_jax.graphs import random_graphs
from regal_jax.graphs.computation_graph import ComputationGraph

TRAINING_FAMILIES = ("erdos_renyi", "layered")

COUNTS: Mapping[str, int] = MappingProxyType({"train": 1000, "valid": 50, "test": 50})
"""Graphs of each split; the paper has no validation graphs."""

_REGAL = RegalSyntheticConfig()


def makespan_graph(family: str, seed: int | Sequence[int], num_ops: int = 50) -> ComputationGraph:
    """One random graph; the same arguments give the same graph.

    Edges of undirected models point from the earlier to the later op of a random order. REGAL's
    source and sink, which take no time, aren't added. Durations are U(0, 1), in us.

    The paper's graphs have no tensors. Ours have one an op, which all its successors read, so that
    transfers can be given times (``environments.targets``): in layered graphs of its recipe's size,
    in others of REGAL's (normal, of mean 50 and deviation 10, at least 1 byte).

    Args:
      family: one of ``FAMILIES``.
      seed: an int or several, as of ``numpy.random.default_rng``.

    Raises:
      OptionError: for an unknown family, or too few ops for it.
    """
    if family not in FAMILIES:
        raise OptionError(f"family {family!r} is none of {', '.join(FAMILIES)}")
    least = _LEAST_OPS.get(family, 1)
    if num_ops < least:
        raise OptionError(f"num_ops is {num_ops}: a graph of family {family} needs {least}")
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])  # apart from the edges'
    graph = task_graphs.task_graph(
        FAMILIES[family](seed, num_ops),
        rng.random(num_ops),
        name=f"{family} {num_ops} {task_graphs.seed_label(seed)}",
        family=family,
        source="synthetic",
    )
    return graph.replace(size=_sizes(rng, family, seed, num_ops))


def makespan_graphs(
    split: str, count: int | None = None, num_ops: int = 50
) -> Iterator[ComputationGraph]:
    """The graphs of a split, one after the other; splits have no random stream in common.

    Families take turns: Erdos-Renyi and layered to train and to validate, so that validation
    doesn't see the families that are new at test time; all five to test. Work over the critical
    path is at least 3 (E.6) but for some layered graphs; none is left out.

    Args:
      split: train, valid or test.
      count: how many; None is ``COUNTS``, as in the paper. A smaller count gives the first.

    Raises:
      OptionError: for an unknown split, a negative count, or too few ops.
    """
    families = tuple(FAMILIES) if split == "test" else TRAINING_FAMILIES
    return task_graphs.numbered_graphs(
        lambda seed: makespan_graph(families[seed[1] % len(families)], seed, num_ops),
        COUNTS,
        split,
        count,
    )


def _sizes(
    rng: np.random.Generator, family: str, seed: int | Sequence[int], num_ops: int
) -> np.ndarray:
    """int64[O], bytes."""
    if family == "layered":
        return layered_graph(seed, num_ops).size
    drawn = rng.normal(_REGAL.mean_size, _REGAL.deviation_size, num_ops)
    return np.maximum(np.rint(drawn), 1).astype(np.int64)


FAMILIES: Mapping[str, random_graphs.Edges] = MappingProxyType(
    {
        "erdos_renyi": machine_graphs.FAMILIES["erdos_renyi"],
        "layered": machine_graphs.FAMILIES["layered"],
        "stochastic_block_model": machine_graphs.FAMILIES["stochastic_block_model"],
        "watts_strogatz": random_graphs.random_dag(
            random_graphs.watts_strogatz, _REGAL.ws_neighbours, _REGAL.ws_probability
        ),
        "barabasi_albert": random_graphs.random_dag(
            random_graphs.barabasi_albert, _REGAL.ba_attachments
        ),
    }
)
"""By the name of a family."""

_LEAST_OPS: Mapping[str, int] = MappingProxyType(
    {
        "stochastic_block_model": machine_graphs.COMMUNITIES,
        "watts_strogatz": _REGAL.ws_neighbours,
        "barabasi_albert": _REGAL.ba_attachments + 1,
    }
)
