"""Trials on a target, each learning from those before."""

import time

import numpy as np
import pytest

import regal_jax as rj
from regal_jax.environments.placement import checker
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import trials
from regal_jax.search.list_scheduling import price_sweep
from regal_jax.search.placements import candidates
from tests.contracts import UNTIMED
from tests.graphs.cases import single_input_graph

GRAPH = single_input_graph(seed=4, num_ops=24)
PROBLEM = PlacementProblem(GRAPH, 3, "makespan")
SWEPT = candidates.best_schedules(
    PROBLEM, candidates.from_schedules(price_sweep.schedules(GRAPH, PROBLEM.platform, 49)), 98
)
MODEL = rj.TargetModel(latency_share=1.0, noise=0.35, seed=1)


def run(count, model=MODEL, problem=PROBLEM, seed=0, ranked=SWEPT):
    return trials.run(problem, ranked, rj.simulated(problem.graph, model), count, seed)


@pytest.mark.parametrize("count", [1, 2, 3, 11, 40])
def test_as_many_as_asked_for_none_twice(count):
    tried = run(count)
    assert len(tried) == count
    chains = candidates.chains(candidates.from_schedules([one.schedule for one in tried]))
    assert len(np.unique(chains, axis=0)) == count
    time_of = rj.simulated(GRAPH, MODEL)
    for schedule, took in tried:
        assert schedule.makespan == checker.evaluate(GRAPH, schedule).makespan
        assert took == time_of(schedule)


def test_trials_learn():
    """As many trials of the sampler's schedules are behind, on average over targets."""
    gains = []
    for seed in range(6):
        model = rj.TargetModel(latency_share=1.0, noise=0.5, seed=seed)
        time_of = rj.simulated(GRAPH, model)
        least = min(one.time for one in run(60, model, seed=seed))
        gains.append(min(time_of(one) for one in SWEPT[:60]) / least)
    assert np.mean(gains) > 1.01
    assert min(gains) > 0.99


def test_a_seed_is_repeated_and_trials_are_told():
    told = []
    time_of = rj.simulated(GRAPH, MODEL)
    tried = trials.run(PROBLEM, SWEPT, time_of, 20, 1, lambda *point: told.append(point))
    assert tried == run(20, seed=1)
    times = [one.time for one in tried]
    assert told == [(number, min(times[:number])) for number in range(1, 21)]
    assert times != [one.time for one in run(20, seed=2)]


def test_out_of_time_there_is_one_trial():
    tried = trials.run(
        PROBLEM, SWEPT, rj.simulated(GRAPH, MODEL), 20, 0, deadline=time.perf_counter()
    )
    assert [one.schedule for one in tried] == SWEPT[:1]


def test_nothing_to_schedule():
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    schedule = rj.optimize(empty, objective="makespan", target=rj.TargetModel(latency=1.0))
    assert (schedule.makespan, schedule.target_time) == (0.0, 0.0)


def test_few_schedules_there_are():
    """Of two ops that wait for each other there are two schedules but for names."""
    graph = ComputationGraph.create(
        num_ops=2, producer=[0], size=[4], consumers=[[1]], duration=[2.0, 3.0]
    )
    problem = PlacementProblem(graph, 2, "makespan")
    ranked = price_sweep.schedules(graph, problem.platform, 1)
    tried = run(9, problem=problem, ranked=ranked[:1])
    assert 1 <= len(tried) <= 2


def test_memory_is_kept_to():
    peak = max(SWEPT[0].peak_memory)
    tight = PlacementProblem(GRAPH, 3, "makespan", memory_capacity=peak)
    ranked = [one for one in SWEPT if tight.fits(one)]
    assert all(tight.fits(one.schedule) for one in run(30, problem=tight, ranked=ranked))


def test_auto_tries_a_hundred():
    asked = {"objective": "makespan", "num_devices": 3, "target": MODEL}
    told = []
    auto = rj.optimize(GRAPH, **asked, on_progress=lambda *point: told.append(point))
    same = rj.optimize(GRAPH, method="regal", trials=100, **asked)
    assert auto.replace(**UNTIMED) == same.replace(**UNTIMED)
    assert told[-1] == (100, auto.target_time)
    few = rj.optimize(GRAPH, candidates=100, **asked)
    assert auto.target_time <= few.target_time


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": 0}, "trials must be an integer >= 1, got 0"),
        ({"trials": 1.5}, "trials must be an integer >= 1"),
        ({"trials": 4, "candidates": 4}, "give one of them"),
        ({"trials": 4, "target": None}, "trials are what is tried on a target"),
    ],
)
def test_options_out_of_range(changes, message):
    asked = {"objective": "makespan", "target": MODEL, "method": "price_sweep"} | changes
    with pytest.raises(OptionError, match=message):
        rj.optimize(GRAPH, **asked)
