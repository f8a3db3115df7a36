"""Colours of ops in pictures of schedules: by kind, or by job."""

from typing import NamedTuple

import numpy as np

from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import figures

SHOWN_KINDS = 9
OTHER = "other kinds"


class OpColors(NamedTuple):
    """The colour of each label, in the order of the legend, and the label of each op, object[O]."""

    color: dict[str, str]
    label: np.ndarray


def by_kind_or_job(graph: ComputationGraph) -> OpColors:
    """By kind where the graph knows several, else by job where it has several."""
    if len(set(graph.op_kinds)) > 1:
        return by_kind(graph)
    job = _jobs(graph)
    return by_job(job) if job.max(initial=0) > 0 else by_kind(graph)


def by_kind(graph: ComputationGraph) -> OpColors:
    """Kinds by their total time, most first; those past the first nine are "other"."""
    kinds = np.array(graph.op_kinds or ["op"] * graph.num_ops, dtype=object)
    total: dict[str, float] = {}
    for kind, duration in zip(kinds.tolist(), graph.duration.tolist(), strict=True):
        total[kind] = total.get(kind, 0.0) + duration
    ranked = sorted(total, key=lambda kind: (-total[kind], kind))
    color = dict(zip(ranked[:SHOWN_KINDS], figures.SERIES, strict=False))
    label = np.array([kind if kind in color else OTHER for kind in kinds], dtype=object)
    return OpColors(color | ({OTHER: figures.GREY} if len(ranked) > SHOWN_KINDS else {}), label)


def by_job(job: np.ndarray) -> OpColors:
    """By number of job int[O]; many jobs share the colours in turn."""
    num_jobs, cycle = int(job.max()) + 1, len(figures.SERIES)
    tail = f", {{}}{', …' if num_jobs > 2 * cycle else ''}"
    names = [
        f"job {first}" + (tail.format(first + cycle) if first + cycle < num_jobs else "")
        for first in range(min(num_jobs, cycle))
    ]
    color = dict(zip(names, figures.SERIES, strict=False))
    return OpColors(color, np.array(names, dtype=object)[job % cycle])


def _jobs(graph: ComputationGraph) -> np.ndarray:
    """int[O]: which job an op belongs to, a part of the graph that waits for no other; numbered by
    their first ops."""
    label = precedence.connected_components(graph)
    _, first, numbered = np.unique(label, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbered]
