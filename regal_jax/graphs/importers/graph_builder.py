"""A program written down op by op, in program order, and turned into a ComputationGraph.

Shared by the importers of programs (JAX, ONNX): contraction of zero-copy ops is theirs (they pass
the base tensor's number), removal of dead code and the body estimates are done here.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.roofline import A100, DeviceProfile, with_profile


@dataclasses.dataclass
class TensorDraft:
    """A tensor being written down. ``required``: kept even where no live op reads it.

    ``role``: parameter, state, input, gradient, output, or nothing for the rest and the unknown.
    """

    size: int  # bytes
    producer: int = -1
    persistent: bool = False
    required: bool = False
    name: str = ""
    role: str = ""


class OpDraft(NamedTuple):
    """An op being written down; ``required`` ops have effects and are never dead.

    Its label is ``name``, or else made of ``scope``, its kind and its final index. ``phase``:
    forward, backward, update (of parameters), or nothing where unknown.
    """

    kind: str
    name: str
    scope: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flops: float
    workspace: int  # bytes
    required: bool
    bytes_accessed: int | None  # None: its distinct inputs and its outputs, once each
    phase: str


@dataclasses.dataclass
class GraphBuilder:
    """Tensors and ops in program order: every op reads only tensors that exist already."""

    tensors: list[TensorDraft] = dataclasses.field(default_factory=list)
    ops: list[OpDraft] = dataclasses.field(default_factory=list)

    def add_parameter(
        self,
        size: int,
        *,
        name: str = "",
        persistent: bool = True,
        required: bool = False,
        role: str = "",
    ) -> int:
        """A tensor that exists before the first step; returns its number. ``size`` in bytes."""
        self.tensors.append(TensorDraft(size, -1, persistent, required, name, role))
        return len(self.tensors) - 1

    def add_op(
        self,
        kind: str,
        inputs: Iterable[int],
        output_sizes: Sequence[int],
        *,
        name: str = "",
        scope: str = "",
        flops: float = 0,
        workspace: int = 0,
        required: bool = False,
        bytes_accessed: int | None = None,
        phase: str = "",
        output_names: Sequence[str] = (),
    ) -> tuple[int, ...]:
        """An op and the tensors it makes, whose numbers are returned. Sizes in bytes."""
        first = len(self.tensors)
        names = output_names or [""] * len(output_sizes)
        for size, tensor_name in zip(output_sizes, names, strict=True):
            self.tensors.append(TensorDraft(size, len(self.ops), name=tensor_name))
        outputs = tuple(range(first, len(self.tensors)))
        distinct = tuple(dict.fromkeys(inputs))
        costs = flops, workspace, required, bytes_accessed
        self.ops.append(OpDraft(kind, name, scope, distinct, outputs, *costs, phase))
        return outputs

    def add_control(self, op: int) -> int:
        """A further output of an op, of size 0, that makes later ops wait for it."""
        self.tensors.append(TensorDraft(0, op))
        tensor = len(self.tensors) - 1
        self.ops[op] = self.ops[op]._replace(outputs=(*self.ops[op].outputs, tensor))
        return tensor

    def bytes_accessed(self, op: OpDraft) -> int:
        """What the op says, or else the bytes of its distinct inputs and of its outputs."""
        if op.bytes_accessed is not None:
            return op.bytes_accessed
        return sum(self.tensors[tensor].size for tensor in (*op.inputs, *op.outputs))

    def prune(self, results: Iterable[int]) -> "GraphBuilder":
        """A builder without dead code: ops that lead to no result and have no effects.

        Results become persistent. Parameters that nothing reads are dropped unless required.
        """
        results = set(results)
        live_ops = self._live_ops(results)
        used = set(results)
        for index in live_ops:
            used.update(self.ops[index].inputs, self.ops[index].outputs)
        kept = [t for t, draft in enumerate(self.tensors) if t in used or draft.required]
        return self._select(live_ops, kept, results)

    def total_flops(self) -> float:
        return sum(op.flops for op in self.ops)

    def body_workspace(self) -> int:
        """Peak bytes of intermediates in program order, beyond parameters and results.

        The estimate of what a loop body or branch needs while it runs as one op; prune first.
        """
        last_reader = {tensor: i for i, op in enumerate(self.ops) for tensor in op.inputs}
        live = peak = 0
        for index, op in enumerate(self.ops):
            live += self._intermediate_bytes(op.outputs)
            peak = max(peak, live + op.workspace)
            unread = [t for t in op.outputs if t not in last_reader]
            finished = [t for t in op.inputs if last_reader[t] == index]
            live -= self._intermediate_bytes([*unread, *finished])
        return peak

    def build(self, profile: DeviceProfile = A100, **attributes: Any) -> ComputationGraph:
        """The graph of everything written down; durations by the roofline of ``profile``.

        ``attributes`` go to ComputationGraph.create (name, source, extra); names, roles and phases
        are added to ``extra``. Raises GraphError.
        """
        extra = {**attributes.pop("extra", {}), **self._labels()}
        consumers: list[list[int]] = [[] for _ in self.tensors]
        for index, op in enumerate(self.ops):
            for tensor in op.inputs:
                consumers[tensor].append(index)
        graph = ComputationGraph.create(
            producer=[tensor.producer for tensor in self.tensors],
            size=[tensor.size for tensor in self.tensors],
            persistent=[tensor.persistent for tensor in self.tensors],
            consumers=consumers,
            num_ops=len(self.ops),
            flops=[op.flops for op in self.ops],
            bytes_accessed=[self.bytes_accessed(op) for op in self.ops],
            workspace=[op.workspace for op in self.ops],
            op_names=tuple(_label(op, index) for index, op in enumerate(self.ops)),
            op_kinds=tuple(op.kind for op in self.ops),
            extra=extra,
            **attributes,
        )
        return with_profile(graph, profile)

    def without_idle_tokens(self) -> "GraphBuilder":
        """A builder without the tensors of size 0 that nothing reads."""
        read = {tensor for op in self.ops for tensor in op.inputs}
        kept = [t for t, draft in enumerate(self.tensors) if draft.size or t in read]
        return self._select(list(range(len(self.ops))), kept, set())

    def _labels(self) -> dict[str, dict[str, list[str]]]:
        """The columns of ``ComputationGraph.extra``: known names, roles and phases."""
        columns = {
            ("tensors", "name"): [tensor.name for tensor in self.tensors],
            ("tensors", "role"): [tensor.role for tensor in self.tensors],
            ("ops", "phase"): [op.phase for op in self.ops],
        }
        labels: dict[str, dict[str, list[str]]] = {}
        for (table, column), values in columns.items():
            if any(values):
                labels.setdefault(table, {})[column] = values
        return labels

    def _live_ops(self, results: set[int]) -> list[int]:
        needed, live = set(results), []
        for index in range(len(self.ops) - 1, -1, -1):
            op = self.ops[index]
            if op.required or not needed.isdisjoint(op.outputs):
                live.append(index)
                needed.update(op.inputs)
        return live[::-1]

    def _select(self, ops: list[int], tensors: list[int], results: set[int]) -> "GraphBuilder":
        new_op = {old: new for new, old in enumerate([-1, *ops], -1)}
        new_tensor = {old: new for new, old in enumerate(tensors)}  # of those that are kept
        drafts = [
            dataclasses.replace(
                self.tensors[old],
                producer=new_op[self.tensors[old].producer],
                persistent=self.tensors[old].persistent or old in results,
            )
            for old in tensors
        ]
        kept_ops = [self.ops[index] for index in ops]
        renumbered = [
            op._replace(
                inputs=tuple(new_tensor[t] for t in op.inputs),
                outputs=tuple(new_tensor[t] for t in op.outputs if t in new_tensor),
            )
            for op in kept_ops
        ]
        return GraphBuilder(drafts, renumbered)

    def _intermediate_bytes(self, tensors: Iterable[int]) -> int:
        drafts = [self.tensors[tensor] for tensor in tensors]
        return sum(draft.size for draft in drafts if not draft.persistent and draft.producer >= 0)


def _label(op: OpDraft, index: int) -> str:
    return op.name or "/".join(part for part in (op.scope, f"{op.kind}_{index}") if part)
