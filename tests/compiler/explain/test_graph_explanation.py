"""What explains a schedule of a graph: by hand, against the checker, and remedies carried out."""

import numpy as np
import pytest
from hypothesis import given, settings

from regal_jax.compiler.explain import explain as explain_module
from regal_jax.compiler.explain.explain import explain
from regal_jax.compiler.explain.graph_explanation import (
    GraphExplanation,
    explain_graph,
    program_order,
)
from regal_jax.compiler.explain.graph_text import (
    graph_explanation_numbers,
    graph_explanation_text,
)
from regal_jax.datasets import job_shop
from regal_jax.environments.placement import checker
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import rcpsp
from tests.reporting.cases import hand_graph, hand_schedule, scheduled_graphs

UNET = ComputationGraph.create(
    num_ops=5,
    producer=[-1, 0, 1, 2, 3, 4],
    size=[64, 100, 100, 10, 10, 10],
    persistent=[True, False, False, False, False, False],
    consumers=[[0], [1, 4], [2, 4], [3], [4], []],
    workspace=[0, 0, 0, 7, 0],
    op_kinds=("conv", "relu", "conv", "conv", "add"),
    name="net",
)
"""a = conv(w), b = relu(a), c = conv(b), d = conv(c), add(a, b, d): 291 bytes while conv d runs."""


def test_by_hand():
    one = explain_graph(UNET)
    assert (one.peak, one.peak_step, one.device) == (64 + 200 + 10 + 10 + 7, 4, 0)
    assert [(live.tensor, live.made, live.idle(4)) for live in one.live] == [
        (1, 1, 3),
        (2, 2, 2),
        (0, 0, None),
        (3, 3, 0),
        (4, 4, 0),
    ]
    found = {remedy.how: (remedy.tensors, remedy.saves) for remedy in one.remedies}
    # 284 bytes are in use while add runs, whatever was away before.
    assert found["recompute"] == ((2,), 291 - 284)
    assert found["offload"] == ((1, 2), 291 - 284)
    assert found["persistent"] == ((0,), 32)
    assert found["workspace"] == ((), 291 - 284)
    assert one.bound <= one.peak
    assert one.reducible == one.peak - one.bound


def test_text_and_numbers_say_the_same():
    one = explain_graph(hand_graph(), hand_schedule())
    text, told = graph_explanation_text(one), graph_explanation_numbers(one)
    assert text.startswith("hand: peak memory 153 B, at step 3 of 6, device 0 of 2")
    assert "b (add) runs there, with a workspace of 5 B" in text
    assert "largest 3 of 3" in text
    assert (told["peak"], told["peak_step"], told["device"]) == (153, 3, 0)
    assert sum(live["num_bytes"] for live in told["live"]) == 153 - 5
    assert "largest 1 of 3" in graph_explanation_text(one, top=1)
    with pytest.raises(OptionError, match="top must be at least 1"):
        graph_explanation_text(one, top=0)


def test_a_search_is_compared_and_what_is_optimal_is_said():
    text = graph_explanation_text(explain_graph(hand_graph(), search=True))
    assert "Schedules compared" in text
    assert "auto (searched)" in text
    assert "this one is optimal" in text


@settings(max_examples=100)
@given(scheduled_graphs())
def test_what_is_live_adds_up_and_remedies_are_carried_out(case):
    graph, schedule, _ = case
    one = explain_graph(graph, schedule)
    timeline = checker.memory_timeline(graph, schedule)
    assert one.peak == timeline.usage.max()
    at_peak = timeline.live_at_peak[one.device]
    assert sorted(live.tensor for live in one.live) == sorted(at_peak)
    assert [r.saves for r in one.remedies] == sorted((r.saves for r in one.remedies), reverse=True)
    assert all(0 < remedy.saves == one.peak - remedy.peak for remedy in one.remedies)
    graph_explanation_text(one)


@settings(max_examples=100)
@given(scheduled_graphs())
def test_recomputing_leaves_the_peak_that_was_estimated(case):
    graph = case[0].replace(op_kinds=("add",) * case[0].num_ops)
    one = explain_graph(graph)
    (remedy,) = [r for r in one.remedies if r.how == "recompute"] or [None]
    if remedy is not None:
        again = {live.tensor: live for live in one.live if live.tensor in remedy.tensors}
        other, steps = recomputed(graph, one.schedule.steps.tolist(), again)
        schedule = program_order(other).replace(steps=np.array(steps))
        assert checker.memory_timeline(other, schedule).usage.max() == remedy.peak


def recomputed(graph, steps, again):
    """(graph, steps) in which ops that make some tensors run again before these are read next; they
    read what was made again until then."""
    consumers, producer = graph.consumers.lists(), graph.producer.tolist()
    size, persistent, inputs = graph.size.tolist(), graph.persistent.tolist(), graph.inputs.lists()
    row = {op: place for place, op in enumerate(steps, 1)}
    order = [(row[op], 1, op) for op in steps]
    by_producer = sorted(again, key=lambda tensor: row[producer[tensor]])
    made_again = dict[int, int]()
    for copy, tensor in enumerate(by_producer, graph.num_ops):
        row[copy] = again[tensor].next_reader
        for needed in inputs[producer[tensor]]:
            anew = needed in made_again and again[needed].next_reader <= row[copy]
            consumers[made_again[needed] if anew else needed].append(copy)
        late = [op for op in consumers[tensor] if row[op] >= row[copy]]
        consumers[tensor] = [op for op in consumers[tensor] if op not in late]
        made_again[tensor] = len(producer)
        producer, size = [*producer, copy], [*size, size[tensor]]
        persistent, consumers = [*persistent, False], [*consumers, late]
        order.append((row[copy], 0, copy))
    num_ops = graph.num_ops + len(again)
    workspace = [*graph.workspace.tolist(), *[0] * len(again)]
    other = ComputationGraph.create(
        num_ops=num_ops,
        producer=producer,
        size=size,
        consumers=consumers,
        persistent=persistent,
        workspace=workspace,
    )
    return other, [op for _, _, op in sorted(order)]


def test_sources(tmp_path):
    from regal_jax.graphs import files

    files.save_graph(hand_graph(), tmp_path / "g.json")
    for source in (hand_graph(), tmp_path / "g.json", str(tmp_path / "g.json")):
        assert isinstance(explain(source), GraphExplanation)
    assert explain(hand_graph(), hand_schedule()).peak == 153


def test_a_module_of_pytorch():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    one = explain(module, torch.ones(4, 8))
    assert one.peak >= 4 * (8 * 16 + 16 + 16 * 2 + 2)
    training = explain(module, torch.ones(4, 8), mode="training")
    assert training.peak > one.peak


def test_machine_types_have_no_memory(tmp_path):
    (tmp_path / "jobs.txt").write_text("2 2\n0 3 1 2\n1 4 0 1\n")
    graph = job_shop.read_job_shop(tmp_path / "jobs.txt")
    schedule = rcpsp.best_rule_schedule(MachineProblem(graph))
    with pytest.raises(OptionError, match="no memory to explain"):
        explain_graph(graph, schedule)


def test_objects_of_pytorch_are_traced_by_its_importer(monkeypatch):
    module = type("Module", (), {"__module__": "torch.nn.modules.module"})()
    called = []
    monkeypatch.setattr(
        explain_module, "from_torch", lambda *a, **k: called.append((a, k)) or hand_graph()
    )
    assert explain(module, "inputs", mode="training").peak == 156
    assert called == [((module, "inputs"), {"mode": "training"})]
