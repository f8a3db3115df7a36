"""Every scheduling method behind ``optimize``, by name: problem and budget in, best found out."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments import fitness, random_keys
from regal_jax.environments.platform import Platform
from regal_jax.environments.problem import PlacementProblem
from regal_jax.environments.schedule import Objective, Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs import batching
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features import pinned_op
from regal_jax.policies import beta_mutants
from regal_jax.policies.regal import RegalConfig
from regal_jax.search import block_moves, brkga, priority_rules
from regal_jax.search.brkga import BRKGAConfig
from regal_jax.training import checkpoints
from regal_jax.training.examples import feature_search

History = tuple[tuple[int, float], ...]
OnProgress = Callable[[int, float], None]
"""Called with (evaluations so far, best cost so far)."""


class Budget(NamedTuple):
    """What a method may spend, and its randomness.

    Attributes:
      evaluations: calls of the cost on a chromosome.
      seed: of everything random.
      policy: file of a trained policy, or None for the shipped one.
      on_progress: see OnProgress.
    """

    evaluations: int
    seed: int = 0
    policy: str | Path | None = None
    on_progress: OnProgress = lambda evaluations, cost: None


class Found(NamedTuple):
    """The best chromosome float32[genes] found, evaluations spent, and best cost so far by them."""

    chromosome: np.ndarray
    evaluations: int
    history: History


Method = Callable[[PlacementProblem, Budget], Found]

LATER = (
    "portfolio",
    "tuned_brkga",
    "idrs",
    "gas",
    "local_search",
    "cp_sat",
    "partition_dfs",
    "xla_list",
    "xla_dfs",
    "dp",
    "approximate_dp",
    "depth_first_dp",
    "topoformer",
    "critical_path",
    "mopnr",
    "spt",
    "heft",
    "cpop",
    "etf",
    "hbmct",
    "one_shot",
    "l2d",
    "gflownet",
    "ppo",
)
"""Names that the design reserves for methods that are not in this version."""


def find_method(name: str) -> Method:
    """The method of a name. Raises OptionError naming the ones there are."""
    if name in METHODS:
        return METHODS[name]
    reason = "is not in this version" if name in LATER else "is unknown"
    raise OptionError(f"method {name!r} {reason}; choose from {', '.join(METHODS)}")


def run_brkga(problem: PlacementProblem, budget: Budget) -> Found:
    """BRKGA as published: uniform mutants, population 100, 10 elites, 80 children, bias 0.7."""
    return _evolve(problem, budget, jax.random.key(budget.seed))


def run_random_search(problem: PlacementProblem, budget: Budget) -> Found:
    """The best of uniformly random chromosomes."""
    if budget.evaluations < 1:
        raise OptionError(f"evaluations must be at least 1, got {budget.evaluations}")
    key, best, cost = jax.random.key(budget.seed), None, np.inf
    history = []
    for start in range(0, budget.evaluations, 100):
        count = min(100, budget.evaluations - start)
        chromosomes = np.asarray(
            jax.random.uniform(jax.random.fold_in(key, start), (count, problem.num_genes))
        )
        costs = np.asarray(problem.fitness(chromosomes))
        if best is None or costs.min() < cost:
            best, cost = chromosomes[costs.argmin()], float(costs.min())
        history.append((start + count, cost))
        budget.on_progress(*history[-1])
    assert best is not None
    return Found(best, budget.evaluations, tuple(history))


def run_regal(problem: PlacementProblem, budget: Budget) -> Found:
    """REGAL as published: 400 evaluations for features, the rest steered by the policy."""
    return _regal(problem, budget)


def run_auto(problem: PlacementProblem, budget: Budget) -> Found:
    """For users: cheap schedules, then REGAL on half of what is left of the budget (where a policy
    fits the problem), then block moves from the best schedule so far with the rest.

    Never worse than any of the cheap schedules.
    """
    if budget.policy is not None:
        load_policy(problem, budget.policy)  # one that was asked for must fit
    start = _cheapest(problem, budget)
    half = (budget.evaluations - start.evaluations) // 2
    try:
        found = _best_of(start, _regal(problem, _rest(budget, start)._replace(evaluations=half)))
    except OptionError:
        found = start
    return _exactly_better(problem, start, _climb(problem, budget, found))


def _exactly_better(problem: PlacementProblem, start: Found, found: Found) -> Found:
    """``found``, unless it is worse by what float32 rounds away: then with ``start``'s schedule."""
    costs = np.asarray(problem.fitness(np.stack([start.chromosome, found.chromosome])))
    return found if costs[1] <= costs[0] else found._replace(chromosome=start.chromosome)


def _cheapest(problem: PlacementProblem, budget: Budget) -> Found:
    """The best of the cheap schedules, at one evaluation each; as many as the budget allows."""
    if budget.evaluations < 1:
        raise OptionError(f"evaluations must be at least 1, got {budget.evaluations}")
    candidates = cheap_schedules(problem, budget.seed)[: budget.evaluations]
    chromosomes = np.stack([problem.encode(schedule) for schedule in candidates])
    costs = np.asarray(problem.fitness(chromosomes))
    best = int(costs.argmin())
    found = Found(chromosomes[best], len(costs), ((len(costs), float(costs[best])),))
    budget.on_progress(*found.history[-1])
    return found


def _rest(budget: Budget, spent: Found) -> Budget:
    """What a search leaves of a budget, reporting progress on top of it."""
    return budget._replace(
        evaluations=budget.evaluations - spent.evaluations,
        on_progress=lambda done, cost: budget.on_progress(
            spent.evaluations + done, min(cost, spent.history[-1][1])
        ),
    )


def _climb(problem: PlacementProblem, budget: Budget, start: Found) -> Found:
    """Spends what is left of the budget on block moves from the best schedule so far."""
    rounds = (budget.evaluations - start.evaluations) // _NEIGHBOURS
    if rounds < 1 or problem.graph.num_ops == 0:
        return start
    padded = _padded(problem)
    sizes = (problem.graph.num_ops, problem.graph.num_tensors)
    shape = (padded.shape.ops, padded.shape.tensors)
    chromosome = random_keys.pad(start.chromosome[None], sizes, shape, problem.num_devices)[0]
    genes = random_keys.split(jnp.asarray(chromosome), shape[0], problem.num_devices)
    state = block_moves.ClimbState(genes=genes, cost=jnp.asarray(start.history[-1][1], float))
    history, key = jnp.zeros(batching.padded_size(rounds)), jax.random.key(budget.seed)
    for first in range(0, rounds, _CHUNK):
        last = min(first + _CHUNK, rounds)
        state, history = _climb_rounds(
            key, state, padded.operand(), first, last, history, sizes[0], padded.cost_model()
        )
        done = start.evaluations + last * _NEIGHBOURS
        budget.on_progress(done, float(state.cost))
    own = random_keys.unpad(
        np.asarray(random_keys.join(state.genes))[None], sizes, shape, problem.num_devices
    )[0]
    spent = start.evaluations + _NEIGHBOURS * np.arange(1, rounds + 1)
    costs = np.minimum(np.asarray(history, float)[:rounds], start.history[-1][1])
    points = tuple(zip(spent.tolist(), costs.tolist(), strict=True))
    return Found(own, int(spent[-1]), start.history + points)


_NEIGHBOURS = 100


@functools.partial(jax.jit, static_argnames="model")
def _climb_rounds(key, state, graph, first, last, history, num_ops, model):
    return block_moves.climb(
        key,
        state,
        functools.partial(fitness.costs, model, graph),
        first,
        last,
        history,
        num_ops=num_ops,
        neighbours=_NEIGHBOURS,
    )


def run_rule(problem: PlacementProblem, budget: Budget, *, order: str) -> Found:
    """An order of ``priority_rules`` on the better of two placements: greedily balanced, or whole
    on one device. Costs two evaluations."""
    graph, num_devices = problem.graph, problem.num_devices
    sequence = priority_rules.ORDERS[order](graph, budget.seed)
    weight = priority_rules.op_weights(graph, problem.objective)
    placements = [
        priority_rules.greedily_balanced(graph, sequence, weight, num_devices),
        priority_rules.single_device(graph),
    ]
    chromosomes = np.stack([_encoded(problem, sequence, place) for place in placements])
    costs = np.asarray(problem.fitness(chromosomes))
    best = int(costs.argmin())
    return Found(chromosomes[best], len(costs), ((len(costs), float(costs[best])),))


def best_simple_schedule(
    graph: ComputationGraph, objective: Objective, platform: Platform
) -> Schedule:
    """What to hold a search against: program, depth-first or breadth-first order, whichever is
    best, each on the better of a greedily balanced placement and a single device."""
    problem = PlacementProblem(
        graph,
        platform.num_devices,
        objective,
        memory_capacity=platform.memory_capacity,  # type: ignore[arg-type]
        latency=platform.latency,
        per_byte=platform.per_byte,
    )
    found = {
        order: run_rule(problem, Budget(evaluations=0), order=order)
        for order in ("program_order", "depth_first", "breadth_first")
    }
    best = min(found, key=lambda order: found[order].history[-1][1])
    return problem.decode(found[best].chromosome, method=best)


def cheap_schedules(problem: PlacementProblem, seed: int) -> list[Schedule]:
    """Simple orders times simple placements, without repeats.

    Placements: one device, greedily balanced, whole components, and pipelines: cuts of the
    order, or of the ops by distance to the nearest end, into as many parts as devices.
    """
    graph, num_devices = problem.graph, problem.num_devices
    weight = priority_rules.op_weights(graph, problem.objective).astype(float)
    folded = priority_rules.nearest_end_first(graph)
    schedules: dict[tuple[bytes, bytes], Schedule] = {}
    for rule in priority_rules.ORDERS.values():
        order = rule(graph, seed)
        for placement in _cheap_placements(graph, (order, folded), weight, num_devices):
            for eager in (False, True):
                schedule = priority_rules.build_schedule(
                    graph,
                    order,
                    placement,
                    objective=problem.objective,
                    num_devices=num_devices,
                    eager=eager,
                )
                key = (placement.tobytes(), schedule.steps.tobytes())
                schedules.setdefault(key, schedule)
    return list(schedules.values())


def _cheap_placements(graph, sequences, weight, num_devices: int) -> list[np.ndarray]:
    """Placements for an order; ``sequences`` are the order and what else to cut into pipelines."""
    placements = [priority_rules.single_device(graph)]
    if num_devices > 1:
        placements.append(
            priority_rules.greedily_balanced(graph, sequences[0], weight, num_devices)
        )
        placements.append(priority_rules.whole_components(graph, weight, num_devices))
        even = np.arange(1, num_devices) / num_devices
        for sequence in sequences:
            for power in (0.5, 0.75, 1.0, 1.4, 2.0):
                placements.append(priority_rules.contiguous(sequence, weight, even**power))
    return placements


def _encoded(problem: PlacementProblem, order, placement) -> np.ndarray:
    return problem.encode(
        priority_rules.build_schedule(
            problem.graph,
            order,
            placement,
            objective=problem.objective,
            num_devices=problem.num_devices,
        )
    )


def _padded(problem: PlacementProblem) -> PlacementProblem:
    """The same problem with the graph padded, so that similar graphs share a compilation.

    One that is padded already stays as it is.
    """
    if problem.shape != batching.exact_shape(problem.graph):
        return problem
    platform = problem.platform
    return PlacementProblem(
        problem.graph,
        problem.num_devices,
        problem.objective,
        memory_capacity=platform.memory_capacity,  # type: ignore[arg-type]
        latency=platform.latency,
        per_byte=platform.per_byte,
        shape=batching.padded_shape([problem.graph]),
        backend=problem.backend,
    )


def _regal(problem: PlacementProblem, budget: Budget) -> Found:
    params, config = load_policy(problem, budget.policy)
    first = config.feature_evaluations
    least = first + BRKGAConfig().population
    if budget.evaluations < least:
        raise OptionError(
            f"regal needs at least {least} evaluations ({first} for its features and a population),"
            f" got {budget.evaluations}"
        )
    padded = _padded(problem)
    feature_key, search_key = jax.random.split(jax.random.key(budget.seed))
    pinned = pinned_op(problem.graph)
    inputs, best, cost, history = feature_search(
        feature_key, padded, config, padded.operand(), pinned
    )
    start = _found(problem, padded, best, first, np.asarray(history))
    budget.on_progress(first, float(cost))
    actions = _actions(params, inputs, config)
    learned = (actions, inputs.pinned, inputs.producer, config)
    return _best_of(start, _evolve(problem, _rest(budget, start), search_key, learned=learned))


def load_policy(problem: PlacementProblem, path: str | Path | None) -> tuple[Any, RegalConfig]:
    """The given policy, or the shipped one; OptionError if it is not for this kind of problem."""
    path = path or shipped_policy(problem.objective)
    params, config, about = checkpoints.load_policy(path)
    if config.num_devices != problem.num_devices:
        raise OptionError(
            f"the policy {Path(path).name} is for {config.num_devices} devices, not"
            f" {problem.num_devices}; train one with experiments/regal_memory.py --num_devices"
        )
    trained_for = about.get("objective", problem.objective)
    if trained_for != problem.objective:
        raise OptionError(f"the policy {Path(path).name} is for the objective {trained_for}")
    return params, config


def shipped_policy(objective: str) -> Path:
    """Where the package keeps its REGAL policy for an objective. OptionError if there is none."""
    path = Path(__file__).parent / "pretrained" / f"regal_{objective}.policy"
    if not path.exists():
        raise OptionError(f"no REGAL policy is shipped for {objective}; give one with --policy")
    return path


@functools.partial(jax.jit, static_argnames="config")
def _actions(params, inputs, config: RegalConfig):
    """int32[O, A]: the policy's most likely actions."""
    return config.policy.mode(params, inputs)


def _evolve(problem: PlacementProblem, budget: Budget, key, *, learned=None) -> Found:
    """BRKGA in a few calls of jitted parts, with progress between them."""
    config = BRKGAConfig()
    brkga.check_config(config, budget.evaluations)
    padded = _padded(problem)
    shape = (padded.shape.ops, padded.shape.tensors)
    part = {"model": padded.cost_model(), "num_tensors": shape[1]}
    part["regal"] = None if learned is None else learned[3]
    operands = (padded.operand(), None if learned is None else learned[:3])
    generations, remainder = divmod(budget.evaluations - config.population, config.newcomers)
    init_key, evolve_key, last_key = jax.random.split(key, 3)
    state, history = _init(init_key, operands, generations=generations, **part)
    for first in range(0, generations, _CHUNK):
        last = min(first + _CHUNK, generations)
        state, history = _advance(evolve_key, state, history, first, last, operands, **part)
        done = config.population + last * config.newcomers
        budget.on_progress(done, float(history[last]))
    if remainder:
        state = _finish(last_key, state, operands, remainder=remainder, **part)
        history = jnp.append(history, jnp.min(state.costs))
        budget.on_progress(budget.evaluations, float(history[-1]))
    return _found(problem, padded, state.best()[0], budget.evaluations, np.asarray(history))


_CHUNK = 20
"""Generations between two reports of progress."""


def _parts(operands, model, num_tensors, regal):
    """(fitness, sample_mutants, elite bias) of a search."""
    graph, learned = operands
    cost = functools.partial(fitness.costs, model, graph)
    config = BRKGAConfig()
    if learned is None:
        genes = random_keys.num_genes(model.num_ops, num_tensors, model.num_devices)
        return cost, brkga.uniform_mutants(genes), config.elite_bias
    actions, pinned, producer = learned
    mutants = beta_mutants.learned_mutants(actions, regal.space, num_tensors, pinned)
    bias = beta_mutants.gene_elite_bias(actions, regal.space, producer, config.elite_bias)
    return cost, mutants, bias


_STATIC = ("model", "num_tensors", "regal")


@functools.partial(jax.jit, static_argnames=(*_STATIC, "generations"))
def _init(key, operands, *, generations, **part):
    cost, mutants, _ = _parts(operands, **part)
    state = brkga.init(key, cost, mutants, config=BRKGAConfig())
    return state, jnp.full(generations + 1, jnp.min(state.costs))


@functools.partial(jax.jit, static_argnames=_STATIC)
def _advance(key, state, history, first, last, operands, **part):
    cost, mutants, bias = _parts(operands, **part)
    return brkga.evolve(
        key,
        state,
        history,
        first,
        last,
        cost,
        mutants,
        elite_bias=bias,
        config=BRKGAConfig(),
    )


@functools.partial(jax.jit, static_argnames=(*_STATIC, "remainder"))
def _finish(key, state, operands, *, remainder, **part):
    cost, mutants, bias = _parts(operands, **part)
    last = brkga.last_generation(BRKGAConfig(), remainder)
    return brkga.step(key, state, cost, mutants, elite_bias=bias, config=last)


def _found(problem, padded, chromosome, evaluations: int, history: np.ndarray) -> Found:
    """The result of a padded search, in the problem's own layout."""
    sizes = (problem.graph.num_ops, problem.graph.num_tensors)
    shape = (padded.shape.ops, padded.shape.tensors)
    own = random_keys.unpad(np.asarray(chromosome)[None], sizes, shape, problem.num_devices)
    spent = brkga.history_evaluations(evaluations)
    return Found(own[0], evaluations, tuple(zip(spent, history.tolist(), strict=True)))


def _best_of(first: Found, second: Found) -> Found:
    """Two searches one after the other as one: best of both, one history."""
    best_first, best_second = first.history[-1][1], second.history[-1][1]
    later = tuple(
        (first.evaluations + spent, min(cost, best_first)) for spent, cost in second.history
    )
    return Found(
        second.chromosome if best_second < best_first else first.chromosome,
        first.evaluations + second.evaluations,
        first.history + later,
    )


METHODS: dict[str, Method] = {
    "auto": run_auto,
    "regal": run_regal,
    "brkga": run_brkga,
    "random_search": run_random_search,
    "depth_first": functools.partial(run_rule, order="depth_first"),
    "breadth_first": functools.partial(run_rule, order="breadth_first"),
    "random_order": functools.partial(run_rule, order="random_order"),
    "lpmf": functools.partial(run_rule, order="lpmf"),
}
