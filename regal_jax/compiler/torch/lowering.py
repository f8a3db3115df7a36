"""The calls of an FX graph as a computation graph with one op a call, in program order."""

from collections.abc import Mapping

from regal_jax.compiler.torch.calls import FxProgram, NodeCall
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.graph_builder import GraphBuilder


def lower(program: FxProgram, workspaces: Mapping[str, int]) -> ComputationGraph:
    """The graph whose op ``i`` is call ``i``; ``workspaces`` [bytes] of nodes whose own is known.

    A tensor is a storage; what a call must wait for beyond the makers of the storages it touches
    makes a tensor of size 0 for it.
    """
    lowering = _Lowering(program, workspaces)
    for call in program.calls:
        lowering.add(call)
    return lowering.finished()


class _Lowering:
    """Calls being written down.

    Attributes:
      tensor: the tensor of each storage.
      op: the op of each node.
      writer: the last op that changed a storage.
      users: the ops that used a storage since.
      last_in_sequence, last_fixed: the last ops of these kinds.
      since_fixed: the ops after it.
    """

    def __init__(self, program: FxProgram, workspaces: Mapping[str, int]):
        self.program = program
        self.workspaces = workspaces
        self.builder = GraphBuilder()
        self.tensor: dict[int, int] = {}
        self.op: dict = {}
        self.writer: dict[int, int] = {}
        self.users: dict[int, list[int]] = {}
        self.last_in_sequence: tuple[int, ...] = ()
        self.last_fixed: tuple[int, ...] = ()
        self.since_fixed: list[int] = []
        self.controls: dict[int, int] = {}

    def add(self, call: NodeCall) -> None:
        op = len(self.builder.ops)
        inputs = [self._existing(storage) for storage in call.touches]
        makers = {self.builder.tensors[tensor].producer for tensor in inputs}
        inputs += [self._control(earlier) for earlier in sorted(self._waits_for(call) - makers)]
        outputs = self.builder.add_op(
            str(call.node.target),
            inputs,
            [self.program.num_bytes[storage] for storage in call.makes],
            name=call.node.name,
            workspace=self.workspaces.get(call.node.name, call.workspace),
        )
        self.tensor.update(zip(call.makes, outputs, strict=True))
        self._note(call, op)

    def finished(self) -> ComputationGraph:
        for storage in self.program.results:
            self.builder.tensors[self._existing(storage)].persistent = True
        return self.builder.build(name="fx")

    def _existing(self, storage: int) -> int:
        """The tensor of a storage: made by a call, or there from the start."""
        if storage not in self.tensor:
            size = self.program.num_bytes[storage]
            self.tensor[storage] = self.builder.add_parameter(size)
        return self.tensor[storage]

    def _waits_for(self, call: NodeCall) -> set[int]:
        earlier = {self.op[node] for node in call.node.all_input_nodes if node in self.op}
        earlier.update(self.writer[storage] for storage in call.touches if storage in self.writer)
        earlier.update(user for s in call.writes for user in self.users.get(s, ()))
        earlier.update(self.last_fixed)
        if call.in_sequence:
            earlier.update(self.last_in_sequence)
        if call.is_fixed:
            earlier.update(self.since_fixed)
        return earlier

    def _note(self, call: NodeCall, op: int) -> None:
        """Remembers what later calls have to wait for."""
        self.op[call.node] = op
        for storage in (*call.touches, *call.makes):
            self.users.setdefault(storage, []).append(op)
        for storage in call.writes:
            self.writer[storage], self.users[storage] = op, []
        if call.in_sequence:
            self.last_in_sequence = (op,)
        self.since_fixed.append(op)
        if call.is_fixed:
            self.last_fixed, self.since_fixed = (op,), []

    def _control(self, op: int) -> int:
        if op not in self.controls:
            self.controls[op] = self.builder.add_control(op)
        return self.controls[op]
