"""PyTorch programs whose calls are reordered, so that running them needs less memory.

A storage is in memory from the call that makes it to the last that uses it or a view of it; inputs,
parameters and buffers from the start, results to the end. That is what FX's generated code does: it
drops every value after its last use. The programs are to be run without autograd
(``torch.no_grad()``), which would keep values for itself. What a call allocates and frees inside is
known only where it is made of ATen calls; what kernels do can be measured: convolutions on the CPU
often take as much as their result once more, and then the report's peaks are too low without it.

What keeps the results the same, bit for bit: a call in place stays behind all that use the storage
before it and ahead of all that do so after it; calls that draw from the global generator stay in
their order, as do custom ops; calls whose effects can't be seen (higher-order operators, Python
functions that aren't PyTorch's or return nothing) have the same calls before and after them.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from regal_jax.compiler.order_report import OrderReport, least_memory_order
from regal_jax.errors import MissingDependencyError, OptionError

if TYPE_CHECKING:
    import torch

Program = TypeVar("Program", "torch.fx.GraphModule", "torch.export.ExportedProgram")


def reorder_fx(
    exported: Program,
    *,
    method: str = "auto",
    seed: int = 0,
    evaluations: int | None = None,
    time_limit: float | None = None,
    workspaces: Mapping[str, int] | None = None,
) -> tuple[Program, OrderReport]:
    """A program that shares the given one's parameters and calls the same in the best order found.

    The order stays as it is if no better one is found.

    Args:
      exported: an exported program; or a GraphModule whose placeholders have ``meta["val"]``, such
        as ``ExportedProgram.module()``. It is left as it is. Symbolic sizes count as they were in
        the example inputs.
      method, seed, evaluations, time_limit: of the search, see ``regal_jax.optimize``.
      workspaces: bytes that calls need inside, by the name of the node, in place of what is known
        from their ATen calls; see ``peak_allocation.measured_workspaces``.

    Raises:
      MissingDependencyError: without the package torch.
      ImporterError: the graph can't be run on fake tensors: sizes depend on data, a custom op has
        no fake kernel, or a placeholder has no ``meta["val"]``.
      OptionError: a method or an option that doesn't fit, or a program of another type.
    """
    try:
        import torch
    except ImportError:
        raise MissingDependencyError("torch", "torch") from None
    from regal_jax.compiler.torch import calls as torch_calls
    from regal_jax.compiler.torch import lowering

    if not isinstance(exported, torch.fx.GraphModule | torch.export.ExportedProgram):
        raise OptionError(
            f"reorder_fx takes an ExportedProgram or a GraphModule, not {type(exported).__name__}"
        )
    is_module = isinstance(exported, torch.fx.GraphModule)
    module = exported if is_module else exported.graph_module
    graph = lowering.lower(torch_calls.recorded(module), workspaces or {})
    order, report = least_memory_order(
        graph, method=method, seed=seed, evaluations=evaluations, time_limit=time_limit
    )
    reordered = _in_order(module.graph, order.tolist(), torch_calls.CALLS)
    build = _module_with if is_module else _program_with
    return build(exported, reordered), report


def _in_order(
    graph: "torch.fx.Graph", order: Sequence[int], kinds: Iterable[str]
) -> "torch.fx.Graph":
    """A copy with its calls in that order, if it isn't theirs."""
    twin = copy.deepcopy(graph)
    for node, original in zip(twin.nodes, graph.nodes, strict=True):
        node.name = original.name  # copies of names like "input" get numbers, signatures have none
    calls = [node for node in twin.nodes if node.op in kinds]
    if order != sorted(order):
        for index in order:
            twin.output_node().prepend(calls[index])
    twin.lint()
    return twin


def _module_with(module: "torch.fx.GraphModule", graph: "torch.fx.Graph") -> "torch.fx.GraphModule":
    """A module that is like another but for its graph; copy.copy would lose hooks."""
    kind: Any = type(module)
    twin = kind.__new__(kind)  # of its own class, which holds the generated code
    for name, value in vars(module).items():
        vars(twin)[name] = copy.copy(value) if isinstance(value, dict) else value
    twin.graph = graph
    return twin


def _program_with(
    program: "torch.export.ExportedProgram", graph: "torch.fx.Graph"
) -> "torch.export.ExportedProgram":
    from torch.export import ExportedProgram

    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=copy.deepcopy(program.graph_signature),
        state_dict=program.state_dict,
        range_constraints=copy.deepcopy(program.range_constraints),
        module_call_graph=copy.deepcopy(program.module_call_graph),
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )
