"""Searches on machine problems: budgets, seeds, warm starts, and what they find."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from regal_jax.methods import evolution, one_shot
from regal_jax.options import Budget
from regal_jax.search import base
from regal_jax.search.evolution.brkga import BRKGAConfig
from regal_jax.search.rcpsp import rules as rcpsp_rules
from regal_jax.search.rcpsp import search
from tests.search.rcpsp.cases import (
    FT06,
    check_valid,
    job_shop,
    least_makespan,
    random_machines,
    tiny_machines,
)

SMALL = BRKGAConfig(population=20, elites=4, children=14)
GENERATIONS = ["parallel", "serial"]


class Impatient(Budget):
    """A budget that is out of time when it says so."""

    @property
    def out_of_time(self):
        return next(self.deadline)


def brkga(problem, evaluations, seed=0, known=None, budget=Budget, **changes):
    spent = budget(evaluations, seed)._replace(**changes)
    return evolution.evolve(problem, spent, jax.random.key(seed), config=SMALL, known=known)


def improve(graph, evaluations, seed=0, warm_start=None, budget=Budget, **changes):
    spent = budget(evaluations, seed)._replace(**changes)
    return search.improve(graph, spent, warm_start=warm_start)


def check(problem, found):
    """The best schedule is one of the problem's generation, and its history says so."""
    start = found.schedule.start
    check_valid(problem.graph, start)
    if problem.generation == "serial":
        own = problem.encode(found.schedule)
        np.testing.assert_array_equal(problem.starts(own[None])[0], start)
    assert found.cost == found.schedule.makespan
    spent, costs = zip(*found.history, strict=True)
    assert list(spent) == sorted(set(spent))
    assert list(costs) == sorted(costs, reverse=True)
    assert spent[-1] == found.evaluations


def same(first, again):
    np.testing.assert_array_equal(first.schedule.start, again.schedule.start)
    assert (first.evaluations, first.history) == (again.evaluations, again.history)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("whole", [True, False])
def test_brkga_is_never_worse_than_its_warm_start(generation, whole):
    graph = random_machines(2, 30, whole=whole)
    problem = MachineProblem(graph, generation=generation)
    rng = np.random.default_rng(1)
    warm = rng.random((3, problem.num_genes), np.float32)
    warm[1, : graph.num_ops] = rcpsp_rules.genes(rcpsp_rules.critical_path(graph))
    for evaluations in (20, 84):
        found = brkga(problem, evaluations=evaluations, known=warm)
        check(problem, found)
        assert found.evaluations == evaluations
        assert found.cost <= np.min(problem.makespans(warm))


def test_a_warm_start_that_is_best_is_found_bit_for_bit():
    """Floating-point durations that float32 can't tell apart."""
    graph = random_machines(4, 12, capacity=(1,), density=0.0)
    close = graph.replace(duration=1.0 + 1e-10 * np.arange(12), demand=np.ones(12, int))
    problem = MachineProblem(close.replace(capacity=np.array([12])))
    warm = np.zeros((1, 12), np.float32)
    found = brkga(problem, evaluations=20, known=warm)
    assert found.cost == problem.makespans(warm)[0] == 1.0 + 1e-10 * 11


def test_brkga_counts_and_reports():
    problem, seen = MachineProblem(FT06), []
    found = brkga(problem, evaluations=95, on_progress=lambda *now: seen.append(now))
    check(problem, found)
    assert found.evaluations == 95
    assert [spent for spent, _ in found.history] == [20, 36, 52, 68, 84, 95]
    assert seen[-1] == found.history[-1]


def test_brkga_stops_when_out_of_time():
    problem = MachineProblem(FT06)
    asked = iter([False, True])
    found = brkga(problem, evaluations=10_000, budget=Impatient, deadline=asked)
    check(problem, found)
    assert found.evaluations == 20 + 20 * 16  # one report's generations
    unasked = brkga(problem, evaluations=340)
    same(found, unasked)


def test_brkga_is_a_function_of_its_seed():
    problem = MachineProblem(FT06)
    first, again, other = (brkga(problem, evaluations=84, seed=seed) for seed in (0, 0, 1))
    same(first, again)
    assert np.any(first.schedule.start != other.schedule.start)


def test_problems_of_similar_size_share_a_compilation():
    parts = (base._init, base._advance)
    compiled = []
    for seed in (1, 2):
        graph = random_machines(seed, 40 + seed, density=0.05)
        brkga(MachineProblem(graph), evaluations=52)
        compiled.append([part._cache_size() for part in parts])
    assert compiled[0] == compiled[1]


def test_brkga_refuses_a_budget_below_its_population():
    with pytest.raises(OptionError, match="20"):
        brkga(MachineProblem(FT06), evaluations=19)
    warm = np.zeros((21, 36), np.float32)
    with pytest.raises(OptionError, match="21 warm starts"):
        brkga(MachineProblem(FT06), evaluations=40, known=warm)


def test_the_papers_search():
    """Population 1,000, a hundred generations: Pymoo's other defaults add up to the population."""
    config = one_shot.GENETIC
    assert (config.population, config.elites, config.children, config.mutants) == (
        1000,
        200,
        700,
        100,
    )
    assert one_shot.GENETIC_EVALUATIONS == 1000 + 100 * 800
    assert config.population > one_shot.GENETIC_SAMPLES


@settings(max_examples=25, deadline=None)
@given(tiny_machines)
def test_improvement_finds_the_shortest_schedules_of_tiny_graphs(graph):
    found = improve(graph, evaluations=600)
    check(MachineProblem(graph, generation="serial"), found)
    assert found.cost == least_makespan(graph)


def test_improvement_finds_the_shortest_schedule_of_ft06():
    found = improve(FT06, evaluations=6000)
    assert found.cost == 55


@pytest.mark.parametrize("evaluations", [1, 2, 30, 44, 45, 100, 132, 134, 500, 1001])
def test_improvement_stays_within_its_budget(evaluations):
    seen = []
    graph = random_machines(8, 60)
    found = improve(graph, evaluations=evaluations, on_progress=lambda *now: seen.append(now))
    check(MachineProblem(graph, generation="serial"), found)
    assert evaluations - 2 <= found.evaluations <= evaluations
    assert [spent for spent, _ in seen] == [spent for spent, _ in found.history]


@pytest.mark.parametrize("whole", [True, False])
def test_improvement_is_never_worse_than_rules_or_its_warm_start(whole):
    graph = random_machines(9, 60, whole=whole)
    for generation in ("parallel", "serial"):
        problem = MachineProblem(graph, generation=generation)
        rules = [rcpsp_rules.genes(rule(graph)) for rule in rcpsp_rules.RULES.values()]
        assert improve(graph, evaluations=50).cost <= np.min(problem.makespans(rules))
    good = improve(graph, evaluations=1500, seed=1)
    for evaluations in (1, 60):
        found = improve(graph, evaluations=evaluations, warm_start=good.schedule.start[None])
        assert found.cost <= good.cost


def test_improvement_is_a_function_of_its_seed():
    graph = random_machines(10, 60)
    first, again, other = (improve(graph, evaluations=400, seed=seed) for seed in (0, 0, 1))
    same(first, again)
    assert np.any(first.schedule.start != other.schedule.start)


def test_improvement_stops_when_out_of_time_or_at_the_bound():
    graph = random_machines(10, 60)
    asked = iter([False, False, True])
    found = improve(graph, evaluations=10**6, budget=Impatient, deadline=asked)
    spent = [spent for spent, _ in found.history]
    assert np.diff(spent).tolist() == [48, 48]
    assert spent[0] <= 3 * 44
    chain = job_shop([[0, 1, 0]], [[1, 2, 3]])
    done = improve(chain, evaluations=10**6)
    assert done.cost == 6
    assert done.evaluations <= 132


def test_improvement_needs_an_evaluation():
    with pytest.raises(OptionError, match="evaluations"):
        improve(FT06, evaluations=0)
