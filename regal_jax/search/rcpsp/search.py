"""Searches for short schedules of machine problems: a genetic one, and ours by justification.

BRKGA's genes are a ``MachineProblem``'s chromosome, so that schedules are generated as the problem
says. Ours begins with the schedules of priority rules and justifies every schedule it makes, as the
hybrid genetic algorithm of Valls, Ballestin, Quintanilla (European Journal of Operational Research
185, 2008) does for projects.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.rcpsp import batch, ffi
from regal_jax.environments.rcpsp.columns import machine_columns
from regal_jax.environments.rcpsp.problem import GENERATIONS, MachineProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.batching import padded_size
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.evolution import brkga, driver
from regal_jax.search.evolution.brkga import BRKGAConfig, BRKGAState
from regal_jax.search.rcpsp import rules
from regal_jax.search.rcpsp.justification import BothWays, both_ways, justify, makespans, priorities

PAPER_GA = BRKGAConfig(population=1000, elites=200, children=700)
"""The genetic search of the one-shot priority sampling paper, appendix G.

The paper gives a population of 1,000 and Pymoo; the other numbers are those of Pymoo's BRKGA, which
add up to it.
"""
PAPER_SAMPLES = 256
"""Priorities that a policy samples for the initial population.

Deviation: the paper has no others in it; here uniform ones fill it up.
"""
PAPER_EVALUATIONS = PAPER_GA.initial + 100 * PAPER_GA.newcomers
"""A hundred generations."""

OnProgress = Callable[[int, float], None]
"""Called with (evaluations so far, best makespan so far)."""


class Found(NamedTuple):
    """What a search found.

    Attributes:
      chromosome: float32[genes], the best; it decodes to ``start``.
      start: float64[O], us.
      evaluations: schedules generated.
      history: (evaluations, best makespan so far, us), oldest first; the last is of ``start``.
    """

    chromosome: np.ndarray
    start: np.ndarray
    evaluations: int
    history: tuple[tuple[int, float], ...]

    @property
    def makespan(self) -> float:
        return self.history[-1][1]


def brkga_machines(
    problem: MachineProblem,
    *,
    evaluations: int,
    seed: int = 0,
    warm_start: np.ndarray | None = None,
    config: BRKGAConfig | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    on_progress: OnProgress = lambda evaluations, makespan: None,
) -> Found:
    """BRKGA with genes uniform in [0, 1), whole generations under jit.

    Args:
      problem: with any schedule generation.
      evaluations: spent exactly, unless the search runs out of time; see ``brkga.search``.
      seed: of everything random.
      warm_start: float32[W, genes], in the initial population, and never better than the result.
        Crossover mixes genes, so these should be in [0, 1), too (``rules.genes``).
      config: population parameters, by default those of REGAL's paper.
      out_of_time: asked every few generations.

    Raises:
      OptionError: if the budget is below the initial population, or that below the warm starts.
    """
    config = config or BRKGAConfig()
    if warm_start is None:
        warm_start = np.zeros((0, problem.num_genes), np.float32)
    num_ops, length = problem.num_ops, padded_size(problem.num_ops)
    evolved = driver.run(
        jax.random.key(seed),
        _parts(problem, _pad(np.asarray(warm_start, np.float32), num_ops, length), config),
        config,
        evaluations,
        out_of_time=out_of_time,
        on_progress=on_progress,
    )
    # Inside jit makespans are float32: what is best up to rounding is decided here.
    last = np.vstack([_unpad(evolved.chromosome[None], num_ops, length), warm_start])
    exact = problem.makespans(last)
    best, makespan = last[[np.argmin(exact)]], float(np.min(exact))
    costs = [max(cost, makespan) for cost in evolved.history.tolist()[:-1]]
    history = tuple(zip(evolved.points, [*costs, makespan], strict=True))
    return Found(best[0], problem.starts(best)[0], evolved.points[-1], history)


def _pad(chromosomes: np.ndarray, num_ops: int, length: int) -> np.ndarray:
    """float32[B, blocks * length]: each block of genes, one an op, gets more that don't count."""
    count, blocks = len(chromosomes), chromosomes.shape[1] // num_ops
    apart = chromosomes.reshape(count, blocks, num_ops)
    padded = np.pad(apart, ((0, 0), (0, 0), (0, length - num_ops)))
    return padded.reshape(count, blocks * length)


def _unpad(chromosomes: np.ndarray, num_ops: int, length: int) -> np.ndarray:
    blocks = chromosomes.reshape(len(chromosomes), -1, length)
    return blocks[:, :, :num_ops].reshape(len(chromosomes), -1)


class _Compiled(NamedTuple):
    """What a search is compiled for: static, and the same for problems of similar size.

    Attributes:
      generation: of ``machine_kernel``. num_genes: with padding.
      scratch_words: of the kernel. config: population parameters.
    """

    generation: int
    num_genes: int
    scratch_words: int
    config: BRKGAConfig

    def functions(self, operand):
        """(fitness, sample_mutants) for the graph in a padded operand."""
        cost = functools.partial(ffi.makespans, scratch_words=self.scratch_words)
        mutants = brkga.uniform_mutants(self.num_genes)
        return lambda chromosomes: cost(operand, chromosomes, self.generation), mutants


def _parts(problem: MachineProblem, warm_start, config: BRKGAConfig) -> driver.Parts:
    packed = problem.operand
    operand = np.pad(packed, (0, padded_size(len(packed)) - len(packed)))
    compiled = _Compiled(
        GENERATIONS[problem.generation],
        warm_start.shape[1],
        padded_size(batch.scratch_words(machine_columns(problem.graph))),
        config,
    )
    return driver.Parts(
        lambda key, generations: _with_history(
            _init(key, operand, warm_start, compiled), generations
        ),
        lambda *progress: _advance(*progress, operand, compiled),
        lambda key, state, remainder: _finish(key, state, operand, compiled, remainder),
    )


@functools.partial(jax.jit, static_argnames="compiled")
def _init(key, operand, warm_start, compiled: _Compiled) -> BRKGAState:
    functions = compiled.functions(operand)
    return brkga.init(key, *functions, warm_start=warm_start, config=compiled.config)


def _with_history(state: BRKGAState, generations: int) -> tuple[BRKGAState, jax.Array]:
    return state, jnp.full(generations + 1, jnp.min(state.costs))


@functools.partial(jax.jit, static_argnames="compiled")
def _advance(key, state, history, first, last, operand, compiled: _Compiled):
    functions, config = compiled.functions(operand), compiled.config
    bias = config.elite_bias
    return brkga.evolve(
        key, state, history, first, last, *functions, elite_bias=bias, config=config
    )


@functools.partial(jax.jit, static_argnames=("compiled", "remainder"))
def _finish(key, state, operand, compiled: _Compiled, remainder: int):
    functions, config = compiled.functions(operand), compiled.config
    last = brkga.last_generation(config, remainder)
    return brkga.step(key, state, *functions, elite_bias=config.elite_bias, config=last)


KEPT = 30
"""Schedules that the improvement search keeps."""
_BATCH = 16
"""Schedules it makes from them in a round, at three evaluations each."""
_FRACTION = (2.0, 0.3)
"""Ops that move in the order of a new schedule: from so many of them to this share."""
_DISTANCE = (0.03, 0.3)
"""How far they move (standard deviation), in parts of the order.

Both are drawn log-uniformly. These numbers were the best of a few on job shops and TPC-H.
"""


def improve(
    graph: ComputationGraph,
    *,
    evaluations: int,
    seed: int = 0,
    warm_start: np.ndarray | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    on_progress: OnProgress = lambda evaluations, makespan: None,
) -> Found:
    """Short schedules from priority rules, crossover and double justification.

    The rules' schedules (parallel and serial generation, ties first and last) are justified; the
    KEPT best ones of different makespans are the parents. A child takes the ops that come first in
    one parent, then the others as in a second one (one-point crossover of orders), and some of the
    ops move at random. It is generated, justified, and may take the place of the worst.

    Args:
      graph: with machine types, demands and capacities.
      evaluations: schedules to generate at most; a justified one counts three. The search ends
        earlier at the lower bound.
      seed: of everything random.
      warm_start: float64[W, O], us: valid schedules, beside those of the rules, at no cost. The
        result is never longer than any of them.
      out_of_time: asked every round.

    Returns:
      What was found; the chromosome is one of serial generation.

    Raises:
      OptionError: without any evaluation. GraphError: for a graph without a schedule.
    """
    if evaluations < 1:
        raise OptionError(f"evaluations must be at least 1, got {evaluations}")
    both, rng = both_ways(graph), np.random.default_rng(seed)
    pool, spent = _first_schedules(both, warm_start, evaluations)
    history = []
    while True:
        best = float(makespans(both, pool)[0])
        history.append((spent, best))
        on_progress(spent, best)
        count = min(_BATCH, (evaluations - spent) // 3)
        if count == 0 or best <= both.forwards.lower_bound or out_of_time():
            break
        children = justify(both, both.forwards.starts(_children(rng, pool, count)))
        pool = _fittest(both, np.vstack([children, pool]))
        spent += 3 * count
    genes = priorities(pool[:1])
    start = both.forwards.starts(genes)
    history[-1] = (spent, float(makespans(both, start)[0]))
    return Found(genes[0], start[0], spent, tuple(history))


def _first_schedules(both: BothWays, warm_start, evaluations: int) -> tuple[np.ndarray, int]:
    """(starts float64[K, O] of the best schedules, shortest first, evaluations spent)."""
    graph = both.forwards.graph
    ranked = [rule(graph) for rule in rules.RULES.values()]
    genes = np.stack([rules.genes(r) for r in [*ranked, *map(rules.ties_last, ranked)]])
    start = MachineProblem(graph).starts(genes[:evaluations])
    start = np.vstack([start, both.forwards.starts(genes[: evaluations - len(start)])])
    spent = len(start)
    if warm_start is not None:
        start = np.vstack([warm_start, start])
    start = _fittest(both, start)
    first = start[: (evaluations - spent) // 2]
    return _fittest(both, np.vstack([justify(both, first), start])), spent + 2 * len(first)


def _fittest(both: BothWays, start: np.ndarray) -> np.ndarray:
    """The KEPT shortest schedules, shortest first: the first one of each makespan."""
    return start[np.unique(makespans(both, start), return_index=True)[1][:KEPT]]


def _children(rng: np.random.Generator, pool: np.ndarray, count: int) -> np.ndarray:
    """float32[count, O]: genes of serial generation, by crossover and random moves."""
    num_ops, shape = pool.shape[1], (count, pool.shape[1])
    place = np.argsort(np.argsort(pool, axis=1, kind="stable"), axis=1) / num_ops
    one, other = place[rng.integers(0, len(pool), (2, count))]
    order = np.where(one < rng.random((count, 1)), one, 1.0 + other)
    place = np.argsort(np.argsort(order, axis=1, kind="stable"), axis=1) / num_ops
    few, share = _FRACTION
    moves = rng.random(shape) < _log_uniform(rng, min(few / num_ops, share), share, count)
    distance = _log_uniform(rng, *_DISTANCE, count) * rng.standard_normal(shape)
    return priorities(place + moves * distance)


def _log_uniform(rng: np.random.Generator, low: float, high: float, count: int) -> np.ndarray:
    return np.exp(rng.uniform(np.log(low), np.log(high), (count, 1)))
