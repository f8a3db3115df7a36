"""The computation graph: ops, the tensors they produce and consume, and what each costs."""

import copy
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from regal_jax.errors import GraphError

MAX_INTEGER = 2**53
"""Integers above this are not exact in JSON readers (IEEE 754 doubles)."""


class RaggedRows(NamedTuple):
    """Rows of different lengths (CSR): row ``i`` is ``values[offsets[i]:offsets[i + 1]]``."""

    offsets: np.ndarray  # int64[rows + 1]
    values: np.ndarray  # int32[total]

    def row(self, index: int) -> np.ndarray:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def lists(self) -> list[list[int]]:
        """All rows, for loops in Python."""
        offsets, values = self.offsets.tolist(), self.values.tolist()
        return [values[first:last] for first, last in itertools.pairwise(offsets)]

    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def row_of_value(self) -> np.ndarray:
        """The row each value belongs to, int32[total]."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), self.lengths())

    def sums(self, numbers: np.ndarray) -> np.ndarray:
        """int64[rows]: the sum over each row of ``numbers``, int64 by value."""
        before = np.zeros(len(self.values) + 1, np.int64)
        np.cumsum(numbers[self.values], out=before[1:])
        return before[self.offsets[1:]] - before[self.offsets[:-1]]


def ragged_rows(rows: np.ndarray, values: np.ndarray, num_rows: int) -> RaggedRows:
    """Groups ``values`` by ``rows`` (both int[total]), keeping the order within a row."""
    order = np.argsort(rows, kind="stable")
    offsets = np.zeros(num_rows + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=num_rows), out=offsets[1:])
    return RaggedRows(offsets, np.ascontiguousarray(values[order], dtype=np.int32))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ComputationGraph:
    """A validated, immutable computation graph in columns (BUILD_NOTES.md, sections 3 and 5).

    O ops, T tensors, E (tensor, consumer) pairs. Make one with ``ComputationGraph.create`` or an
    importer; the constructor takes exact columns and validates them.

    Attributes:
      producer: int32[T], the op that makes the tensor, -1 if it exists before the first step.
      size: int64[T], bytes.
      persistent: bool[T], never freed on its home device.
      consumers: rows of distinct consumer ops, one row a tensor.
      duration: float64[O], microseconds.
      workspace: int64[O], bytes in use only while the op runs.
      machine_type: int32[O]; demand: int64[O]; capacity: int64[M] per machine type, or None
        (resource-constrained list scheduling).
      flops: float64[O] floating-point operations, bytes_accessed: int64[O] bytes read and written,
        of each op, or None where unknown: what durations are made of (``roofline``).
      op_names, op_kinds: one string an op, or empty tuples when unknown.
      extra: unknown keys of a file, kept: ``{"": {...}, "ops": {...}, "tensors": {...}}``.

    Raises:
      GraphError: for cycles, indices out of range, negative or non-finite numbers, columns of
        unequal length, integers over 2**53.
    """

    producer: np.ndarray
    size: np.ndarray
    persistent: np.ndarray
    consumers: RaggedRows
    duration: np.ndarray
    workspace: np.ndarray
    machine_type: np.ndarray
    demand: np.ndarray
    capacity: np.ndarray | None = None
    flops: np.ndarray | None = None
    bytes_accessed: np.ndarray | None = None
    op_names: tuple[str, ...] = ()
    op_kinds: tuple[str, ...] = ()
    name: str = ""
    family: str = ""
    source: str = ""
    extra: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        self._check()
        _check_acyclic(self)

    def _check(self) -> None:
        _check_columns(self)
        for value in (*(getattr(self, column) for column in _ARRAYS), *self.consumers):
            if value is not None:
                value.setflags(write=False)

    @classmethod
    def create(
        cls,
        *,
        producer: Sequence[int] | np.ndarray,
        size: Sequence[int] | np.ndarray,
        consumers: Sequence[Sequence[int]] | RaggedRows,
        num_ops: int,
        persistent: Sequence[bool] | np.ndarray | None = None,
        duration: Sequence[float] | np.ndarray | None = None,
        workspace: Sequence[int] | np.ndarray | None = None,
        machine_type: Sequence[int] | np.ndarray | None = None,
        demand: Sequence[int] | np.ndarray | None = None,
        capacity: Sequence[int] | np.ndarray | None = None,
        flops: Sequence[float] | np.ndarray | None = None,
        bytes_accessed: Sequence[int] | np.ndarray | None = None,
        **attributes: Any,
    ) -> "ComputationGraph":
        """Builds a graph from plain sequences, filling in the defaults of the file format.

        ``consumers`` is one sequence of op indices a tensor; repeats count once. Other keyword
        arguments are the attributes of the class. Raises GraphError.
        """
        num_tensors = len(producer)
        rows = consumers if isinstance(consumers, RaggedRows) else _rows_of_distinct(consumers)
        return cls(
            producer=integer_column("tensors.producer", producer, np.int32),
            size=integer_column("tensors.size", size, np.int64),
            persistent=_boolean_column(persistent, num_tensors),
            consumers=rows,
            duration=_float_column("ops.duration", duration, num_ops, 1.0),
            workspace=_optional_integers("ops.workspace", workspace, num_ops, 0, np.int64),
            machine_type=_optional_integers("ops.machine_type", machine_type, num_ops, 0, np.int32),
            demand=_optional_integers("ops.demand", demand, num_ops, 1, np.int64),
            capacity=_known("capacity", capacity, np.int64),
            flops=None if flops is None else _float_column("ops.flops", flops, num_ops, 0.0),
            bytes_accessed=_known("ops.bytes_accessed", bytes_accessed, np.int64),
            **attributes,
        )

    @property
    def num_ops(self) -> int:
        return len(self.duration)

    @property
    def num_tensors(self) -> int:
        return len(self.producer)

    @functools.cached_property
    def inputs(self) -> RaggedRows:
        """Rows of distinct tensors each op consumes."""
        return ragged_rows(self.consumers.values, self.consumers.row_of_value(), self.num_ops)

    @functools.cached_property
    def outputs(self) -> RaggedRows:
        """Rows of tensors each op produces."""
        produced = np.flatnonzero(self.producer >= 0)
        return ragged_rows(self.producer[produced], produced, self.num_ops)

    @functools.cached_property
    def edges(self) -> np.ndarray:
        """int32[E', 3]: (producer op, tensor, consumer op) for tensors that have a producer."""
        tensor = self.consumers.row_of_value()
        triples = np.stack([self.producer[tensor], tensor, self.consumers.values], axis=1)
        return np.ascontiguousarray(triples[triples[:, 0] >= 0])

    @functools.cached_property
    def op_pairs(self) -> np.ndarray:
        """int32[E'', 2]: distinct (producer op, consumer op) pairs, in lexicographic order."""
        return np.unique(self.edges[:, [0, 2]], axis=0)

    @functools.cached_property
    def topological_order(self) -> np.ndarray:
        """int32[O]: ops in an order that respects every edge, lowest index first where free."""
        if np.all(self.producer[self.consumers.row_of_value()] < self.consumers.values):
            return np.arange(self.num_ops, dtype=np.int32)
        return _kahn(self)

    @functools.cached_property
    def position(self) -> np.ndarray:
        """int64[O]: the place of each op in ``topological_order``."""
        return np.argsort(self.topological_order)

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything a schedule's cost depends on; names are not part of it."""
        digest = hashlib.sha256()
        for column in (*_COLUMNS, "consumers.offsets", "consumers.values"):
            value: Any = functools.reduce(getattr, column.split("."), self)
            digest.update(column.encode() + (b"-" if value is None else value.tobytes()))
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ComputationGraph):
            return NotImplemented
        attributes = ("name", "family", "source", "op_names", "op_kinds", "extra", "fingerprint")
        same = all(getattr(self, a) == getattr(other, a) for a in attributes)
        return same and all(_equal(getattr(self, a), getattr(other, a)) for a in _WORK)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"ComputationGraph({self.name!r}, ops={self.num_ops}, tensors={self.num_tensors})"

    def replace(self, **changes: Any) -> "ComputationGraph":
        """A copy with some columns or attributes changed, validated again."""
        keeps_ops = len(changes.get("duration", self.duration)) == self.num_ops
        known = {field.name for field in dataclasses.fields(self)}
        if not keeps_ops or not changes.keys() <= known - {"producer", "consumers"}:
            return dataclasses.replace(self, **changes)
        other = copy.copy(self)  # with all that is cached, which is of producers and consumers
        other.__dict__.pop("fingerprint", None)
        other.__dict__.update(changes)
        if not changes.keys() <= _TEXTS:
            other._check()
        return other

    def op_label(self, op: int) -> str:
        """A name to show a person: the op's name, else its kind and index."""
        if self.op_names and self.op_names[op]:
            return self.op_names[op]
        return f"{self.op_kinds[op]}_{op}" if self.op_kinds else f"op_{op}"

    def tensor_label(self, tensor: int) -> str:
        """A name to show a person: the tensor's name, else where it comes from."""
        names = self.extra.get("tensors", {}).get("name")
        if names and names[tensor]:
            return str(names[tensor])
        op = int(self.producer[tensor])
        return f"input_{tensor}" if op < 0 else f"{self.op_label(op)}:{tensor}"


_COLUMNS = (
    "producer",
    "size",
    "persistent",
    "duration",
    "workspace",
    "machine_type",
    "demand",
    "capacity",
)
_WORK = ("flops", "bytes_accessed")
_ARRAYS = (*_COLUMNS, *_WORK)
_TEXTS = frozenset(("name", "family", "source", "extra"))


def integer_column(field: str, values: Any, dtype: type) -> np.ndarray:
    """An integer array from a column; GraphError for anything that is not a whole number."""
    try:
        column = np.asarray(values)
    except ValueError:
        raise GraphError(field, "must be a flat column of integers") from None
    if column.size == 0 and column.ndim <= 1:
        return np.zeros(0, dtype)
    if column.ndim != 1:
        raise GraphError(field, "must be a flat column of integers")
    if isinstance(values, Sequence) and any(isinstance(v, bool | np.bool_) for v in values):
        raise GraphError(field, "holds a boolean where an integer is needed")
    if column.dtype.kind == "O" and all(isinstance(v, int) for v in values):
        raise GraphError(field, "holds an integer over 2**53")
    if column.dtype.kind not in "iu":
        raise GraphError(field, "must hold integers only")
    largest = max(int(column.max()), -int(column.min()))
    if largest > min(MAX_INTEGER, np.iinfo(dtype).max):
        raise GraphError(field, f"holds an integer out of range ({largest})")
    return np.array(column, dtype)


def _optional_integers(field: str, values: Any, length: int, default: int, dtype: type):
    if values is None:
        return np.full(length, default, dtype)
    return integer_column(field, values, dtype)


def _known(field: str, values: Any, dtype: type) -> np.ndarray | None:
    return None if values is None else integer_column(field, values, dtype)


def _equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _float_column(field: str, values: Any, length: int, default: float) -> np.ndarray:
    if values is None:
        return np.full(length, default, np.float64)
    if isinstance(values, Sequence) and any(isinstance(v, bool | str) for v in values):
        raise GraphError(field, "must hold numbers only")
    if isinstance(values, Sequence) and any(
        isinstance(v, int) and abs(v) > MAX_INTEGER for v in values
    ):
        raise GraphError(field, "holds an integer over 2**53")
    try:
        column = np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise GraphError(field, "must hold numbers only") from None
    if column.ndim != 1:
        raise GraphError(field, "must be a flat column of numbers")
    return column


def _boolean_column(values: Any, length: int) -> np.ndarray:
    if values is None:
        return np.zeros(length, bool)
    try:
        column = np.array(values)
    except ValueError:
        raise GraphError("tensors.persistent", "must hold booleans only") from None
    if column.size and (column.dtype != bool or column.ndim != 1):
        raise GraphError("tensors.persistent", "must hold booleans only")
    return column.astype(bool)


def _rows_of_distinct(consumers: Sequence[Sequence[int]]) -> RaggedRows:
    field = "tensors.consumers"
    if any(isinstance(row, str | Mapping) or not hasattr(row, "__len__") for row in consumers):
        raise GraphError(field, "must hold one list of op indices per tensor")
    integer_column(field, [op for row in consumers for op in row], np.int32)
    distinct = [list(dict.fromkeys(row)) for row in consumers]
    offsets = np.zeros(len(distinct) + 1, np.int64)
    np.cumsum([len(row) for row in distinct], out=offsets[1:])
    flat = [op for row in distinct for op in row]
    return RaggedRows(offsets, integer_column(field, flat, np.int32))


def _check_columns(graph: ComputationGraph) -> None:
    num_ops, num_tensors = graph.num_ops, graph.num_tensors
    for field in ("workspace", "machine_type", "demand", "op_names", "op_kinds", *_WORK):
        column = getattr(graph, field)
        absent = column is None or (field in ("op_names", "op_kinds") and not column)
        if not absent and len(column) != num_ops:
            key = {"op_names": "name", "op_kinds": "kind"}.get(field, field)
            raise GraphError(f"ops.{key}", f"has {len(column)} entries for {num_ops} ops")
    lengths = {
        "size": len(graph.size),
        "persistent": len(graph.persistent),
        "consumers": len(graph.consumers.offsets) - 1,
    }
    for field, length in lengths.items():
        if length != num_tensors:
            raise GraphError(f"tensors.{field}", f"has {length} entries for {num_tensors} tensors")
    _check_range("tensors.producer", graph.producer, -1, num_ops)
    _check_range("tensors.consumers", graph.consumers.values, 0, num_ops)
    for field in ("size", "workspace", "machine_type", "demand", "duration", *_WORK):
        table = "tensors" if field == "size" else "ops"
        if (column := getattr(graph, field)) is not None:
            _check_non_negative(f"{table}.{field}", column)
    if graph.capacity is not None:
        _check_non_negative("capacity", graph.capacity)
        _check_range("ops.machine_type", graph.machine_type, 0, len(graph.capacity))


def _check_range(field: str, values: np.ndarray, low: int, high: int) -> None:
    bad = np.flatnonzero((values < low) | (values >= high))
    if bad.size:
        value = int(values[bad[0]])
        raise GraphError(field, f"index {value} (entry {bad[0]}) is not in [{low}, {high})")


def _check_non_negative(field: str, values: np.ndarray) -> None:
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if bad.size:
        reason = "is not a finite number" if not np.isfinite(values[bad[0]]) else "is negative"
        raise GraphError(field, f"entry {bad[0]} ({values[bad[0]]}) {reason}")
    if values.size and values.dtype.kind == "i" and int(values.max()) > MAX_INTEGER:
        raise GraphError(field, "holds an integer over 2**53")


def _check_acyclic(graph: ComputationGraph) -> None:
    order = graph.topological_order
    if len(order) < graph.num_ops:
        stuck = np.setdiff1d(np.arange(graph.num_ops), order)
        raise GraphError("tensors.consumers", f"the ops form a cycle, for example op {stuck[0]}")


def _kahn(graph: ComputationGraph) -> np.ndarray:
    """Kahn's algorithm with a heap; stops short of O ops where there is a cycle."""
    import heapq

    successors = ragged_rows(graph.edges[:, 0], graph.edges[:, 2], graph.num_ops)
    missing = np.bincount(graph.edges[:, 2], minlength=graph.num_ops)
    ready = [int(op) for op in np.flatnonzero(missing == 0)]
    order = []
    while ready:
        op = heapq.heappop(ready)
        order.append(op)
        for successor in successors.row(op):
            missing[successor] -= 1
            if missing[successor] == 0:
                heapq.heappush(ready, int(successor))
    return np.array(order, np.int32)
