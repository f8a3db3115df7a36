"""Tabu search on machines that run one op at a time: valid, never longer, optimal where known."""

import networkx as nx
import numpy as np
import pytest

from regal_jax.datasets.job_shop import classic_job_shops
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Budget
from regal_jax.search.disjunctive import kernel, search
from regal_jax.search.rcpsp import rules
from tests.search.rcpsp.cases import (
    FT06,
    check_valid,
    job_shop,
    least_makespan,
    random_machines,
)


def starts_of(graph: ComputationGraph, names=("spt", "lpt")) -> np.ndarray:
    genes = np.stack([rules.genes(rules.RULES[name](graph)) for name in names])
    return MachineProblem(graph, generation="serial").starts(genes)


def improved(graph, moves, seed=0, starts=None):
    machine = search.machines(graph)
    starts = starts_of(graph) if starts is None else starts
    return search.improve(MachineProblem(graph), machine, Budget(moves, seed), starts)


def test_machines_run_one_op_at_a_time_or_never_make_any_wait():
    graph = FT06.replace(demand=np.ones(36, int))
    assert search.machines(graph).tolist() == graph.machine_type.tolist()
    two = np.where(np.arange(6) == 3, 2, 1)
    assert search.machines(graph.replace(capacity=two)) is None
    wide = graph.replace(capacity=two, demand=1 + (graph.machine_type == 3))
    assert search.machines(wide).tolist() == graph.machine_type.tolist()
    six = np.where(np.arange(6) == 3, 6, 1)
    free = search.machines(graph.replace(capacity=six))
    assert free.tolist() == np.where(graph.machine_type == 3, -1, graph.machine_type).tolist()
    idle = np.ones(36, int)
    idle[5] = 0
    assert search.machines(graph.replace(demand=idle))[5] == -1


@pytest.mark.parametrize(("name", "most", "moves"), [("ft06", 55, 2000), ("ft10", 940, 100_000)])
def test_classic_job_shops_are_solved_or_nearly(name, most, moves):
    """Their optima are 55 and 930."""
    (graph,) = (one for one in classic_job_shops("ft") if one.name == name)
    found = improved(graph, moves)
    assert found.schedule.makespan <= most
    assert found.evaluations <= moves
    check_valid(graph, found.schedule.start)


@pytest.mark.parametrize("seed", range(12))
def test_small_problems_are_solved_and_schedules_are_valid(seed):
    """Any precedence, demands of 0, ops that make none wait, no duration, fractions of them."""
    graph = random_machines(seed, 6, capacity=(1, 1, 1), density=0.2, whole=seed % 2 == 0)
    graph = graph.replace(duration=graph.duration * (np.arange(6) != seed % 6))
    found = improved(graph, 500, seed)
    check_valid(graph, found.schedule.start)
    assert found.schedule.makespan == pytest.approx(least_makespan(graph), rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_many_ops_without_duration_contradict_no_precedence(seed):
    graph = random_machines(seed, 40, capacity=(1, 1), density=0.05)
    graph = graph.replace(duration=np.maximum(graph.duration - 20, 0))
    starts = starts_of(graph)
    found = improved(graph, 3000, seed, starts)
    check_valid(graph, found.schedule.start)
    assert found.schedule.makespan <= (starts + graph.duration).max(axis=1).min()


def test_heads_and_tails_are_longest_paths():
    graph = random_machines(3, 30, capacity=(1, 1, 1), density=0.1, whole=False)
    machine = search.machines(graph)
    searcher = search._Searcher(graph, machine, 0.0, np.random.default_rng(0))
    for start in starts_of(graph):
        elite = searcher.search(start, Budget(searcher.spent + 50), 1000)
        state = searcher._state
        arcs = [*graph.op_pairs.tolist(), *enumerate(state.following.tolist())]
        paths = nx.DiGraph([arc for arc in arcs if arc[1] != kernel.NONE])
        paths.add_nodes_from(range(30))
        head, tail = np.zeros(30), np.zeros(30)
        for op in nx.topological_sort(paths):
            head[op] = max((head[u] + graph.duration[u] for u in paths.pred[op]), default=0.0)
        for op in reversed(list(nx.topological_sort(paths))):
            tail[op] = max((tail[v] + graph.duration[v] for v in paths.succ[op]), default=0.0)
        np.testing.assert_array_equal(state.head, head)
        np.testing.assert_allclose(state.tail, tail)
        assert elite.makespan <= state.makespan[0] == (head + graph.duration).max()


def test_the_same_seed_gives_the_same_schedule_and_more_moves_no_worse_one():
    graph = next(one for one in classic_job_shops("la") if one.num_ops >= 150)
    few, again, more = (improved(graph, moves) for moves in (1500, 1500, 15_000))
    assert few.schedule.start.tolist() == again.schedule.start.tolist()
    assert more.schedule.makespan <= few.schedule.makespan
    spent, costs = zip(*more.history, strict=True)
    assert list(spent) == sorted(set(spent))
    assert list(costs) == sorted(costs, reverse=True)
    assert improved(graph, 0).evaluations == 0


def test_a_schedule_without_a_choice_is_optimal_at_once():
    graph = job_shop([[0, 1], [2, 3]], [[3, 4], [1, 1]])
    found = improved(graph, 100)
    assert (found.schedule.makespan, found.evaluations, found.history) == (7.0, 0, ((0, 7.0),))
    chain = job_shop([[0, 0, 0]], [[1, 2, 3]])
    assert improved(chain, 100).schedule.makespan == 6.0


def test_what_both_schedules_order_alike_stays_so():
    rng, graph = np.random.default_rng(0), FT06
    one, other = starts_of(graph)
    between = search._between(rng, [search.Elite(0.0, one), search.Elite(0.0, other)])
    alike = (one[:, None] < one) & (other[:, None] < other)
    assert np.all((between[:, None] < between)[alike])


def test_a_block_whose_ends_are_fixed_is_changed_inside():
    """Two machines: 0, 1, 2, 3 in a row on the first, the first and last pairs bound, and ops of
    the second behind 1 and before 2, so that nothing may surely go behind 3 or before 0."""
    graph = ComputationGraph.create(
        num_ops=7,
        producer=[0, 2, 1, 4, 6],
        size=np.zeros(5, int),
        consumers=[[1], [3], [4], [5], [2]],
        duration=[2.0, 2.0, 2.0, 2.0, 4.0, 4.0, 1.0],
        machine_type=[0, 0, 0, 0, 1, 1, 1],
        capacity=[1, 1],
    )
    found = improved(graph, 200, starts=starts_of(graph, ("lpt",)))
    check_valid(graph, found.schedule.start)
    assert found.schedule.makespan == least_makespan(graph)
