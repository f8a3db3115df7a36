"""Really runs a recorded PyTorch program, call by call, freeing each storage after its last use."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from regal_jax.graphs.importers.torch.lowering import TorchProgram, reads_no_data
from regal_jax.graphs.importers.torch.recording import Call, TensorView, tensor_views


@dataclasses.dataclass
class Memory:
    """Real storages by number, and the largest number of bytes alive so far."""

    storages: dict[int, torch.UntypedStorage]
    peak: int = 0

    def tensor(self, value: Any) -> Any:
        """The real tensor that a TensorView stands for; other values as they are."""
        if not isinstance(value, TensorView):
            return value
        storage = self.storages.get(value.storage)
        if storage is None:  # only its shape is looked at
            return torch.empty_strided(value.shape, value.stride, dtype=value.dtype)
        return torch.empty(0, dtype=value.dtype).set_(
            storage, value.offset, value.shape, value.stride
        )

    def run(self, call: Call) -> None:
        args, kwargs = tree_map(self.tensor, (call.args, call.kwargs))
        if reads_no_data(call):
            kwargs = {**kwargs, "device": "cpu"}
        with torch.no_grad():
            result = call.function(*args, **kwargs)
        for view, real in zip(tree_flatten(call.result)[0], tree_flatten(result)[0], strict=True):
            if isinstance(real, torch.Tensor) and view.storage in call.makes:
                self.keep(view, real)
        self.peak = max(self.peak, self.alive())

    def keep(self, view: TensorView, real: torch.Tensor) -> None:
        """Takes over the storage of a result laid out as the recording foresaw."""
        if tuple(real.stride()) != view.stride or real.storage_offset() != view.offset:
            laid_out = torch.empty_strided(view.shape, view.stride, dtype=view.dtype)
            real = laid_out.copy_(real)
        self.storages[view.storage] = real.untyped_storage()

    def alive(self) -> int:
        return sum(storage.nbytes() for storage in self.storages.values())


def execute(
    program: TorchProgram, given: dict[str, torch.Tensor], order: Sequence[int] | None = None
) -> tuple[list[torch.Tensor], int]:
    """Runs the calls of a simplified program in an order; returns its results and its peak [bytes].

    ``given`` has the values of what exists at the start, by name; they are copied.
    """
    order = range(len(program.calls)) if order is None else order
    calls = [program.calls[i] for i in order]
    last_use = _last_uses(program, calls)
    used = {s for s in program.names if s in last_use}
    memory = Memory({s: given[program.names[s]].clone().untyped_storage() for s in used})
    for call in program.constants:
        memory.run(call)
    for storage in set(memory.storages) - set(last_use):
        del memory.storages[storage]
    memory.peak = memory.alive()
    for step, call in enumerate(calls):
        memory.run(call)
        for storage in {*call.reads, *call.makes}:
            if last_use.get(storage, step) <= step:
                memory.storages.pop(storage, None)
    return [memory.tensor(view) for view in program.results], memory.peak


def _last_uses(program: TorchProgram, calls: Sequence[Call]) -> dict[int, float]:
    """The step after which a storage is needed no more; infinite for what outlives the program."""
    last: dict[int, float] = {}
    for step, call in enumerate(calls):
        data = () if reads_no_data(call) else call.reads
        last |= dict.fromkeys(data, step)
    made = {storage for call in calls for storage in call.makes}
    kept = {view.storage for view in program.results}
    return last | {s: float("inf") for s in [*last, *kept] if s not in made or s in kept}


def named_values(module: torch.nn.Module, args: Sequence[Any]) -> dict[str, torch.Tensor]:
    """What a module's program finds at the start, by name."""
    values = dict(module.named_parameters(remove_duplicate=False))
    values |= dict(module.named_buffers(remove_duplicate=False))
    return values | {f"input[{i}]": value for i, value in enumerate(args)}


__all__ = ["execute", "named_values", "tensor_views"]
