"""The graph that orders of a computation are searched on, with what is always in place merged.

Where an op is an operand's only reader and may write its result into the operand's memory
(``in_place``), it does so in every order. The result is then a tensor of size 0, and whoever reads
it keeps the operand's memory in use. What runs beside an asynchronous operation does so in every
order.
"""

from collections.abc import Iterator

from regal_jax.compiler.xla import in_place
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.xla.module import ALIASES, computation_graph
from regal_jax.graphs.importers.xla.text import Computation, Module


def search_graph(module: Module, name: str) -> ComputationGraph:
    """The graph of a computation of a module; its ops are named like their instructions."""
    graph = computation_graph(module, name, fenced=True)
    size, persistent = graph.size.copy(), graph.persistent.copy()
    consumers = [graph.consumers.row(tensor).tolist() for tensor in range(graph.num_tensors)]
    memory = list(range(graph.num_tensors))  # the tensor in whose memory each one is
    for source, result in _overwritten(module, name, graph):
        base = memory[result] = memory[source]
        consumers[base] = [*consumers[base], *consumers[result]]
        persistent[base] |= persistent[result]
        size[result], persistent[result] = 0, False
    return ComputationGraph.create(
        producer=graph.producer,
        size=size,
        consumers=consumers,
        num_ops=graph.num_ops,
        persistent=persistent,
        workspace=graph.workspace,
        op_names=graph.op_names,
        op_kinds=graph.op_kinds,
        name=name,
    )


def _overwritten(module: Module, name: str, graph: ComputationGraph) -> Iterator[tuple[int, int]]:
    """(tensor, the op's result in its memory) for every op that can overwrite an operand."""
    computation = module.computations[name]
    number = {op_name: op for op, op_name in enumerate(graph.op_names)}
    readers = graph.consumers.lengths()
    for op, op_name in enumerate(graph.op_names):
        one = computation.instructions[op_name]
        results = [t for t in graph.outputs.row(op).tolist() if graph.size[t]]
        for index in range(len(one.operands)):
            source = _tensor(computation, graph, number, one.operands[index])
            if source is None or readers[source] != 1 or graph.persistent[source]:
                continue
            fits = [t for t in results if graph.size[t] == graph.size[source]]
            if fits and in_place.allowed(module, name, one, index):
                results.remove(fits[0])
                yield source, fits[0]


def _tensor(
    computation: Computation, graph: ComputationGraph, number: dict[str, int], name: str
) -> int | None:
    """The tensor that an instruction's array is, None for parameters, constants and tuples."""
    one, leaf = computation.instructions[name], 0
    while one.opcode in ALIASES or one.opcode == "get-tuple-element":
        leaf = int(one.attribute("index") or 0) if one.opcode == "get-tuple-element" else leaf
        one = computation.instructions[one.operands[0]]
    if one.name not in number or one.opcode == "while":
        return None
    return int(graph.outputs.row(number[one.name])[leaf])
