"""Methods for graphs with machine types: priority rules, justification, tabu search, CP-SAT, and
``auto``."""

import functools
import time

import numpy as np

from regal_jax import registry
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.methods import one_shot, sequencing
from regal_jax.methods.pretrained import policy_file
from regal_jax.options import Budget, Options, Result, best_of
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.search.base import best_of_chromosomes
from regal_jax.search.cp_sat import rcpsp
from regal_jax.search.disjunctive import search as disjunctive
from regal_jax.search.rcpsp import rules, search
from regal_jax.training import checkpoints

CP_SAT_SECONDS = 60.0
"""Time limit of CP-SAT unless one is given; the one-shot paper's is a day."""
FIRST_PART = 10
"""Of this, the search before it has one part."""
LEAST_SECONDS = 0.1
"""What CP-SAT has in any case, to prove what was found."""
WORKERS = 2
"""Threads of CP-SAT."""
SAMPLES_PART = 4
"""``auto`` spends no more than the budget over this on a policy's samples."""
MOST_SEQUENCED = 600
"""The largest that is sequenced: 256 schedules take a second or two, of 2,000 ops 20."""
MOST_OPS = 3000
"""The largest graph that ``auto`` shows to a policy."""

_method = functools.partial(registry.method, problems=("rcpsp",))


def some_seconds(num_ops: int, options: Options) -> int:
    """A million ops are scheduled in about a second and core, which is done for some seconds; with
    a time limit, as many as fit in."""
    return 10**9 if options.time_limit is not None else max(5000, 5_000_000 // num_ops)


@_method("auto", evaluations=some_seconds)
def run_auto(problem: MachineProblem, budget: Budget) -> Result:
    """A policy's samples, where one is shipped for such graphs, and what goes on from them: tabu
    search on machines that run one op at a time, else the justification search."""
    budget.check()
    count = min(one_shot.SAMPLES, budget.evaluations // SAMPLES_PART)
    drawn = _samples(problem, budget.seed, count) if count else None
    if drawn is None:
        return _searched(problem, budget)
    drawn_for, chromosomes = drawn
    begin = best_of_chromosomes(drawn_for, budget, chromosomes)
    later, starts = budget.after(begin), drawn_for.starts(chromosomes)
    machine = disjunctive.machines(problem.graph)
    if machine is None:
        return best_of(begin, run_justification(problem, later, starts))
    return _after(begin, disjunctive.improve(problem, machine, later, starts))


@_method("tabu", evaluations=some_seconds)
def run_tabu(problem: MachineProblem, budget: Budget) -> Result:
    """Tabu search from the priority rules' schedules on (ours): what ``auto`` does without a
    policy, where machines run one op at a time."""
    budget.check()
    machine = disjunctive.machines(problem.graph)
    if machine is None:
        raise OptionError(
            "tabu is for machine types that run one op at a time; try --method=justification"
        )
    serial = problem.generated("serial")
    genes = np.stack([rules.genes(rule(problem.graph)) for rule in rules.RULES.values()])
    genes = genes[: budget.evaluations]
    begin = best_of_chromosomes(serial, budget, genes)
    later = budget.after(begin)
    return _after(begin, disjunctive.improve(problem, machine, later, serial.starts(genes)))


def _searched(problem: MachineProblem, budget: Budget) -> Result:
    """From the priority rules' schedules on, by the search that is for such machines."""
    is_for_tabu = disjunctive.machines(problem.graph) is not None
    return (run_tabu if is_for_tabu else run_justification)(problem, budget)


def _after(begin: Result, later: Result) -> Result:
    """The best of both, where the second may have had nothing to do."""
    return best_of(begin, later) if later.evaluations else begin


def _samples(
    problem: MachineProblem, seed: int, count: int
) -> tuple[MachineProblem, np.ndarray] | None:
    """The problem that a shipped policy draws chromosomes for, and float32[count, genes] of them:
    of ``sequencing``, or else of ``one_shot``. None without one, or if the graph is too large."""
    if problem.num_ops > MOST_OPS:
        return None
    task = one_shot.task_of(problem.graph)
    if problem.num_ops <= MOST_SEQUENCED and policy_file(task, "sequencing").exists():
        return sequencing.samples(problem, seed, count)
    path = policy_file(task, "one_shot")
    if not path.exists():
        return None
    params, config, _ = checkpoints.load_policy(path, OneShotConfig)
    drawn_for = problem.generated(config.generation)
    logits = one_shot.op_logits(params, config, problem.graph)
    return drawn_for, one_shot.samples(logits, seed, count)


@_method("justification", evaluations=some_seconds)
def run_justification(
    problem: MachineProblem, budget: Budget, warm_start: np.ndarray | None = None
) -> Result:
    """Crossover and double justification, from the priority rules' schedules on (ours)."""
    return search.improve(problem.graph, budget, warm_start=warm_start)


@_method("cp_sat", paper="one_shot_priority_sampling, 5")
def run_cp_sat(problem: MachineProblem, budget: Budget) -> Result:
    """CP-SAT from the schedule of tabu search, on machines that run one op at a time, else of the
    justification search, which have a tenth of the time at most; their evaluations are counted."""
    seconds = min(budget.seconds_left, CP_SAT_SECONDS)
    begin = _searched(problem, budget._replace(deadline=time.perf_counter() + seconds / FIRST_PART))
    left = max(min(budget.seconds_left, CP_SAT_SECONDS), LEAST_SECONDS)
    solution = rcpsp.solve(
        problem.graph, seconds=left, start=begin.schedule.start, seed=budget.seed, workers=WORKERS
    )
    point = (begin.evaluations, solution.makespan)
    budget.on_progress(*point)
    schedule = problem.scheduled(solution.start)
    return Result(schedule, begin.evaluations, (*begin.history, point), solution.bound)


def run_rule(problem: MachineProblem, budget: Budget, *, name: str) -> Result:
    """The schedule of one priority rule."""
    priorities = rules.genes(rules.RULES[name](problem.ranked_graph))
    return best_of_chromosomes(problem, budget, priorities[None])


for _name in rules.RULES:
    _method(_name, paper="one_shot_priority_sampling, 5")(functools.partial(run_rule, name=_name))


def best_rule_schedule(problem: MachineProblem) -> Schedule:
    """What to hold a search against: the shortest schedule of the priority rules."""
    name = rules.shortest(problem).name
    best = run_rule(problem, Budget(evaluations=1), name=name)
    return best.schedule.replace(method=name, evaluations=1)
