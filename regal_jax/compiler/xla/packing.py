"""Where XLA's buffer assignment puts buffers: an estimate of the bytes that it allocates.

Largest first, a buffer is put into an output's memory if nothing lies there at its steps: where it
can take an operand's, or else the smallest that it fits into
(``BufferAssigner::AssignBuffersForComputations``). There a copy can't take its operand's
(``MaybeAssignBuffer``). The rest share a heap: each goes, in one of two orders, to the smallest gap
between those that are in use with it (``GlobalDecreasingSizeBestFitHeap``); the better heap counts.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.compiler.xla.buffers import Allocation, Buffer, taken_over

ALIGNMENT = 64
"""Bytes that buffers in a heap are rounded up to on CPUs."""


def temporary_bytes(allocation: Allocation) -> int:
    """Bytes of XLA's temporary allocations (``temp_size_in_bytes``), estimated."""
    spans = [
        Span(group[0].first, group[-1].last, group[0].num_bytes)
        for group in taken_over(_outside_outputs(allocation.parts))
        if group[0].num_bytes
    ]
    return heap(spans).num_bytes


class Span(NamedTuple):
    """Memory that is in use between two steps, included."""

    first: int
    last: int
    num_bytes: int


class Heap(NamedTuple):
    """Where each span begins, int64[N], and the bytes of all."""

    starts: np.ndarray
    num_bytes: int


def heap(spans: Sequence[Span]) -> Heap:
    """Spans in one heap: the better of two orders."""
    return min((_heap(spans, order) for order in (_by_size, _by_duration)), key=lambda h: h[1])


def _outside_outputs(parts: Iterable[Buffer]) -> list[Buffer]:
    """The temporary buffers that find no place in an output's memory."""
    hosts: list[list[Buffer]] = []
    left = []
    assigned = (part for part in parts if part.kind in ("output", "temporary"))
    for buffer in sorted(assigned, key=lambda part: (-part.num_bytes, part.kind != "output")):
        if buffer.kind == "output":
            hosts.append([buffer, *([buffer.donor] if buffer.donor else [])])
            continue
        taken = [inside for inside in hosts if any(part in buffer.takes for part in inside)]
        tried = (*taken, *reversed(hosts))
        free = (inside for inside in tried if not any(_meet(buffer, part) for part in inside))
        host = next(free, None)
        if host is None:
            left.append(buffer)
        else:
            host.append(buffer)
    return left


def _meet(a: Buffer, b: Buffer) -> bool:
    """Whether two buffers can't lie in the same memory."""
    if a in b.takes:
        return b.is_copy
    if b in a.takes:
        return a.is_copy
    return a.first <= b.last and b.first <= a.last


def _by_size(span: Span) -> tuple[int, int, int]:
    return -span.num_bytes, span.first - span.last, span.first


def _by_duration(span: Span) -> tuple[int, int, int]:
    return span.first - span.last, -span.num_bytes, span.first


def _heap(spans: Sequence[Span], order: Callable[[Span], tuple[int, int, int]]) -> Heap:
    rank = sorted(range(len(spans)), key=lambda index: order(spans[index]))
    first, last, size = np.array([spans[index] for index in rank], np.int64).reshape(-1, 3).T
    size = -(-size // ALIGNMENT) * ALIGNMENT
    start = np.zeros(len(rank), np.int64)
    for i in range(len(rank)):
        placed = np.flatnonzero((first[:i] <= last[i]) & (first[i] <= last[:i]))
        start[i] = _best_fit(start[placed], size[placed], int(size[i]))
    starts = np.zeros(len(rank), np.int64)
    starts[rank] = start
    return Heap(starts, int((start + size).max(initial=0)))


def _best_fit(start: np.ndarray, size: np.ndarray, wanted: int) -> int:
    """The start of the smallest gap that is large enough, or the end of what is there."""
    order = np.argsort(start, kind="stable")
    ends = np.concatenate([[0], np.maximum.accumulate((start + size)[order])])
    gaps = start[order] - ends[:-1]
    fits = np.flatnonzero(gaps >= wanted)
    return int(ends[fits[np.argmin(gaps[fits])]] if len(fits) else ends[-1])
