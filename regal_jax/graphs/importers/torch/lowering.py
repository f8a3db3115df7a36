"""A recorded PyTorch program as a computation graph.

- A tensor is a storage. Calls that only look at one (views) have vanished already.
- A call in place makes a new version of its storage: a tensor of size 0, which later readers read
  together with the storage itself; earlier readers come before the call, by control tensors of
  size 0. So a storage is in memory from the call that makes it to the last use of any version.
- Dead code is dropped: calls that lead to no result and change nothing that outlives the program
  (in-place updates of scalars outside of it, such as batch counters, don't count).
- Constants are folded: calls on constants alone, deterministic and never changed by other calls,
  become constants that exist from the start. ``ones_like`` and its kind look at no data: they are
  calls without inputs, not constants.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import torch

from regal_jax.graphs.importers.graph_builder import GraphBuilder
from regal_jax.graphs.importers.torch.flops import call_bytes, call_flops
from regal_jax.graphs.importers.torch.recording import Call, TensorView


@dataclasses.dataclass(frozen=True)
class TorchProgram:
    """A recorded program.

    Attributes:
      calls: in program order; after ``simplified``, one an op of the graph.
      num_bytes: per storage.
      names: what exists before the first call, by storage: parameters, state and inputs.
      roles: "parameter", "state", "input", "gradient" or "output", by storage. Gradients and
        outputs are the program's results.
      results: the views that the program returns, in order.
      constants: storages made by folded calls, with these calls.
    """

    calls: tuple[Call, ...]
    num_bytes: tuple[int, ...]
    names: Mapping[int, str]
    roles: Mapping[int, str]
    results: tuple[TensorView, ...]
    constants: tuple[Call, ...] = ()


def simplified(program: TorchProgram) -> TorchProgram:
    """The program without dead code and with constants folded."""
    live = _live_calls(program)
    varying = _varying_storages(program, live)
    depends = [not varying.isdisjoint((*call.makes, *call.writes)) for call in live]
    kept = tuple(call for call, needed in zip(live, depends, strict=True) if needed)
    folded = tuple(call for call, needed in zip(live, depends, strict=True) if not needed)
    return dataclasses.replace(program, calls=kept, constants=folded)


def lower(program: TorchProgram) -> GraphBuilder:
    """The program, simplified before, in a builder."""
    lowering = _Lowering(program)
    for storage in _initial_storages(program):
        lowering.add_initial(storage)
    for call in program.calls:
        lowering.add_call(call)
    return lowering.finished()


@dataclasses.dataclass
class _Version:
    """Where a storage stands: its tensor, the token of its last change, and who read it since."""

    tensor: int
    token: int | None = None
    readers: list[int] = dataclasses.field(default_factory=list)

    def tensors(self) -> list[int]:
        return [self.tensor] if self.token is None else [self.tensor, self.token]


class _Lowering:
    """A program being written into a builder."""

    def __init__(self, program: TorchProgram):
        self.program = program
        self.builder = GraphBuilder()
        self.versions: dict[int, _Version] = {}
        self.controls: dict[int, int] = {}

    def add_initial(self, storage: int) -> None:
        size, name = self.program.num_bytes[storage], self.program.names.get(storage, "")
        self.versions[storage] = _Version(self.builder.add_parameter(size, name=name))

    def add_call(self, call: Call) -> None:
        op = len(self.builder.ops)
        data = [] if reads_no_data(call) else call.reads
        inputs = [tensor for storage in data for tensor in self.versions[storage].tensors()]
        inputs += [self._control(reader) for reader in self._earlier_readers(call)]
        outputs = self.builder.add_op(
            call.kind,
            inputs,
            [
                *(self.program.num_bytes[storage] for storage in call.makes),
                *(0,) * len(call.writes),
            ],
            scope=call.scope,
            flops=call_flops(call),
            bytes_accessed=call_bytes(call),
            phase=call.phase,
        )
        for storage in data:
            self.versions[storage].readers.append(op)
        for storage, tensor in zip(call.makes, outputs, strict=False):
            self.versions[storage] = _Version(tensor)
        for storage, token in zip(call.writes, outputs[len(call.makes) :], strict=True):
            self.versions[storage].token, self.versions[storage].readers = token, []

    def finished(self) -> GraphBuilder:
        tensors = self.builder.tensors
        for storage, version in self.versions.items():
            tensors[version.tensor].role = self.program.roles.get(storage, "")
        for view in self.program.results:
            tensors[self.versions[view.storage].tensor].persistent = True
        return self.builder.without_idle_tokens()

    def _earlier_readers(self, call: Call) -> list[int]:
        return [reader for storage in call.writes for reader in self.versions[storage].readers]

    def _control(self, op: int) -> int:
        if op not in self.controls:
            self.controls[op] = self.builder.add_control(op)
        return self.controls[op]


def reads_no_data(call: Call) -> bool:
    """Whether a call makes a tensor from the shape of its arguments alone."""
    return call.kind.endswith("_like") or call.kind.startswith("new_")


def _live_calls(program: TorchProgram) -> list[Call]:
    outside = set(program.names)
    live = {view.storage for view in program.results}
    kept = []
    for call in reversed(program.calls):
        lasting = outside.intersection(call.writes) - _scalars(call)
        if not (lasting or live.intersection(call.makes) or live.intersection(call.writes)):
            continue
        kept.append(call)
        live.difference_update(call.makes)
        live.update(() if reads_no_data(call) else call.reads)
    return kept[::-1]


def _scalars(call: Call) -> set[int]:
    return {view.storage for view in call.views() if not view.shape}


def _varying_storages(program: TorchProgram, calls: Sequence[Call]) -> set[int]:
    """Storages with a maker or writer that is no function of constants."""
    varying = set(program.names)
    before = -1
    while before < len(varying):
        before = len(varying)
        for call in calls:
            touched = (*call.makes, *call.writes)
            sources = (*call.reads, *call.writes)
            if _is_random(call) or reads_no_data(call) or _any_in(varying, sources, touched):
                varying.update(touched)
    return varying


def _any_in(varying: set[int], *storages: Iterable[int]) -> bool:
    return any(not varying.isdisjoint(group) for group in storages)


def _is_random(call: Call) -> bool:
    return torch.Tag.nondeterministic_seeded in call.function.tags


def _initial_storages(program: TorchProgram) -> list[int]:
    """What exists before the first call: all but unread state; then constants."""
    made = {storage for call in program.calls for storage in call.makes}
    read = {storage for call in program.calls for storage in call.reads}
    read.update(view.storage for view in program.results)
    named = [s for s in program.names if s in read or program.roles[s] != "state"]
    return [*named, *sorted(read - made - set(named))]
