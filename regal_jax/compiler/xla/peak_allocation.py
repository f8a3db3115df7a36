"""The memory that PyTorch really takes, by its allocators' own account."""

from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from regal_jax.errors import MissingDependencyError

if TYPE_CHECKING:
    import torch


def peak_allocation(fn: Callable[..., Any], *args: Any) -> int:
    """Peak bytes allocated while ``fn(*args)`` runs, beyond what was allocated before.

    The result of the call counts to the end. On a CUDA device, if a tensor among the arguments or
    the parameters of a module ``fn`` is on one, else on the CPU, where only what goes through
    PyTorch's allocator is seen, not what libraries allocate themselves. The function runs once; if
    its first call fills caches, call it once before. Call it under ``torch.no_grad()`` unless
    autograd's memory is meant.

    Raises MissingDependencyError: without the package torch.
    """
    try:
        import torch
        from torch.utils._pytree import tree_flatten
    except ImportError:
        raise MissingDependencyError("torch", "torch") from None
    values = list(tree_flatten(args)[0])
    if isinstance(fn, torch.nn.Module):
        values += [*fn.parameters(), *fn.buffers()]
    devices = {value.device for value in values if isinstance(value, torch.Tensor)}
    on_cuda = [device for device in devices if device.type == "cuda"]
    return _on_cuda(fn, args, on_cuda[0]) if on_cuda else _on_cpu(fn, args)


def measured_workspaces(
    exported: "torch.fx.GraphModule | torch.export.ExportedProgram", *args: Any
) -> Mapping[str, int]:
    """Bytes that each call of a program needs inside on the CPU, by the name of its node.

    That is what its kernels allocate beyond its results and free again: a convolution's blocked
    copies, say. Runs the program once on ``args``, node by node, without autograd, which changes
    its buffers if it does.

    Raises MissingDependencyError: without the package torch.
    """
    try:
        import torch
        from torch.profiler import ProfilerActivity, profile, record_function
    except ImportError:
        raise MissingDependencyError("torch", "torch") from None

    class Marked(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            with record_function(_MARK + n.name):
                return super().run_node(n)

    is_module = isinstance(exported, torch.fx.GraphModule)
    interpreter = Marked(exported if is_module else exported.module())
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        interpreter.run(*args)
    return _workspaces(sorted(run.profiler.kineto_results.events(), key=lambda e: e.start_ns()))


_MARK = "node:"
_MEMORY = "[memory]"
"""The name that the profiler gives to allocations (bytes) and frees (negative)."""


def _on_cpu(fn: Callable[..., Any], args: tuple) -> int:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        result = fn(*args)
    events = sorted(run.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    del result
    changes = (event.nbytes() for event in events if event.name() == _MEMORY)
    return max(accumulate(changes, initial=0))


def _workspaces(events: list) -> dict[str, int]:
    """The most in use within each marked span, beyond what is in use at its end."""
    found: dict[str, int] = {}
    name, end, use, most = "", 0, 0, 0
    for event in events:
        if event.name().startswith(_MARK):
            name, end = event.name().removeprefix(_MARK), event.start_ns() + event.duration_ns()
            use = most = found[name] = 0
        elif event.name() == _MEMORY and event.start_ns() <= end:
            use += event.nbytes()
            most = max(most, use)
            found[name] = most - use
    return found


def _on_cuda(fn: Callable[..., Any], args: tuple, device: "torch.device") -> int:
    import torch

    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = fn(*args)
    torch.cuda.synchronize(device)
    del result
    return torch.cuda.max_memory_allocated(device) - before
