"""What a PyTorch program does, call by call, recorded without running it.

``Recorder`` sits above a ``FakeTensorMode`` and writes down every ATen call: which storages it
reads, which it makes anew and which it writes in place. A tensor is where its bytes are: a storage
and how it is looked at (type, shape, strides, offset), so a view is no call and two views of one
storage are the same memory. Autograd's calls are recorded like any other.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from regal_jax.errors import ImporterError


@dataclasses.dataclass(frozen=True)
class TensorView:
    """A tensor as a window on a storage; ``offset`` and ``stride`` in elements."""

    storage: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @property
    def num_elements(self) -> int:
        return torch.Size(self.shape).numel()

    @property
    def num_bytes(self) -> int:
        """Bytes of its distinct elements: a broadcast one counts once."""
        sizes = zip(self.shape, self.stride, strict=True)
        distinct = torch.Size([n for n, stride in sizes if stride or not n]).numel()
        return distinct * self.dtype.itemsize


@dataclasses.dataclass(frozen=True)
class Call:
    """An ATen call: ``args``, ``kwargs`` and ``result`` hold TensorViews where tensors were.

    Storages: ``reads``, those its arguments look at; ``makes``, new ones; ``writes``, those it
    changes in place (also read). ``phase`` is forward, backward or update; ``scope`` a module path.
    """

    function: Any
    args: tuple
    kwargs: dict[str, Any]
    result: Any
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    writes: tuple[int, ...]
    phase: str
    scope: str

    @property
    def kind(self) -> str:
        """The ATen name, such as ``relu_`` or ``convolution``."""
        return self.function._schema.name.split("::")[-1]

    def views(self) -> Iterator[TensorView]:
        """Every tensor among its arguments."""
        return tensor_views((self.args, self.kwargs))


class Recorder(TorchDispatchMode):
    """Records the calls made under it; for use as ``with fake_mode, recorder``.

    Real tensors that a program closes over are recorded, too, and never changed.

    Attributes:
      calls: in program order.
      num_bytes: int per storage.
      phase, scope: what the next calls are part of; set from outside.
    """

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        super().__init__()
        self.fake_mode = fake_mode
        self.calls: list[Call] = []
        self.num_bytes: list[int] = []
        self.phase = "forward"
        self.scope = ""
        self._number: dict[int, int] = {}
        self._alive: list[Any] = []  # storages: their addresses must not be used again

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func not in self.fake_mode.lift_fns:  # those keep a constant's value
            args, kwargs = tree_map(self._fake, (args, kwargs or {}))
        inputs = tree_map(self._seen, (args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        known = len(self.num_bytes)
        outputs = tree_map(self._seen, result)
        made = {view.storage for view in tensor_views(outputs) if view.storage >= known}
        written = set(_written(func, *inputs))
        if made or written:
            reads = {view.storage: None for view in tensor_views(inputs)}
            storages = tuple(reads), tuple(sorted(made)), tuple(sorted(written))
            place = self.phase, self.scope
            self.calls.append(Call(func, *inputs, outputs, *storages, *place))
        return result

    def view(self, tensor: torch.Tensor) -> TensorView:
        """A tensor as a view of a numbered storage. ImporterError for one without a storage."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            kind = str(tensor.layout).removeprefix("torch.")
            raise ImporterError(f"a tensor of layout {kind} has no plain storage") from None
        layout = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
        return TensorView(self._storage(storage), tensor.dtype, *layout)

    def _storage(self, storage: torch.UntypedStorage) -> int:
        if storage._cdata not in self._number:
            self._number[storage._cdata] = len(self.num_bytes)
            self.num_bytes.append(storage.nbytes())
            self._alive.append(storage)
        number = self._number[storage._cdata]
        if self.num_bytes[number] != storage.nbytes():
            raise ImporterError("a tensor's storage is resized in place, which isn't supported")
        return number

    def _fake(self, value: Any) -> Any:
        is_real = isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
        return self.fake_mode.from_tensor(value) if is_real else value

    def _seen(self, value: Any) -> Any:
        return self.view(value) if isinstance(value, torch.Tensor) else value


def tensor_views(values: Any) -> Iterator[TensorView]:
    """Every TensorView in nested containers."""
    return (leaf for leaf in tree_flatten(values)[0] if isinstance(leaf, TensorView))


def _written(function: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[int]:
    """The storages that the schema says are changed."""
    for position, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            yield from (view.storage for view in tensor_views(value))
