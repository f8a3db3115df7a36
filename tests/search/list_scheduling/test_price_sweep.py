"""A sweep of transfer prices: the heuristics' schedules where transfers cost what is assumed."""

import math
import time

import pytest

from regal_jax.environments.execution import prices, targets
from regal_jax.environments.execution.targets import TargetModel
from regal_jax.environments.placement import checker
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.list_scheduling import price_sweep
from regal_jax.search.list_scheduling.heuristics import etf, heft
from tests.graphs.cases import single_input_graph

GRAPH = single_input_graph(seed=0, num_ops=24)
PLATFORM = Platform(4, latency=0.02, per_byte=0.01)


def crossings(schedule):
    place = schedule.placement
    return sum(place[first] != place[second] for first, second in GRAPH.edges[:, [0, 2]].tolist())


def test_schedules_are_those_of_the_heuristics_at_every_pair_of_prices():
    """First the better ones."""
    found = price_sweep.schedules(GRAPH, PLATFORM, 9)
    assert len(found) == 18
    levels = (0.0, prices.CHEAPEST, prices.DEAREST)
    expected = []
    for shares in sorted(((a, b) for a in levels for b in levels), key=sum):
        model = TargetModel(latency_share=shares[0], per_byte_share=shares[1])
        latency, per_byte = targets.transfer_times(GRAPH, model)
        platform = Platform(4, latency=0.02 + latency, per_byte=0.01 + per_byte)
        there = PlacementProblem.on(GRAPH, platform, "makespan")
        both = [there.costed(heft(GRAPH, platform)), there.costed(etf(GRAPH, platform))]
        expected.append(sorted(both, key=lambda schedule: schedule.makespan))
    assert found == [pair[0] for pair in expected] + [pair[1] for pair in expected]
    for schedule in found:
        checker.evaluate(GRAPH, schedule, PLATFORM)


def test_moves_improve_on_the_better_of_two():
    plain, moved = (price_sweep.schedules(GRAPH, PLATFORM, 9, moves=m) for m in (0, 300))
    assert moved[9:] == plain[9:]
    gains = [before.makespan - after.makespan for before, after in zip(plain, moved, strict=True)]
    assert min(gains) >= 0 < max(gains)
    assert moved == price_sweep.schedules(GRAPH, PLATFORM, 9, moves=300)


def test_any_maker_of_schedules_can_be_asked_at_each_price():
    asked = []

    def alone(problem):
        asked.append((problem.platform.latency, problem.platform.per_byte))
        return heft(problem.graph, Platform(1)).replace(num_devices=4)

    found = price_sweep.schedules(GRAPH, PLATFORM, 4, makers=[alone])
    assert len(set(asked)) == len(found) == 4
    assert not any(schedule.placement.any() for schedule in found)


def test_dear_transfers_are_avoided():
    found = price_sweep.schedules(GRAPH, PLATFORM, 49)[:49]
    assert crossings(found[-1]) < 0.5 * crossings(found[0])


@pytest.mark.parametrize("number", [1, 2, 3, 7, 8, 17, 50, 98, 100])
def test_no_more_prices_than_asked_for(number):
    found = len(price_sweep.schedules(GRAPH, PLATFORM, number))
    assert found == 2 * math.isqrt(number) ** 2


def test_two_levels_are_free_and_in_between():
    (_, first), *_, (_, last) = sorted(prices.sweep(4))
    assert (first, last) == (0.0, pytest.approx(math.sqrt(3.0)))


def test_out_of_time_there_is_still_one_price():
    assert len(price_sweep.schedules(GRAPH, PLATFORM, 98, deadline=time.perf_counter() - 1)) == 2


def test_ops_that_take_no_time_have_no_prices():
    free = GRAPH.replace(duration=0 * GRAPH.duration)
    assert len(price_sweep.schedules(free, PLATFORM, 9)) == 18
    alone = ComputationGraph.create(num_ops=1, producer=[], size=[], consumers=[])
    (first, _) = price_sweep.schedules(alone, Platform(2), 1)
    assert first.makespan == alone.duration.sum()
