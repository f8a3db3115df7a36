"""Programs that race: what they report are costs of schedules, and none is below the optimum."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import regal_jax as rj
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from tests.oracles.exhaustive_search import least_peak_memory
from tests.oracles.schedule_cost import plain
from tests.policies.cases import random_graph

FOLDER = Path(__file__).parents[2] / "benchmarks"
NEEDS = {"pymoo_brkga": "pymoo", "cp_sat": "ortools", "saga_heft": "saga"}


@pytest.fixture(scope="module")
def contenders():
    spec = importlib.util.spec_from_file_location("contenders", FOLDER / "contenders.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["contenders"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["contenders"]


def raced(contenders, name, problem, seconds=3.0):
    """Costs, as they were found. What compiles does so before, in time of its own."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    platform = {"latency": problem.platform.latency, "per_byte": problem.platform.per_byte}
    rj.optimize(problem.graph, objective=problem.objective, evaluations=5000, **platform)
    problem.fitness(np.zeros((1, problem.num_genes), np.float32))
    points = getattr(contenders, name)(problem, seconds, 0)
    after, costs = np.array(points).T
    assert np.all(np.diff(after) >= 0)
    assert np.all(after >= 0)
    return costs


@pytest.mark.parametrize("name", ["auto", "cp_sat", "pymoo_brkga"])
def test_the_least_peak_is_found(contenders, name):
    graph = random_graph(3, 6)
    problem = PlacementProblem(graph, num_devices=2)
    costs = raced(contenders, name, problem)
    assert costs.min() == least_peak_memory(plain(graph), 2)


@pytest.mark.parametrize("name", ["auto", "cp_sat", "pymoo_brkga", "saga_heft"])
def test_makespans_are_those_of_the_cost_model(contenders, name):
    graph = random_graph(5, 8)
    platform = Platform(2, latency=0.3, per_byte=1e-3)
    problem = PlacementProblem.on(graph, platform, "makespan")
    costs = raced(contenders, name, problem)
    best = raced(contenders, "auto", problem).min()
    assert np.all(costs >= problem.lower_bound - 1e-9)
    assert costs.min() >= best - 1e-9 if name == "saga_heft" else math.isclose(costs.min(), best)
