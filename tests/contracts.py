"""What every registered entry has to keep, whoever wrote it.

The tests of methods, data sets, importers and environments run these over the whole registry.
"""

import math

import numpy as np

import regal_jax as rj
from regal_jax import registry
from regal_jax.search import base

UNTIMED = {"seconds": 0.0, "compile_seconds": 0.0}
"""What two equal searches may differ in."""


def check_method(graph, method, evaluations, **options):
    """A valid schedule, exactly costed, at or above the bound; a history that never rises, to
    its cost; no more than the budget; the same for the same seed, compiled once.

    Returns (schedule, what was reported)."""
    reports = []
    schedule = rj.optimize(
        graph,
        method=method,
        evaluations=evaluations,
        on_progress=lambda done, cost: reports.append((done, cost)),
        **options,
    )
    check_schedule(graph, schedule)
    assert 0 < schedule.evaluations <= max(evaluations, 2)
    check_history(schedule)
    compiled = _programs()
    again = rj.optimize(graph, method=method, evaluations=evaluations, **options)
    assert again.replace(**UNTIMED) == schedule.replace(**UNTIMED)
    assert _programs() == compiled, "the same search is compiled twice"
    return schedule, reports


def check_schedule(graph, schedule):
    """Exact costs, and a bound that holds."""
    cost = rj.evaluate(graph, schedule)
    assert schedule.makespan == cost.makespan
    assert schedule.peak_memory == tuple(cost.peak_memory.tolist())
    assert schedule.lower_bound <= schedule.cost


def check_history(schedule):
    """Best costs so far by evaluations spent, to the schedule's own."""
    spent, costs = zip(*schedule.history, strict=True)
    assert np.all(np.diff(spent) > 0)
    assert np.all(np.diff(costs) <= 0)
    assert schedule.history[-1] == (schedule.evaluations, schedule.cost)
    assert all(math.isfinite(cost) for cost in costs)


def check_dataset(name):
    """Valid graphs in every split, none in two, the same each time."""
    make = registry.find("dataset", name).make
    names = {}
    for split in ("train", "valid", "test"):
        graphs, again = list(make(split)), list(make(split))
        assert graphs, f"{name} has no graph to {split}"
        assert all(isinstance(graph, rj.ComputationGraph) for graph in graphs)
        assert [graph.name for graph in graphs] == [graph.name for graph in again]
        names[split] = {graph.name for graph in graphs}
    assert not names["train"] & names["test"]
    assert not names["train"] & names["valid"]
    assert not names["valid"] & names["test"]


def check_problem(problem, seed=0):
    """One cost by every way, padding that is undone, and schedules that can be encoded."""
    rng = np.random.default_rng(seed)
    chromosomes = rng.random((5, problem.num_genes), np.float32)
    costs = np.asarray(problem.fitness(chromosomes), float)
    padded = problem.pad(chromosomes)
    assert padded.shape == (5, problem.spec.num_genes)
    np.testing.assert_array_equal(problem.unpad(padded), chromosomes)
    np.testing.assert_allclose(problem.spec.costs(problem.operand, padded), costs, rtol=1e-5)
    assert hash(problem.spec) == hash(problem.spec)
    assert np.all(costs >= problem.lower_bound)
    for chromosome, cost in zip(chromosomes, costs, strict=True):
        schedule = problem.decode(chromosome)
        assert schedule.cost == cost
        assert problem.decode(problem.encode(schedule)).cost <= cost


def _programs() -> int:
    return sum(part._cache_size() for part in (base._init, base._advance, base._finish))
