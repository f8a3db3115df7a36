"""``regal-jax check``: what was written is accepted, and no number of it can be changed."""

import json

import numpy as np
import pytest

import regal_jax as rj
from regal_jax import cli
from tests.graphs.cases import single_input_graph

GRAPH = single_input_graph(seed=2, num_ops=12)
MACHINES = GRAPH.replace(
    capacity=np.array([2, 3]),
    machine_type=np.arange(12, dtype=np.int32) % 2,
    demand=1 + np.arange(12) % 2,
)
CASES = {
    "peak memory": (GRAPH, {"method": "lpmf", "num_devices": 1}),
    "two devices": (GRAPH, {"method": "auto", "evaluations": 900, "latency": 1.5}),
    "makespan": (GRAPH, {"objective": "makespan", "method": "etf", "per_byte": 0.25}),
    "capacity": (GRAPH, {"method": "brkga", "evaluations": 150, "memory_capacity": 10**9}),
    "machine types": (MACHINES, {"objective": "makespan", "evaluations": 200}),
    "a rule": (MACHINES, {"objective": "makespan", "method": "spt"}),
}
PLATFORM = ("memory_capacity", "latency", "per_byte")

CHANGES = {
    "makespan more": lambda d: d.update(makespan=d["makespan"] * (1 + 1e-6) + 1e-6),
    "makespan 0": lambda d: d.update(makespan=0.0),
    "no makespan": lambda d: d.pop("makespan"),
    "bound": lambda d: d.update(lower_bound=2 * cost_of(d) + 1),
    "no peak": lambda d: d.update(peak_memory=[0] if d["peak_memory"] == [] else []),
    "peak less": lambda d: d.update(peak_memory=[p - 1 for p in d["peak_memory"]] or [5]),
    "a device more": lambda d: d.update(peak_memory=[*d["peak_memory"], 0]),
    "evaluations": lambda d: d.update(evaluations=d["history"][-1][0] - 1),
    "negative evaluations": lambda d: d.update(evaluations=-1, history=[]),
    "seconds": lambda d: d.update(seconds=-0.5),
    "compile_seconds": lambda d: d.update(compile_seconds=-0.5),
    "history lower": lambda d: d["history"].append([d["evaluations"], cost_of(d) - 1]),
    "history's end": lambda d: d["history"][-1].__setitem__(1, cost_of(d) + 1),
}


def cost_of(document):
    if document["objective"] == "makespan":
        return document["makespan"]
    return max(document["peak_memory"])


@pytest.fixture(scope="module", params=CASES, ids=CASES)
def written(request, tmp_path_factory):
    """(arguments of ``regal-jax check``, the schedule's file)."""
    graph, options = CASES[request.param]
    folder = tmp_path_factory.mktemp("claims")
    rj.save_graph(graph, folder / "graph.json")
    rj.save_schedule(rj.optimize(graph, **options), folder / "schedule.json")
    flags = [f"--{name}={options[name]}" for name in PLATFORM if name in options]
    files = [str(folder / "graph.json"), str(folder / "schedule.json")]
    return ["check", *files, *flags], folder / "schedule.json"


def test_what_was_written_is_valid(written, capsys):
    assert cli.main(written[0]) == 0
    assert capsys.readouterr().out.startswith("valid")


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_number_is_refused(written, change, capsys):
    command, path = written
    before = path.read_text()
    document = json.loads(before)
    CHANGES[change](document)
    path.write_text(json.dumps(document))
    try:
        assert cli.main(command) == 2
    finally:
        path.write_text(before)
    assert capsys.readouterr().err.count("\n") == 1
