"""What measured schedules tell of a machine."""

import numpy as np
import pytest

from regal_jax.environments.execution import prices, targets
from regal_jax.environments.execution.targets import TargetModel
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.options import Budget
from regal_jax.registry import find
from regal_jax.search.list_scheduling import price_sweep
from regal_jax.search.placements import calibration, candidates
from regal_jax.search.placements.calibration import Machine
from tests.graphs.cases import single_input_graph

GRAPH = single_input_graph(seed=2, num_ops=30)
PROBLEM = PlacementProblem(GRAPH, 3, "makespan", latency=0.5)
SLOPES = calibration.price_slopes(GRAPH)
SWEPT = price_sweep.schedules(GRAPH, Platform(3), 49)
RANDOM = find("sampler", "random_search").make(PROBLEM, Budget(40))


def machine(seed):
    rng = np.random.default_rng(seed)
    return Machine(rng.uniform(0.1, 3.0, 2), 0.3 * rng.standard_normal(GRAPH.num_ops))


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_takes_what_its_problem_says(seed):
    time, _ = calibration.paths(PROBLEM, machine(seed), RANDOM, SLOPES)
    there = calibration.on_machine(PROBLEM, machine(seed))
    np.testing.assert_allclose(time, candidates.makespans(there, RANDOM), rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_slopes_are_differences(seed):
    price, factor = machine(seed)
    time, slope = calibration.paths(PROBLEM, Machine(price, factor), RANDOM, SLOPES)
    step = 1e-7
    for number in range(2 + GRAPH.num_ops):
        moved = np.concatenate([price, factor])
        moved[number] += step
        after, _ = calibration.paths(PROBLEM, Machine(moved[:2], moved[2:]), RANDOM, SLOPES)
        got = slope[:, number] * (np.exp(factor[number - 2]) if number < 0 else 1.0)
        np.testing.assert_allclose((after - time) / step, got, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("latency", "per_byte"), [(0.0, 0.0), (2.0, 0.0), (0.0, 3.0), (1.0, 1.0)])
def test_prices_are_found(latency, per_byte):
    model = TargetModel(latency_share=latency, per_byte_share=per_byte)
    problem = PlacementProblem(GRAPH, 3, "makespan")
    time_of = targets.simulated(GRAPH, model)
    fitted = calibration.fit(
        problem, candidates.from_schedules(SWEPT), [time_of(one) for one in SWEPT]
    )
    np.testing.assert_allclose(fitted.machine.price, [latency, per_byte], atol=0.15)
    assert np.abs(fitted.machine.factor).max() < 0.1


def test_durations_are_learned_where_they_matter():
    """Predictions of schedules that weren't measured are nearer than those of the profile."""
    time_of = targets.simulated(GRAPH, TargetModel(noise=0.35, seed=3, latency_share=1.0))
    measured, held_out = SWEPT[::2], SWEPT[1::2]
    problem = PlacementProblem(GRAPH, 3, "makespan")
    fitted = calibration.fit(
        problem, candidates.from_schedules(measured), [time_of(one) for one in measured]
    )
    truth = np.array([time_of(one) for one in held_out])

    def error(number):
        time, _ = calibration.paths(problem, number, candidates.from_schedules(held_out), SLOPES)
        return np.sqrt(np.mean(np.log(time / truth) ** 2))

    profiled = Machine(fitted.machine.price, np.zeros(GRAPH.num_ops))
    assert error(fitted.machine) < 0.5 * error(profiled)


def test_machines_drawn_spread_as_the_covariance_says():
    few = candidates.from_schedules(SWEPT[:3])
    fitted = calibration.fit(PROBLEM, few, candidates.makespans(PROBLEM, few))
    rng = np.random.default_rng(0)
    drawn = np.array([fitted.draw(rng).factor for _ in range(4000)])
    precision = fitted.slope.T @ fitted.slope + np.diag(1 / fitted.variance)
    expected = np.sqrt(np.diag(np.linalg.inv(precision)))[2:]
    np.testing.assert_allclose(drawn.std(axis=0), expected, rtol=0.1)
    assert expected.max() == pytest.approx(calibration.DURATIONS, rel=0.02)
    assert min(min(fitted.draw(rng).price) for _ in range(50)) >= 0.0


def test_graphs_that_take_no_time():
    still = GRAPH.replace(duration=0 * GRAPH.duration)
    problem = PlacementProblem(still, 3, "makespan")
    found = candidates.from_schedules(SWEPT[:4])
    fitted = calibration.fit(problem, found, [0.0] * 4)
    assert np.all(np.isfinite(np.concatenate(fitted.machine)))
    assert prices.at_price(still, problem.platform, (1.0, 1.0)) == problem.platform
