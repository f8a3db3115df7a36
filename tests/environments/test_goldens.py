"""Costs of stored chromosomes, to the last bit, as versions before have computed them."""

from pathlib import Path

import numpy as np
import pytest

import regal_jax as rj

GOLDENS = Path(__file__).parents[1] / "goldens"
COSTS = dict(np.load(GOLDENS / "costs.npz"))
PLATFORMS = {
    "peak_memory": {"objective": "peak_memory"},
    "capacity": {"objective": "peak_memory", "memory_capacity": 407_356_416},
    "makespan": {"objective": "makespan"},
    "transfers": {"objective": "makespan", "latency": 2.5, "per_byte": 2.0**-12},
}


def chromosomes(num_genes: int) -> np.ndarray:
    """float32[8, num_genes]; stored in bytes, repeated where more are needed."""
    stored = (COSTS["chromosomes"] / np.float32(255)).astype(np.float32)
    return np.tile(stored, (1, 4))[:, :num_genes]


@pytest.mark.parametrize("name", PLATFORMS)
def test_placements(name):
    problem = rj.PlacementProblem(
        rj.load_graph(GOLDENS / "placement.json"), 3, **PLATFORMS[name], backend="native"
    )
    rows = chromosomes(problem.num_genes)
    np.testing.assert_array_equal(problem.fitness(rows), COSTS[name])
    if name != "capacity":
        assert [problem.decode(row).cost for row in rows] == COSTS[name].tolist()


@pytest.mark.parametrize("generation", ["parallel", "serial"])
def test_machine_types(generation):
    graph = rj.load_graph(GOLDENS / "machines.json")
    problem = rj.MachineProblem(graph, generation=generation)
    rows = chromosomes(problem.num_genes)
    np.testing.assert_array_equal(problem.fitness(rows), COSTS[generation])
    assert [problem.decode(row).cost for row in rows] == COSTS[generation].tolist()
