"""Methods that schedule graphs with machine types: priority rules, searches, and one-shot priority
sampling (one_shot_priority_sampling, sections 3 and 5, appendices D and G)."""

import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods.base import Budget, History, check_evaluations
from regal_jax.methods.learned import policy_file, shipped_policy
from regal_jax.policies.one_shot import policy
from regal_jax.policies.one_shot.policy import OneShotConfig, Scores
from regal_jax.search.cp_sat import rcpsp
from regal_jax.search.rcpsp import rules, search
from regal_jax.training import checkpoints

SAMPLES = 256
"""Rankings sampled, S(256) of the paper."""
CP_SAT_SECONDS = 60.0
"""Time limit of CP-SAT unless one is given; the paper's is a day."""
FIRST_PART = 10
"""Of this, the justification search before it has one part."""
LEAST_SECONDS = 0.1
"""What CP-SAT has in any case, to prove what was found."""
WORKERS = 2
"""Threads of CP-SAT."""
SAMPLES_PART = 4
"""``auto`` spends no more than the budget over this on a policy's samples."""
MOST_OPS = 3000
"""The largest graph that ``auto`` shows to a policy."""


class MachineFound(NamedTuple):
    """What a method found.

    Attributes:
      start: float64[O], us, of the best schedule.
      evaluations: schedules generated.
      history: (evaluations, best makespan so far) pairs; the last is of ``start``.
      lower_bound: a bound that the method proved, us; 0 if it proves none.
    """

    start: np.ndarray
    evaluations: int
    history: History
    lower_bound: float = 0.0

    @property
    def cost(self) -> float:
        """The makespan, us."""
        return self.history[-1][1]


MachineMethod = Callable[[MachineProblem, Budget], MachineFound]


def run_rule(problem: MachineProblem, budget: Budget, *, name: str) -> MachineFound:
    """The schedule of one priority rule."""
    priorities = rules.genes(rules.RULES[name](problem.graph))
    return _best(problem, budget, policy.chromosomes(problem, priorities[None]))


def run_random(problem: MachineProblem, budget: Budget) -> MachineFound:
    """The best of as many random priorities as evaluations."""
    check_evaluations(budget.evaluations)
    rng = np.random.default_rng(budget.seed)
    count = (budget.evaluations, problem.num_genes)
    return _best(problem, budget, rules.random_priorities(rng, count[1], count[0]))


def run_brkga(problem: MachineProblem, budget: Budget) -> MachineFound:
    """BRKGA from random priorities, with the population of REGAL's papers."""
    return _evolved(problem, budget)


def run_justification(
    problem: MachineProblem, budget: Budget, warm_start: np.ndarray | None = None
) -> MachineFound:
    """Crossover and double justification, from the priority rules' schedules on (ours)."""
    found = search.improve(
        problem.graph,
        evaluations=budget.evaluations,
        seed=budget.seed,
        warm_start=warm_start,
        out_of_time=lambda: budget.out_of_time,
        on_progress=budget.on_progress,
    )
    return MachineFound(found.start, found.evaluations, found.history)


def run_auto(problem: MachineProblem, budget: Budget) -> MachineFound:
    """The justification search, from the schedules of a policy's samples, too, where one is shipped
    for such graphs and they are not too large for its attention between all ops."""
    check_evaluations(budget.evaluations)
    path, graph = policy_file(task_of(problem.graph), "one_shot"), problem.graph
    count = min(SAMPLES, budget.evaluations // SAMPLES_PART)
    if not path.exists() or graph.num_ops > MOST_OPS or count == 0:
        return run_justification(problem, budget)
    params, config, _ = checkpoints.load_policy(path, OneShotConfig)
    drawn_for = MachineProblem(graph, generation=config.generation)
    chromosomes = samples(drawn_for, op_scores(params, config, graph), budget.seed, count)
    begin = _best(drawn_for, budget, chromosomes)
    found = run_justification(problem, budget.after(begin), drawn_for.starts(chromosomes))
    later = [(count + spent, min(cost, begin.cost)) for spent, cost in found.history]
    return MachineFound(found.start, count + found.evaluations, (*begin.history, *later))


def run_cp_sat(problem: MachineProblem, budget: Budget) -> MachineFound:
    """CP-SAT from the schedule that a tenth of the time, at most, of the justification search
    finds; evaluations are those of this search."""
    seconds = min(budget.seconds_left, CP_SAT_SECONDS)
    begin = run_justification(
        problem, budget._replace(deadline=time.perf_counter() + seconds / FIRST_PART)
    )
    left = max(min(budget.seconds_left, CP_SAT_SECONDS), LEAST_SECONDS)
    solution = rcpsp.solve(
        problem.graph, seconds=left, start=begin.start, seed=budget.seed, workers=WORKERS
    )
    point = (begin.evaluations, solution.makespan)
    budget.on_progress(*point)
    return MachineFound(solution.start, begin.evaluations, (*begin.history, point), solution.bound)


def run_one_shot(problem: MachineProblem, budget: Budget) -> MachineFound:
    """One pass of the encoder, then rankings by ``budget.decoding``: "greedy"; "sample", the best
    of as many as evaluations (3.2); or "brkga", which begins with 256 of them (appendix G). Of
    the generation that the policy was trained for, unless one is asked for."""
    check_evaluations(budget.evaluations)
    path = budget.policy or shipped_policy(task_of(problem.graph), "one_shot")
    params, config, _ = checkpoints.load_policy(path, OneShotConfig)
    if budget.generation is None:
        problem = MachineProblem(problem.graph, generation=config.generation)
    scores = op_scores(params, config, problem.graph)
    decoding = budget.decoding or "sample"
    if decoding not in DECODINGS:
        raise OptionError(f"one_shot is decoded by {', '.join(DECODINGS)}, not by {decoding}")
    return DECODINGS[decoding](problem, scores, budget)


def op_scores(params, config: OneShotConfig, graph: ComputationGraph) -> Scores:
    """What a policy says of a graph's ops; graphs are padded so that few shapes are compiled."""
    found = _scores(params, policy.padded_inputs(graph, config), config)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[: graph.num_ops], found)


def task_of(graph: ComputationGraph) -> str:
    """Which shipped policy is for a graph: "job_shop" (chains on machines of one unit), "cluster"
    (one type of machine) or "machines" (all others)."""
    pairs, num_ops = precedence.op_pairs(graph), graph.num_ops
    degree = np.bincount(pairs.ravel(), minlength=num_ops)
    into = np.bincount(pairs[:, 1], minlength=num_ops)
    chains = degree.max(initial=0) <= 2 and into.max(initial=0) <= 1
    assert graph.capacity is not None
    if chains and np.all(graph.capacity == 1):
        return "job_shop"
    return "cluster" if len(graph.capacity) == 1 else "machines"


def _greedy(problem: MachineProblem, scores: Scores, budget: Budget) -> MachineFound:
    drawn = policy.greedy(scores)
    return _best(problem, budget, policy.chromosomes(problem, drawn.priorities, drawn.holds))


def _sampled(problem: MachineProblem, scores: Scores, budget: Budget) -> MachineFound:
    return _best(problem, budget, samples(problem, scores, budget.seed, budget.evaluations))


def samples(problem: MachineProblem, scores: Scores, seed: int, count: int) -> np.ndarray:
    """float32[count, genes]: chromosomes that a policy samples."""
    drawn = policy.draw(np.random.default_rng(seed), scores, count)
    return policy.chromosomes(problem, drawn.priorities, drawn.holds)


def _searched(problem: MachineProblem, scores: Scores, budget: Budget) -> MachineFound:
    rng = np.random.default_rng(budget.seed)
    drawn = policy.draw(rng, scores, search.PAPER_SAMPLES)
    genes = np.stack([rules.genes(row) for row in drawn.priorities])
    warm_start = policy.chromosomes(problem, genes, drawn.holds)
    return _evolved(problem, budget, warm_start=warm_start, config=search.PAPER_GA)


DECODINGS: dict[str, Callable[[MachineProblem, Scores, Budget], MachineFound]] = {
    "greedy": _greedy,
    "sample": _sampled,
    "brkga": _searched,
}

MACHINE_METHODS: dict[str, MachineMethod] = {
    "auto": run_auto,
    "justification": run_justification,
    "brkga": run_brkga,
    "random_search": run_random,
    "cp_sat": run_cp_sat,
    "one_shot": run_one_shot,
    **{name: functools.partial(run_rule, name=name) for name in rules.RULES},
}

MACHINE_EVALUATIONS = {"one_shot": SAMPLES, "random_search": SAMPLES}
"""Budgets of methods that are given none, where it isn't that of the others."""


def best_rule_schedule(problem: MachineProblem) -> Schedule:
    """What to hold a search against: the shortest schedule of the priority rules."""
    name = rules.shortest(problem)[0]
    found = run_rule(problem, Budget(evaluations=1), name=name)
    return problem.scheduled(found.start, method=name, evaluations=1)


def _evolved(problem: MachineProblem, budget: Budget, **options) -> MachineFound:
    found = search.brkga_machines(
        problem,
        evaluations=budget.evaluations,
        seed=budget.seed,
        out_of_time=lambda: budget.out_of_time,
        on_progress=budget.on_progress,
        **options,
    )
    return MachineFound(found.start, found.evaluations, found.history)


def _best(problem: MachineProblem, budget: Budget, chromosomes: np.ndarray) -> MachineFound:
    """The shortest of the schedules of chromosomes, at one evaluation each."""
    makespans = problem.makespans(chromosomes)
    best = int(makespans.argmin())
    point = (len(makespans), float(makespans[best]))
    budget.on_progress(*point)
    return MachineFound(problem.starts(chromosomes[best][None])[0], point[0], (point,))


@functools.partial(jax.jit, static_argnames="config")
def _scores(params, inputs, config: OneShotConfig):
    return policy.one_shot_policy(config).scores(params, inputs)
