"""What each call of an FX graph does to memory, found by running the graph on fake tensors.

Nothing is computed. Every ATen call below a node is seen (``recording.Recorder``), so that
views share the storage of what they look at, and writes in place and random draws are found also
where a node's own schema doesn't tell of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils._pytree import tree_flatten, tree_map

from regal_jax.errors import ImporterError
from regal_jax.graphs.importers.torch.recording import Call, Recorder, tensor_views

CALLS = ("call_function", "call_method", "call_module")
"""The kinds of nodes that can change places; the others come first, and the output last."""


class NodeCall(NamedTuple):
    """A call node. Storages are numbers.

    Attributes:
      node: the node.
      touches: storages that exist already and that it looks at.
      makes: storages that are new in its result.
      writes: those of ``touches`` that it changes.
      workspace: bytes it needs inside beyond its result: the peak of its ATen calls.
      in_sequence: whether it draws random numbers, or may have effects that can't be seen, so that
        it keeps its place among such nodes.
      is_fixed: whether it has effects on anything, so that all others stay before or after it.
    """

    node: torch.fx.Node
    touches: tuple[int, ...]
    makes: tuple[int, ...]
    writes: tuple[int, ...]
    workspace: int
    in_sequence: bool
    is_fixed: bool


class FxProgram(NamedTuple):
    """The calls in their order, bytes per storage, and the storages that are returned."""

    calls: tuple[NodeCall, ...]
    num_bytes: tuple[int, ...]
    results: tuple[int, ...]


def recorded(module: torch.fx.GraphModule) -> FxProgram:
    """Runs a graph on fake tensors like those of its placeholders. Raises ImporterError."""
    run = _Run(module)
    calls = []
    with torch.no_grad():
        for node in module.graph.nodes:
            if node.op in CALLS:
                calls.append(run.call(node))
            elif node.op == "get_attr":
                run.get_attribute(node)
            elif node.op == "placeholder":
                run.values[node] = run.concrete(node)
        results = run.storages(run.argument_values(module.graph.output_node().args))
    return FxProgram(tuple(calls), tuple(run.recorder.num_bytes), tuple(results))


class _Run:
    """A graph being run; ``values`` is what its nodes have become."""

    def __init__(self, module: torch.fx.GraphModule):
        self.fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.recorder = Recorder(self.fake_mode)
        self.interpreter = torch.fx.Interpreter(module, garbage_collect_values=False)
        self.values = self.interpreter.env
        self._bases: dict[int, torch.Tensor] = {}  # by the storage of a placeholder's meta["val"]

    def concrete(self, node: torch.fx.Node) -> Any:
        """What stands for a placeholder: a fake tensor without symbolic sizes, or a number."""
        if "val" not in node.meta:
            raise ImporterError(
                f"the placeholder {node.name!r} has no meta['val']; export with torch.export, "
                "or run torch.fx.passes.fake_tensor_prop.FakeTensorProp on example inputs first"
            )
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            return tree_map(lambda leaf: _number(leaf, node), value)
        sizes = [_number(size, node) for size in value.shape]
        strides = [_number(stride, node) for stride in value.stride()]
        offset = _number(value.storage_offset(), node)
        return torch.as_strided(self._base(value, node), sizes, strides, offset)

    def get_attribute(self, node: torch.fx.Node) -> None:
        value = self.interpreter.run_node(node)
        is_real = isinstance(value, torch.Tensor)
        self.values[node] = self.fake_mode.from_tensor(value) if is_real else value

    def call(self, node: torch.fx.Node) -> NodeCall:
        """Runs a node and tells what it did."""
        recorder = self.recorder
        given = self.storages(self.argument_values((node.args, node.kwargs)))
        first = len(recorder.calls)
        self.values[node] = self._result(node)
        inner, known = recorder.calls[first:], len(recorder.num_bytes)
        returned = self.storages(self.values[node])
        made = {storage for call in inner for storage in call.makes}
        made.update(range(known, len(recorder.num_bytes)))  # by a call that can't be recorded
        touched = dict.fromkeys(s for group in (given, *_reads(inner)) for s in group)
        written = {storage for call in inner for storage in _written(call)}
        makes = tuple(storage for storage in returned if storage in made)
        return NodeCall(
            node,
            tuple(storage for storage in touched if storage not in made),
            makes,
            tuple(sorted(written - made)),
            _workspace(inner, recorder.num_bytes, makes),
            _is_random(inner) or _is_unknown(node),
            self._is_fixed(node),
        )

    def argument_values(self, arguments: Any) -> Any:
        return torch.fx.node.map_arg(arguments, self.values.__getitem__)

    def storages(self, values: Any) -> list[int]:
        """The distinct storages of the tensors in nested containers."""
        tensors = [leaf for leaf in tree_flatten(values)[0] if isinstance(leaf, torch.Tensor)]
        return list(dict.fromkeys(self.recorder.view(tensor).storage for tensor in tensors))

    def _base(self, value: torch.Tensor, node: torch.fx.Node) -> torch.Tensor:
        """All of the storage that a placeholder's tensor looks at, in its type."""
        storage = value.untyped_storage()
        if storage._cdata not in self._bases:
            elements = _number(storage.nbytes(), node) // value.dtype.itemsize
            with self.fake_mode:
                self._bases[storage._cdata] = torch.empty(
                    elements, dtype=value.dtype, device=value.device
                )
        return self._bases[storage._cdata].view(value.dtype)

    def _result(self, node: torch.fx.Node) -> Any:
        try:
            if isinstance(node.target, torch._ops.HigherOrderOperator):
                with self.fake_mode:  # a recorder can't stand above these
                    return self.interpreter.run_node(node)
            with self.fake_mode, self.recorder:
                return self.interpreter.run_node(node)
        except ImporterError as error:
            raise ImporterError(f"{node.name}: {error}") from None
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise ImporterError(f"{node.name}: its size depends on data ({error.func})") from error
        except UnsupportedOperatorException as error:
            raise ImporterError(f"{node.name}: {error.func} has no fake kernel") from error
        except Exception as error:
            reason = (str(error).strip().splitlines() or [""])[0]
            message = f"{node.name}: can't be traced: {type(error).__name__}: {reason}"
            raise ImporterError(message) from error

    def _is_fixed(self, node: torch.fx.Node) -> bool:
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            return False
        if isinstance(target, torch._ops.HigherOrderOperator) or self.values[node] is None:
            return True
        if node.op == "call_method":
            return False
        if node.op == "call_module":
            target = type(self.interpreter.fetch_attr(str(target)))
        return (getattr(target, "__module__", None) or "builtins").split(".")[0] not in _VISIBLE


_VISIBLE = ("torch", "_operator", "math", "builtins")
"""Packages whose functions do nothing but what their ATen calls do, unless they return None."""

_PURE = ("aten", "prims", "quantized_decomposed", "torchvision")
"""Namespaces of ops whose schemas tell all that they do."""


def _is_unknown(node: torch.fx.Node) -> bool:
    """Whether a node is a custom op, which may do more than its schema says."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.namespace not in _PURE


def _is_random(calls: Sequence[Call]) -> bool:
    return any(torch.Tag.nondeterministic_seeded in call.function.tags for call in calls)


def _reads(calls: Sequence[Call]) -> Iterator[tuple[int, ...]]:
    return (call.reads for call in calls)


def _written(call: Call) -> Iterator[int]:
    """What a call changes. A batch norm's running statistics also, which some schemas conceal."""
    yield from call.writes
    arguments = _arguments(call)
    if any(arguments.get(name) is False for name in ("training", "train")):
        return
    statistics = [arguments.get(name) for name in ("running_mean", "running_var")]
    yield from (view.storage for view in tensor_views(statistics))


def _arguments(call: Call) -> Mapping[str, Any]:
    names = [argument.name for argument in call.function._schema.arguments]
    return {**dict(zip(names, call.args, strict=False)), **call.kwargs}


def _workspace(calls: Sequence[Call], num_bytes: Sequence[int], makes: Sequence[int]) -> int:
    """Bytes beyond the results at the peak of a node's calls, each tensor freed after its last."""
    last = {storage: k for k, call in enumerate(calls) for storage in (*call.makes, *call.reads)}
    inner = {storage for call in calls for storage in call.makes}.difference(makes)
    live = peak = 0
    for position, call in enumerate(calls):
        live += sum(num_bytes[storage] for storage in call.makes)
        peak = max(peak, live)
        finished = inner.intersection((*call.makes, *call.reads))
        live -= sum(num_bytes[storage] for storage in finished if last[storage] == position)
    return max(0, peak - sum(num_bytes[storage] for storage in makes))


def _number(value: Any, node: torch.fx.Node) -> Any:
    """A symbolic size as the number it was exported with. Raises ImporterError if it has none."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value
    if value.node.hint is None:
        raise ImporterError(f"the size {value} of {node.name!r} depends on data")
    return value.node.hint
