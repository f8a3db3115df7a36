"""Microbatched PyTorch steps, really run, give the full batch's numbers."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from regal_jax.graphs.importers.torch import lowering, tracing  # noqa: E402
from regal_jax.graphs.importers.torch.recording import tensor_views  # noqa: E402
from regal_jax.graphs.rewrites.microbatches import microbatches  # noqa: E402
from regal_jax.search.orders import rules  # noqa: E402
from tests.torch_interpreter import Memory, named_values  # noqa: E402
from tests.torch_modules import MODULES  # noqa: E402

PARTS = 3


def total(output):
    """A loss that sums over examples, so that gradients of parts add up."""
    outputs = output if isinstance(output, tuple) else (output,)
    return sum(value.square().sum() for value in outputs)


@pytest.mark.parametrize("name", ["mlp", "attention", "branches", "recurrent"])
def test_accumulated_gradients_are_those_of_the_full_batch(name):
    torch.manual_seed(0)
    module, (example,) = MODULES[name]()
    batch = [example, example.flip(0), example.roll(1, -1)]
    recorded = tracing.trace(module, (example,), {}, mode="training", loss=total)
    program = lowering.simplified(recorded)
    graph = lowering.lower(program).build()
    split = microbatches(graph, PARTS)
    loss = total(module(torch.cat(batch)))
    expected = torch.autograd.grad(loss, list(module.parameters()))
    for order in (np.arange(split.num_ops), rules.random_order(split, 1)):
        results = run(program, graph, split, order, module, batch)
        torch.testing.assert_close(sum(replica[0] for replica in results), loss)
        for found, wanted in zip(results[0][1:], expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["residual", "branches", "attention"])
def test_outputs_are_those_of_the_full_batch(name):
    torch.manual_seed(0)
    module, (example,) = MODULES[name]()
    module.eval()
    batch = [example, example.flip(0), 2 * example]
    recorded = tracing.trace(module, (example,), {}, mode="inference", loss=None)
    program = lowering.simplified(recorded)
    graph = lowering.lower(program).build()
    split = microbatches(graph, PARTS)
    results = run(program, graph, split, np.arange(split.num_ops), module, batch)
    with torch.no_grad():
        whole = module(torch.cat(batch))
    whole = whole if isinstance(whole, tuple) else (whole,)
    for parts, wanted in zip(zip(*results, strict=True), whole, strict=True):
        torch.testing.assert_close(torch.cat(parts), wanted, rtol=1e-4, atol=1e-5)


def run(program, graph, split, order, module, batch):
    """Runs a split graph op by op, a memory a replica; the results of each replica."""
    memories = [Memory({}) for _ in batch]
    for memory, part in zip(memories, batch, strict=True):
        given = named_values(module, [part])
        memory.storages = {s: given[n].detach().untyped_storage() for s, n in program.names.items()}
        memory.storages |= {s: part.clone().untyped_storage() for s in _inputs(program)}
        for call in program.constants:
            memory.run(call)
    storage_of = {t: _storage(program, graph, t) for t in range(graph.num_tensors)}
    for op in order.tolist():
        if split.op_kinds[op] == "accumulate":
            accumulate(split, op, graph, storage_of, memories, program)
        else:
            label, replica = split.op_names[op].rsplit("@", 1)
            memories[int(replica)].run(program.calls[graph.op_names.index(label)])
    return [[memory.tensor(view) for view in program.results] for memory in memories]


def accumulate(split, op, graph, storage_of, memories, program):
    """Adds a replica's gradient to the first one's: both are among what the op reads."""
    data = [t for t in split.inputs.row(op).tolist() if split.size[t]]
    accumulator = min(data)
    assert accumulator < graph.num_tensors
    producer = int(split.producer[max(data)])
    replica = int(split.op_names[producer].rsplit("@", 1)[1])
    view = next(v for v in program.results if v.storage == storage_of[accumulator])
    memories[0].tensor(view).add_(memories[replica].tensor(view))


def _inputs(program):
    return [storage for storage, role in program.roles.items() if role == "input"]


def _storage(program, graph, tensor):
    """The storage of a tensor that an op makes, -1 for others."""
    op = int(graph.producer[tensor])
    if op < 0 or graph.size[tensor] == 0:
        return -1
    made = [t for t in graph.outputs.row(op).tolist() if graph.size[t]]
    kept = [s for s in program.calls[op].makes if program.num_bytes[s]]
    assert len(list(tensor_views(program.calls[op].result))) >= len(kept)
    return kept[made.index(tensor)]
