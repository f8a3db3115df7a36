"""Methods that give many schedules of a graph, candidates to try on the target, by name.

Of gflownet_robust_scheduling, section 5: the two heuristics it compares with, and cheap samplers of
ours. ``candidates.best_schedules`` chooses from what a sampler gives. Problems are on identical
devices, for the makespan; memory capacities are not looked at.
"""

import dataclasses
import math

import jax
import numpy as np

from regal_jax import registry
from regal_jax.environments.dispatching import rule
from regal_jax.environments.execution import prices
from regal_jax.environments.placement import batch, columns
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.rcpsp.problem import Generation, MachineProblem
from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.methods import evolution, gflownet, one_shot, regal_paper
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.options import Budget, Result
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.search.evolution.brkga import BRKGAConfig
from regal_jax.search.list_scheduling import heuristics, price_sweep
from regal_jax.search.placements import candidates, metropolis
from regal_jax.search.placements.candidates import Candidates
from regal_jax.training import checkpoints

POPULATION = BRKGAConfig(population=500, elites=100, children=350)
"""Of the genetic samplers. Deviation: the paper uses pymoo's BRKGA without naming its parameters.

These are the shares and the elite bias of pymoo's defaults (a fifth elites, seven tenths children,
0.7) at half of their size, so that the elites are as many as the paper's candidates. On six random
graphs of 50 ops and two real ones, four devices, the best 100 of the last population had a mean
speedup of 2.60 after 5,000 evaluations, 3.55 after 50,000 and 3.46, with copies of the best instead
of others, after 200,000 (pymoo's size: 2.54, 2.99, 3.61); critical-path list scheduling has 3.77.
"""

NOISE = 0.5
"""Temperature of ``sample_lists``: on the same graphs, with 0.1, 0.5 and 2 the best 100 of 1,000
had mean speedups of 3.79, 3.78 and 3.74, and differed in 69, 80 and 81 % of their chains' edges."""


WALKED = 1000
"""Schedules of a walk."""

LISTS_PART, LISTS = 0.2, 1000
"""Of the evaluations of a sweep of prices, those of ``sample_lists``; how many at most."""

RULES, MOST_PAIRS = 200, 2 * 10**9
"""Dispatching rules at each price of a sweep, at most, and pairs of ops and devices that they look
at in all, which takes half a minute. On 16 validation graphs the best of 100 candidates has
speedups of 1.81 (bandwidth), 1.93 (latency) and 1.95 (shared) on average by rules that the network
chooses, with 5,000 evaluations; 1.79, 1.93 and 1.92 by rules in order, 1.73, 1.88 and 1.90 without
rules, 1.76, 1.93 and 1.91 so with 250,000."""

SWEPT = 250_000
"""Evaluations of a sweep of prices."""

CANDIDATES = 100
"""Schedules tried on a target (section 5)."""


TEMPERED = ("list_sampling", "gflownet", "ppo", "metropolis")
"""Samplers that have a temperature."""


@registry.sampler("critical_path")
def sample_critical_path(problem: PlacementProblem, budget: Budget) -> Candidates:
    """The single schedule of list scheduling by critical path (section 5)."""
    del budget
    schedule = heuristics.critical_path(problem.graph, problem.platform)
    return candidates.from_schedules([schedule])


@registry.sampler("brkga", searches=True)
def sample_brkga(problem: PlacementProblem, budget: Budget) -> Candidates:
    """The last population of BRKGA from random chromosomes (section 5), see ``POPULATION``; in the
    generation in which the budget ends, it has fewer newcomers.

    Raises OptionError if the evaluations are fewer than the population.
    """
    search = evolution.evolve(problem, budget, jax.random.key(budget.seed), config=POPULATION)
    return _decoded(problem, search)


@registry.sampler("regal_paper", searches=True)
def sample_regal_paper(problem: PlacementProblem, budget: Budget) -> Candidates:
    """The last population of REGAL's search, which has the parameters of ``sample_brkga``.

    Raises OptionError if the policy is for another number of devices, or evaluations are too few.
    """
    return _decoded(problem, regal_paper.evolve(problem, budget, "regal", POPULATION))


@registry.sampler("random_search")
def sample_chromosomes(problem: PlacementProblem, budget: Budget) -> Candidates:
    """The schedules of uniformly random chromosomes."""
    budget.check()
    rng = np.random.default_rng(budget.seed)
    shape = (budget.evaluations, problem.num_genes)
    return decoded(problem, rng.random(shape, np.float32))


@registry.sampler("list_sampling")
def sample_lists(problem: PlacementProblem, budget: Budget) -> Candidates:
    """List scheduling by critical path with Gumbel noise on the priorities, and on any of the
    devices that are free (ours): the cheapest sampler of good schedules.

    The temperature scales the noise, in mean durations of the ops; with 0 only devices are random.
    Transfer times are not looked at.
    """
    budget.check()
    graph, rng = problem.graph, np.random.default_rng(budget.seed)
    machine = on_one_type(problem)
    noise = rng.gumbel(size=(budget.evaluations, graph.num_ops))
    levels = precedence.bottom_levels(graph) / (graph.duration.mean() or 1.0)
    start = machine.starts(levels + _temperature(budget, NOISE) * noise)
    return candidates.from_starts(graph, start, problem.num_devices, rng)


@registry.sampler("random_ties")
def sample_random_ties(problem: PlacementProblem, budget: Budget) -> Candidates:
    """List scheduling by critical path, each op on any of the devices that are free: the paper's
    (section 5) doesn't say which. By the proxy all are alike. Deviation: ``critical_path`` takes
    the first of them, which saves transfers."""
    options = dataclasses.replace(budget.options, temperature=0.0)
    return sample_lists(problem, budget._replace(options=options))


@registry.sampler("metropolis", searches=True)
def sample_metropolis(problem: PlacementProblem, budget: Budget) -> Candidates:
    """Of a walk by Metropolis's rule a thousand schedules (``metropolis``), so nearly independent
    ones from the distribution that a GFlowNet of that temperature is trained for.

    Evaluations are moves, several thousand an op for the walk to forget its start.
    """
    budget.check()
    temperature = _temperature(budget, gflownet.TEMPERATURES["gflownet"])
    if not temperature > 0:
        raise OptionError(f"temperature must be positive, got {temperature}")
    count = min(WALKED, budget.evaluations)
    found = metropolis.sample(problem, temperature, budget.evaluations, count, budget.seed)
    cost = float(candidates.makespans(problem, found).min())
    budget.on_progress(budget.evaluations, cost)
    return found


@registry.sampler("price_sweep")
def sample_price_sweep(problem: PlacementProblem, budget: Budget) -> Candidates:
    """List schedules for a sweep of assumed transfer prices (ours), see ``swept``."""
    return swept(problem, budget)


@registry.sampler("regal", searches=True)
def sample_regal(problem: PlacementProblem, budget: Budget) -> Candidates:
    """The same sweep with dispatching rules at each price, too, those that a network chooses by the
    graph and the price (``dispatching``, ours)."""
    return swept(problem, budget, chooses=True)


@registry.sampler("dispatch", searches=True)
def sample_dispatch(problem: PlacementProblem, budget: Budget) -> Candidates:
    """The same with the policy's rules in their own order: the control of ``regal``."""
    return swept(problem, budget, chooses=False)


def swept(problem: PlacementProblem, budget: Budget, *, chooses: bool | None = None) -> Candidates:
    """Schedules for a sweep of assumed transfer prices: as many as will be tried on the target,
    none equal but for the names of devices.

    At each price two list heuristics make a schedule each, and so do dispatching rules, the best of
    up to ``RULES``, fewer of large graphs; then local search goes on from the best. First come
    these, cheap prices first, then the second best; then the best of ``sample_lists``, which have
    ``LISTS_PART`` of the evaluations.

    Args:
      chooses: whether a network chooses the rules; None for no rules.
    """
    budget.check()
    wanted = min(budget.options.candidates or CANDIDATES, budget.evaluations)
    lists = min(int(LISTS_PART * budget.evaluations), LISTS)
    makers, left = list(price_sweep.HEURISTICS), budget.evaluations - lists
    number = len(prices.sweep(min(wanted, left // len(makers))))
    each = left // number
    moves = max(each - len(makers), 0)
    if chooses is not None:
        rules = min(moves, RULES, rule.most_rules(problem, MOST_PAIRS) // number)
        moves -= rules
        makers += [best_of_rules(rules, budget, chooses=chooses)] if rules else []
    every = price_sweep.schedules(
        *(problem.graph, problem.platform, number, budget.deadline),
        makers=makers[:each],
        moves=moves,
        seed=budget.seed,
    )
    if lists:
        drawn = sample_lists(problem, budget._replace(evaluations=lists))
        every += candidates.best_schedules(problem, drawn, wanted)
    found = candidates.distinct(candidates.from_schedules(every), wanted)
    budget.on_progress(budget.evaluations, float(candidates.makespans(problem, found).min()))
    return found


def best_of_rules(count: int, budget: Budget, *, chooses: bool) -> price_sweep.Maker:
    """What makes the best schedule of so many dispatching rules."""
    from regal_jax.methods import dispatching  # its networks, where they are looked at

    path = budget.options.policy or shipped_policy("rules")
    search, own = dispatching.search_by(path, chooses=chooses), Budget(count, budget.seed)
    return lambda problem: search(problem, own, count).schedule


@registry.sampler("one_shot")
def sample_one_shot(problem: PlacementProblem, budget: Budget) -> Candidates:
    """Rankings of one-shot priority sampling (one_shot_priority_sampling, 3.2) on identical devices
    (ours): one machine type of as many units; each op on the first device that is free.

    Transfer times are not looked at. Raises OptionError for an unsuitable policy.
    """
    budget.check()
    path = budget.options.policy or shipped_policy("machines", "one_shot")
    params, config, _ = checkpoints.load_policy(path, OneShotConfig)
    config = one_shot.forwards(config)
    machine = on_one_type(problem, config.generation)
    logits = one_shot.op_logits(params, config, machine.graph)
    start = machine.starts(one_shot.samples(logits, budget.seed, budget.evaluations))
    return candidates.from_starts(problem.graph, start, problem.num_devices)


@registry.sampler("gflownet")
def sample_gflownet(problem: PlacementProblem, budget: Budget) -> Candidates:
    """Schedules of a temperature-conditioned GFlowNet; see ``gflownet.sample_policy``."""
    return _sample_policy(problem, budget, "gflownet")


@registry.sampler("ppo")
def sample_ppo(problem: PlacementProblem, budget: Budget) -> Candidates:
    """Schedules of a policy of proximal policy optimisation; see ``gflownet.sample_policy``."""
    return _sample_policy(problem, budget, "ppo")


def _sample_policy(problem: PlacementProblem, budget: Budget, system: str) -> Candidates:
    return gflownet.sample_policy(
        problem,
        system,
        samples=budget.evaluations,
        seed=budget.seed,
        policy=budget.options.policy,
        temperature=budget.options.temperature,
    )


def _decoded(problem: PlacementProblem, search: Result) -> Candidates:
    assert search.population is not None
    return decoded(problem, search.population)


def decoded(problem: PlacementProblem, chromosomes: np.ndarray) -> Candidates:
    """The schedules of chromosomes float32[N, genes], transfers left out."""
    graph = columns.native_graph(problem.graph)
    placement, steps = batch.decode_steps(graph, chromosomes, num_devices=problem.num_devices)
    ops = (steps >= 0) & (steps < problem.graph.num_ops)
    return Candidates(placement, steps[ops].reshape(placement.shape).astype(np.int32))


def on_one_type(problem: PlacementProblem, generation: Generation = "parallel") -> MachineProblem:
    """Identical devices without transfer times as the units of one machine type: by "parallel"
    generation and ``candidates.from_starts``, a schedule's makespan is the same in both."""
    num_ops = problem.graph.num_ops
    graph = problem.graph.replace(
        machine_type=np.zeros(num_ops, np.int32),
        demand=np.ones(num_ops, np.int64),
        capacity=np.array([problem.num_devices]),
    )
    return MachineProblem(graph, generation=generation)


def _temperature(budget: Budget, default: float) -> float:
    """Raises OptionError for a temperature that is no finite number, or negative."""
    chosen = default if budget.options.temperature is None else budget.options.temperature
    if not (math.isfinite(chosen) and chosen >= 0):
        raise OptionError(f"temperature must be a finite number >= 0, got {chosen}")
    return chosen
