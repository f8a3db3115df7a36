"""What measured schedules tell of a machine: its transfers and what its ops really take (ours).

A schedule's time is the length of a path of ops and transfers: linear in durations and prices as
long as the path stays the longest. So prices and durations are fitted by Gauss and Newton's method,
each step a ridge regression on the longest paths, to the times that schedules took, with what was
profiled as the prior: durations are near it, prices anything from 0 on.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regal_jax.environments.execution import prices
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.placement.tasks import task_graph
from regal_jax.environments.platform import Platform
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native.compilation import jit_with_arrays
from regal_jax.search.placements.candidates import Candidates

DURATIONS = 0.3
"""Standard deviation, by the prior, of the logarithm of what an op really takes."""

PRICES = 10.0
"""Standard deviation of both prices (``prices.Price``) by the prior."""

TIMES = 0.03
"""Of measured times around those of the model, relative: how far they are trusted."""

GRID, STARTS = 49, 3
"""Prices that the fit is begun from: of a grid those with the least surprise."""

STEPS, HALVINGS = 8, 6
"""Of each descent at most, and of a step that isn't one down."""


class Machine(NamedTuple):
    """Numbers of a machine.

    Attributes:
      price: float64[2], see ``prices.Price``.
      factor: float64[O], the logarithm of what each op takes over what was profiled.
    """

    price: np.ndarray
    factor: np.ndarray


class Fit(NamedTuple):
    """A machine that explains measured times, and how sure that is.

    Attributes:
      machine: the likeliest one.
      slope: float64[N, 2 + O], of the times in units of how far they are trusted, by number of the
        machine, prices first. variance: float64[2 + O], of the numbers by the prior.
    """

    machine: Machine
    slope: np.ndarray
    variance: np.ndarray

    def draw(self, rng: np.random.Generator) -> Machine:
        """A machine that is as likely as it is to be drawn, if paths stay as they are (Matheron's
        rule: one by the prior, moved by what it misses)."""
        numbers = rng.standard_normal(len(self.variance)) * np.sqrt(self.variance)
        missed = self.slope @ numbers + rng.standard_normal(len(self.slope))
        price, factor = np.split(numbers - _ridge(self.slope, self.variance, missed), [2])
        return Machine(np.maximum(self.machine.price + price, 0.0), self.machine.factor + factor)


def fit(problem: PlacementProblem, tried: Candidates, times: Sequence[float]) -> Fit:
    """The machine that candidates took these times [us] on, one or more."""
    measured, num_ops = np.asarray(times), problem.graph.num_ops
    deviation = np.concatenate([np.full(2, PRICES), np.full(num_ops, DURATIONS)])
    trust = 1.0 / np.maximum(TIMES * measured, 1e-9)
    slopes = price_slopes(problem.graph)
    evidence = _Evidence(problem, tried, measured, trust, deviation**2, slopes)
    none = np.zeros(num_ops)
    starts = [Machine(np.array(price), none) for price in prices.sweep(GRID)]
    starts.sort(key=evidence.surprise)
    machine = min((_descended(evidence, one) for one in starts[:STARTS]), key=evidence.surprise)
    _, slope = evidence.errors(machine)
    return Fit(machine, slope, evidence.variance)


class _Evidence(NamedTuple):
    """Measured times float64[N] and how far they count, 1 / us each; by number of a machine its
    variance around 0 by the prior; the graph's ``price_slopes``."""

    problem: PlacementProblem
    tried: Candidates
    measured: np.ndarray
    trust: np.ndarray
    variance: np.ndarray
    slopes: np.ndarray

    def errors(self, machine: Machine) -> tuple[np.ndarray, np.ndarray]:
        """float64[N]: measured less modelled times, as far as they count; the latter's slope."""
        modelled, slope = paths(self.problem, machine, self.tried, self.slopes)
        return (self.measured - modelled) * self.trust, slope * self.trust[:, None]

    def surprise(self, machine: Machine) -> float:
        """What is to be least: minus twice the logarithm of the posterior, but for a constant."""
        error, _ = self.errors(machine)
        return float(error @ error + np.sum(np.concatenate(machine) ** 2 / self.variance))


def _descended(evidence: _Evidence, machine: Machine) -> Machine:
    """The end of a few steps of Gauss and Newton, each halved until it is one down."""
    least = evidence.surprise(machine)
    for _ in range(STEPS):
        numbers, (error, slope) = np.concatenate(machine), evidence.errors(machine)
        step = _ridge(slope, evidence.variance, error + slope @ numbers) - numbers
        for _ in range(HALVINGS):
            price, factor = np.split(numbers + step, [2])
            moved = Machine(np.maximum(price, 0.0), factor)
            if (surprise := evidence.surprise(moved)) < least:
                machine, least = moved, surprise
                break
            step /= 2.0
        else:
            break
    return machine


def _ridge(slope: np.ndarray, variance: np.ndarray, value: np.ndarray) -> np.ndarray:
    """float64[2 + O]: the numbers of least surprise for slope @ numbers = value, measured with a
    deviation of 1, from as many equations as measurements."""
    spread = slope * variance
    return spread.T @ np.linalg.solve(spread @ slope.T + np.eye(len(slope)), value)


def on_machine(problem: PlacementProblem, machine: Machine) -> PlacementProblem:
    """The problem with a machine's durations and transfers."""
    graph = problem.graph.replace(duration=problem.graph.duration * np.exp(machine.factor))
    platform = _platform(problem, machine)
    return PlacementProblem.on(graph, platform, problem.objective, shape=problem.shape)


def price_slopes(graph: ComputationGraph) -> np.ndarray:
    """float64[2, E], us: how the delays of ``task_graph``'s edges rise with either price."""
    platforms = [prices.at_price(graph, Platform(1), price) for price in ((1.0, 0.0), (0.0, 1.0))]
    return np.array([task_graph(graph, platform).delay for platform in platforms])


def paths(
    problem: PlacementProblem, machine: Machine, tried: Candidates, slopes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """float64[N], us: what candidates take on a machine; and float64[N, 2 + O], us: how that rises
    with its numbers, by the longest path of each. ``slopes`` are the graph's ``price_slopes``."""
    graph, platform = problem.graph, _platform(problem, machine)
    duration = graph.duration * np.exp(machine.factor)
    tasks = task_graph(graph, platform)
    count = len(tried.sequence)
    time, slope = np.zeros(count), np.zeros((count, 2 + graph.num_ops))
    _walk(tasks, duration, slopes, np.argsort(tasks.op), tuple(tried), time, slope)
    return time, slope


def _platform(problem: PlacementProblem, machine: Machine) -> Platform:
    latency, per_byte = machine.price.tolist()
    return prices.at_price(problem.graph, problem.platform, (latency, per_byte))


@jit_with_arrays
def _walk(tasks, duration, slopes, task, rows, time, slope):
    placement, sequence = rows
    num_ops = len(duration)
    arrival, finish = np.empty(num_ops), np.empty(num_ops)
    edge_in, before = np.empty(num_ops, np.int64), np.empty(num_ops, np.int64)
    last = np.empty(num_ops, np.int64)
    for row in range(len(time)):
        arrival[:], edge_in[:], before[:], last[:] = 0.0, -1, -1, -1
        end, at = 0.0, -1
        for op in sequence[row]:
            this, device = task[op], placement[row, op]
            start = arrival[this]
            on = last[device]
            if on >= 0 and finish[on] > start:
                start, edge_in[this], before[this] = finish[on], -1, on
            finish[this] = start + duration[op]
            last[device] = this
            if finish[this] > end or at < 0:
                end, at = finish[this], this
            for edge in range(tasks.offsets[this], tasks.offsets[this + 1]):
                after = tasks.after[edge]
                crosses = placement[row, tasks.op[after]] != device
                there = finish[this] + (tasks.delay[edge] if crosses else 0.0)
                if there >= arrival[after]:
                    arrival[after], before[after] = there, this
                    edge_in[after] = edge if crosses else -1
        time[row] = end
        while at >= 0:
            op = tasks.op[at]
            slope[row, 2 + op] += duration[op]
            if edge_in[at] >= 0:
                slope[row, 0] += slopes[0, edge_in[at]]
                slope[row, 1] += slopes[1, edge_in[at]]
            at = before[at]
