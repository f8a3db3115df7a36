"""Computation graphs on three machine types, of one-shot priority sampling.

Jeon et al. 2023, "Neural DAG Scheduling via One-Shot Priority Sampling", appendix C.3: random
graphs of three families, and real graphs under the same machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from regal_jax.datasets.layered import (
    MIXTURE_DEVIATIONS,
    MIXTURE_MEANS,
    MIXTURE_WEIGHTS,
    layered_graph,
)
from regal_jax.datasets.task_graphs import numbered_graphs, seed_label, task_graph
from regal_jax.errors import GraphError, OptionError
from regal_jax.graphs import random_graphs
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.kind_groups import GROUPS, group_of
from regal_jax.graphs.random_graphs import random_dag

CAPACITY = (1, 1, 4)
"""Units of each machine type, lambda; ops are of type j with probability lambda(j) / 6 (eq. 18)."""

EDGE_PROBABILITY = 0.05
"""Erdos-Renyi, p."""

COMMUNITIES, PROBABILITY_INSIDE, PROBABILITY_BETWEEN = 4, 0.3, 0.001
"""Stochastic block model, k, p_in and p_out."""

COUNTS: Mapping[str, int] = MappingProxyType({"train": 3000, "valid": 300, "test": 300})
"""Graphs of each split; the paper has no validation graphs."""


def machine_graph(family: str, seed: int | Sequence[int], num_ops: int = 1000) -> ComputationGraph:
    """One random graph; the same arguments give the same graph.

    Durations are round(100 m) + 1, with m of each op from the mixture of four Gaussians, projected
    on the non-negative numbers: max(m, 0). Demands are 1. Deviation: C.3 gives the means and
    deviations of the mixture without its weights; these are those of the paper that it takes the
    means from (Gagrani et al. 2022, eq. 16: 0.3, 0.3, 0.3, 0.1).

    Args:
      family: "layered" (``datasets.layered``, default parameters); "erdos_renyi" and
        "stochastic_block_model", made DAGs as REGAL does, along a random order of the ops (REGAL's
        source and sink aren't added: they would take no time).
      seed: an int or several, as of ``numpy.random.default_rng``.

    Raises:
      OptionError: for an unknown family, or too few ops for it.
    """
    if family not in FAMILIES:
        raise OptionError(f"family {family!r} is none of {', '.join(FAMILIES)}")
    least = COMMUNITIES if family == "stochastic_block_model" else 1
    if num_ops < least:
        raise OptionError(f"num_ops is {num_ops}: a graph of family {family} needs {least}")
    edges = FAMILIES[family](seed, num_ops)
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])  # apart from the edges'
    share = np.array(CAPACITY) / sum(CAPACITY)
    return task_graph(
        edges,
        _durations(rng, num_ops),
        machine_type=rng.choice(len(CAPACITY), size=num_ops, p=share),
        capacity=CAPACITY,
        name=f"{family} {num_ops} {seed_label(seed)}",
        family=family,
        source="synthetic",
    )


def machine_graphs(
    family: str, split: str, num_ops: int = 1000, count: int | None = None
) -> Iterator[ComputationGraph]:
    """The graphs of a split, one after the other; splits have no random stream in common.

    Args:
      split: train, valid or test.
      count: how many; None is as in the paper, 3,000 to train and 300 for each of the others. A
        smaller count gives the first of them.

    Raises:
      OptionError: for an unknown family or split, or a negative count.
    """
    if family not in FAMILIES:
        raise OptionError(f"family {family!r} is none of {', '.join(FAMILIES)}")
    return numbered_graphs(lambda seed: machine_graph(family, seed, num_ops), COUNTS, split, count)


def zoo_machine_graph(graph: ComputationGraph) -> ComputationGraph:
    """A real graph on the same three machine types, by ``machine_type_of`` each op's kind.

    As on a chip with one matrix unit, one data mover and four vector units. Demands are 1; all
    else, durations (us) and sizes included, stays. The paper's real graphs and their machine types
    are not public: this is ours.

    Raises:
      GraphError: for a graph that doesn't tell the kinds of its ops.
    """
    if not graph.op_kinds:
        raise GraphError("ops.kind", "is needed: an op's machine type goes by its kind")
    type_of = {kind: machine_type_of(kind) for kind in set(graph.op_kinds)}
    return graph.replace(
        machine_type=np.array([type_of[kind] for kind in graph.op_kinds], np.int32),
        demand=np.ones(graph.num_ops, np.int64),
        capacity=np.array(CAPACITY, np.int64),
    )


def machine_type_of(kind: str) -> int:
    """The machine type of a kind of op of any importer, by what ``kind_groups`` says that it does.

    | type | units | group | kinds, for example |
    |---|---|---|---|
    | 0 | 1 | matrix, convolution | dot_general, conv_general_dilated, mm, Gemm, attention, LSTM |
    | 1 | 1 | data movement | transpose, reshape, slice, gather, scatter, cat, pad, clone, cast |
    | 2 | 4 | all others | elementwise, normalisation, reduction, pooling, fusion, random |
    """
    return _TYPE_OF_GROUP.get(GROUPS[group_of(kind)], 2)


_TYPE_OF_GROUP: Mapping[str, int] = MappingProxyType({"matrix, convolution": 0, "data movement": 1})


def _durations(rng: np.random.Generator, count: int) -> np.ndarray:
    """float64[count]: whole numbers from 1 on (C.3)."""
    component = rng.choice(len(MIXTURE_WEIGHTS), size=count, p=MIXTURE_WEIGHTS)
    memory = rng.normal(MIXTURE_MEANS[component], MIXTURE_DEVIATIONS[component])
    return np.rint(100 * np.maximum(memory, 0)) + 1


FAMILIES: Mapping[str, random_graphs.Edges] = MappingProxyType(
    {
        "layered": lambda seed, num_ops: layered_graph(seed, num_ops).op_pairs,
        "erdos_renyi": random_dag(random_graphs.erdos_renyi, EDGE_PROBABILITY),
        "stochastic_block_model": random_dag(
            random_graphs.stochastic_block_model,
            COMMUNITIES,
            PROBABILITY_INSIDE,
            PROBABILITY_BETWEEN,
        ),
    }
)
"""By the name of a family."""
