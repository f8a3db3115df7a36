"""Compiled XLA programs as computation graphs, in the order that XLA runs them.

What becomes an op: every instruction of the entry computation, in the order of the text, which in a
scheduled module is XLA's schedule, but
- parameters are tensors that exist from the start, persistent, and so are constants; scalar
  constants are nothing;
- bitcast, tuple, get-tuple-element, opt-barrier, add-dependency, after-all and the ends of
  asynchronous operations are other names of their operands;
- fusions are one op each; a result that is a tuple is several tensors;
- while, conditional and call are one op each, whose workspace is what one run of a body needs
  beyond its arguments and results, in its own order, the largest body. In a scheduled module a
  while updates its state in place: what it returns is its operand's memory, a new version of it;
- control predecessors are waited for by tensors of size 0;
- a donated parameter (``input_output_alias``) is updated in place by what makes the output, if all
  its readers come before.
Buffers that XLA reuses in place within fusions and dynamic-update-slices are not known from the
text: such an op has operands and results in memory together. FLOPs and bytes: ``flops``.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Union

import jax

from regal_jax import registry
from regal_jax.errors import DAMAGE, ImporterError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.files import read_text
from regal_jax.graphs.importers.graph_builder import GraphBuilder
from regal_jax.graphs.importers.roofline import A100, DeviceProfile
from regal_jax.graphs.importers.xla import flops as xla_flops
from regal_jax.graphs.importers.xla.serialized import deserialized
from regal_jax.graphs.importers.xla.text import (
    BODIES,
    Array,
    Computation,
    Instruction,
    Module,
    Shape,
    leaves,
    parse_module,
)

Value = Union[int, None, "tuple[Value, ...]"]
"""A tensor's number in the builder, None for a scalar constant, or a tuple of values."""

ALIASES = frozenset(
    """
    bitcast opt-barrier optimization-barrier add-dependency domain copy-done all-reduce-done
    all-gather-done collective-permute-done async-done async-update send-done recv-done slice-done
    dynamic-slice-done dynamic-update-slice-done fusion-done reduce-scatter-done all-to-all-done
    """.split()  # noqa: SIM905
)
"""Instructions that give their first operand another name."""

_CALLERS = frozenset(("while", "conditional", "call"))
_EFFECTS = frozenset(("send", "recv", "infeed", "outfeed"))
_SCALAR = 8
"""Bytes up to which a constant is nothing."""


@registry.importer(".hlo", ".txt", ".hlo.pb")
def from_hlo(
    source: Any, *, name: str | None = None, profile: DeviceProfile = A100
) -> ComputationGraph:
    """The graph of an XLA module; its program order is XLA's schedule.

    Args:
      source: HLO text, or the path of a file of it (``--xla_dump_to`` writes such); a serialized
        module, or the path of one (``.pb``); a compiled JAX function
        (``jax.jit(f).lower(x).compile()``), or a lowered one, which is compiled.
      name: of the graph; by default the module's.
      profile: the device whose roofline gives the durations.

    Returns:
      A graph whose ``extra[""]["is_scheduled"]`` says whether the order is XLA's schedule.

    Raises:
      ImporterError: no such file, or not a module, with the line.
    """
    text, where, maker = text_of(source)
    try:
        module = parse_module(text)
        graph = computation_graph(module, module.entry, profile)
    except ImporterError as error:
        raise ImporterError(f"{where}: {error}") from None
    except DAMAGE as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImporterError(f"{where}: a malformed HLO module ({reason})") from error
    return graph.replace(name=name or module.name, source=maker)


def computation_graph(
    module: Module, name: str, profile: DeviceProfile = A100, *, fenced: bool = False
) -> ComputationGraph:
    """The graph of one computation of a module, entry or body, in the order it stands in.

    The names of its ops are those of the instructions. With ``fenced`` ends of asynchronous
    operations are ops, too, and no op passes a start or an end: what ran beside an operation runs
    beside it in every order. Raises ImporterError, and one of ``errors.DAMAGE`` for malformed
    modules.
    """
    builder = _Lowering(module, module.computations[name], fenced).lowered()
    extra = {"": {"is_scheduled": module.is_scheduled}}
    return builder.build(profile, name=name, extra=extra)


def text_of(source: Any) -> tuple[str, str, str]:
    """(text, where it comes from, the graph's source)."""
    if hasattr(source, "compile"):
        source = source.compile()
    if hasattr(source, "as_text"):
        return source.as_text(), "compiled function", f"xla-{jax.__version__}"
    if isinstance(source, bytes):
        return deserialized(source, "serialized module"), "serialized module", "xla"
    if isinstance(source, str) and "HloModule" in source:
        return source, "HLO text", "xla"
    if not isinstance(source, str | os.PathLike):
        raise ImporterError(f"from_hlo: {type(source).__name__} is no HLO module")
    path = Path(source)
    if path.suffix in (".pb", ".bin"):
        try:
            return deserialized(path.read_bytes(), str(path)), str(path), "xla"
        except OSError as error:
            raise ImporterError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    try:
        return read_text(path), str(path), "xla"
    except RegalError as error:
        raise ImporterError(str(error)) from None


class _Lowering:
    """A computation being written into a builder; ``values`` by instruction name."""

    def __init__(self, module: Module, computation: Computation, fenced: bool = False):
        self.module, self.computation, self.fenced = module, computation, fenced
        self.builder = GraphBuilder()
        self.values: dict[str, Value] = {}
        self.op_of: dict[str, int] = {}
        self.since: list[int] = []  # ops that ran since the last fence
        self.behind: list[int] = []  # the tensor that it makes for those behind it

    def lowered(self) -> GraphBuilder:
        self.write()
        if self.computation.name == self.module.entry:
            self._donate()
        results = flat(self.values[self.computation.root])
        return self.builder.prune(results).without_idle_tokens()

    def write(self) -> None:
        """Writes every instruction."""
        for one in self.computation.instructions.values():
            self.values[one.name] = self._value(one)

    def _value(self, one: Instruction) -> Value:
        operands = [self.values[name] for name in one.operands]
        if one.opcode == "parameter":
            return self._initial(one.shape, one.name, role="parameter")
        if one.opcode == "constant":
            is_scalar = all(array.num_bytes <= _SCALAR for array in leaves(one.shape))
            return None if is_scalar else self._initial(one.shape, one.name)
        if one.opcode in ("tuple", "after-all"):
            return tuple(operands)
        if one.opcode == "get-tuple-element":
            return operands[0][int(one.attribute("index") or 0)]  # type: ignore[index]
        if one.opcode in ALIASES:
            if self.fenced and _is_fence(one):
                self._op(one, operands)
            return operands[0]
        return self._op(one, operands)

    def _initial(self, shape: Shape, name: str, role: str = "") -> Value:
        add = self.builder.add_parameter
        return shaped(
            shape,
            iter(
                [add(a.num_bytes, name=name, role=role, required=bool(role)) for a in leaves(shape)]
            ),
        )

    def _op(self, one: Instruction, operands: list[Value]) -> Value:
        in_place = one.opcode == "while" and self.module.is_scheduled
        shape = result_shape(self.computation, one)
        is_nothing = in_place or one.opcode in ALIASES
        sizes = [0 if is_nothing else array.num_bytes for array in leaves(shape)]
        inputs = [tensor for value in operands for tensor in flat(value)]
        waits = [self._control(name) for name in one.called("control-predecessors")]
        if in_place:
            waits += [self.builder.add_control(op) for op in self._readers(inputs)]
        fence = self.fenced and _is_fence(one)
        waits += [*self.behind, *(self.builder.add_control(op) for op in self.since if fence)]
        target = one.attribute("custom_call_target")
        outputs = self.builder.add_op(
            f"{one.opcode}:{target}" if target else one.opcode,
            [*inputs, *(tensor for tensor in waits if tensor is not None)],
            sizes,
            name=one.name,
            flops=xla_flops.instruction_flops(self.module, self.computation, one),
            bytes_accessed=xla_flops.instruction_bytes(self.module, self.computation, one),
            workspace=self._workspace(one),
            required=fence or one.opcode in _EFFECTS or "has_side_effect=true" in one.attributes,
            phase="backward" if "transpose(jvp" in one.attributes else "",
        )
        number = self.op_of[one.name] = len(self.builder.ops) - 1
        if fence:
            self.since, self.behind = [], [self.builder.add_control(number)]
        elif self.fenced:
            self.since.append(number)
        result = shaped(shape, iter(outputs))
        return _paired(operands[0], result) if in_place else result

    def _workspace(self, one: Instruction) -> int:
        peaks = (self._body_peak(self.module.computations[name]) for name in bodies(one))
        return max(peaks, default=0)

    def _body_peak(self, body: Computation) -> int:
        inner = _Lowering(self.module, body)
        inner.write()
        return inner.builder.prune(flat(inner.values[body.root])).body_workspace()

    def _control(self, name: str) -> int | None:
        return self.builder.add_control(self.op_of[name]) if name in self.op_of else None

    def _readers(self, tensors: list[int]) -> list[int]:
        """The ops so far that read one of these tensors."""
        wanted = set(tensors)
        return [i for i, op in enumerate(self.builder.ops) if not wanted.isdisjoint(op.inputs)]

    def _donate(self) -> None:
        """Outputs that take a parameter's memory become its new version."""
        parameters = [
            one for one in self.computation.instructions.values() if one.opcode == "parameter"
        ]
        number = {int(one.arguments): one.name for one in parameters}
        for output, parameter, part in donations(self.module.header):
            target = _at(self.values[self.computation.root], output)
            source = _at(self.values[number[parameter]], part)
            if isinstance(target, int) and isinstance(source, int):
                self._update_in_place(source, target)

    def _update_in_place(self, source: int, target: int) -> None:
        writer = self.builder.tensors[target].producer
        readers = [i for i in self._readers([source]) if i != writer]
        if writer < 0 or any(reader > writer for reader in readers):
            return
        waits = tuple(self.builder.add_control(reader) for reader in readers)
        op = self.builder.ops[writer]
        self.builder.ops[writer] = op._replace(inputs=(*op.inputs, *waits))
        self.builder.tensors[target].size = 0
        self.builder.tensors[source].persistent = True


def _is_fence(one: Instruction) -> bool:
    """Whether an instruction begins or ends an asynchronous operation."""
    return one.opcode.endswith(("-start", "-done")) or one.opcode in ("send", "recv")


def bodies(one: Instruction) -> list[str]:
    """Names of the computations that an instruction runs instruction by instruction."""
    return one.called(*BODIES, "condition") if one.opcode in _CALLERS else []


def flat(value: Value) -> list[int]:
    """The tensors of a value, depth first."""
    if isinstance(value, tuple):
        return [tensor for part in value for tensor in flat(part)]
    return [] if value is None else [value]


def shaped(shape: Shape, tensors: Iterator[int]) -> Value:
    """Tensors, one for each array, arranged like a shape."""
    if isinstance(shape, Array):
        return next(tensors)
    return tuple(shaped(part, tensors) for part in shape)


def _paired(old: Value, new: Value) -> Value:
    """Old memory with its new version, leaf by leaf."""
    if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        return tuple(_paired(a, b) for a, b in zip(old, new, strict=True))
    return (old, new)


def result_shape(computation: Computation, one: Instruction) -> Shape:
    """The shape of the results; what starts asynchronously has that of its end."""
    if not one.opcode.endswith("-start"):
        return one.shape
    ends = (o for o in computation.instructions.values() if o.operands[:1] == (one.name,))
    return next((end.shape for end in ends if end.opcode in ALIASES), one.shape)


def donations(header: str) -> Iterable[tuple[list[int], int, list[int]]]:
    """(path of the output, parameter, path in it) of every ``input_output_alias``."""
    if "input_output_alias=" not in header:
        return
    text = header.split("input_output_alias=", 1)[1]
    for match in re.finditer(r"\{([\d, ]*)\}: \((\d+), \{([\d, ]*)\}", text):
        paths = [[int(i) for i in match.group(g).split(",") if i.strip()] for g in (1, 3)]
        yield paths[0], int(match.group(2)), paths[1]


def _at(value: Value, path: list[int]) -> Value:
    for index in path:
        value = value[index]  # type: ignore[index]
    return value
