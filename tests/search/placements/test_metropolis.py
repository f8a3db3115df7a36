"""Metropolis's walk, against the distribution itself."""

from collections import Counter

import numpy as np
import pytest

from regal_jax.datasets.task_graphs import task_graph
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.search.placements import candidates, metropolis
from tests.graphs.cases import single_input_graph
from tests.oracles import flows

GRAPH = task_graph([(0, 2), (1, 2), (1, 3), (3, 4)], [2.0, 1.0, 3.0, 1.5, 0.5])


def state(placement, sequence):
    chains = [[], []]
    for op in sequence.tolist():
        chains[placement[op]].append(op)
    return tuple(map(tuple, chains))


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_schedules_are_drawn_in_proportion_to_their_reward(temperature):
    problem, count = PlacementProblem(GRAPH, 2, "makespan"), 100_000
    found = metropolis.sample(problem, temperature, 20 * count, count, 0)
    counts = Counter(map(state, *found))
    *_, complete = flows.layers(flows.producers(GRAPH), 2, symmetric=False)
    assert set(counts) <= set(complete)
    speedups = np.array([8.0 / flows.makespan(one, GRAPH) for one in complete])
    exact = np.exp((speedups - speedups.max()) / temperature)
    exact /= exact.sum()
    drawn = np.array([counts[one] for one in complete]) / count
    assert np.abs(drawn - exact).sum() / 2 < 0.02
    uniform = np.full(len(complete), 1 / len(complete))
    assert np.abs(uniform - exact).sum() / 2 > 0.06


def test_transfers_count_and_a_seed_is_repeated():
    graph = single_input_graph(seed=1, num_ops=20)
    problem = PlacementProblem(graph, 3, "makespan", latency=2 * float(graph.duration.mean()))
    one, same = (metropolis.sample(problem, 0.01, 50_000, 10, 3) for _ in range(2))
    other = metropolis.sample(problem, 0.01, 50_000, 10, 4)
    np.testing.assert_array_equal(one.sequence, same.sequence)
    assert one.sequence.tolist() != other.sequence.tolist()
    free = metropolis.sample(PlacementProblem(graph, 3, "makespan"), 0.01, 50_000, 10, 3)
    mean = candidates.makespans(problem, one).mean()
    assert mean < candidates.makespans(problem, free).mean()


@pytest.mark.parametrize("moves", [1, 2, 3])
def test_short_walks(moves):
    found = metropolis.sample(PlacementProblem(GRAPH, 2, "makespan"), 0.1, moves, 1, 0)
    assert candidates.makespans(PlacementProblem(GRAPH, 2, "makespan"), found)[0] > 0


def test_ops_that_take_no_time():
    still = GRAPH.replace(duration=0 * GRAPH.duration)
    problem = PlacementProblem(still, 2, "makespan")
    assert candidates.makespans(problem, metropolis.sample(problem, 0.1, 100, 3, 0)).max() == 0.0
