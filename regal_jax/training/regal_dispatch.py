"""Training of REGAL's dispatcher: which rules of a pool are good for a problem, and how to tell.

Problems are graphs on platforms. A search among rules finds the best one of many problems; of these
a pool is chosen that has a good one for most; all rules of the pool are tried on all problems. The
network learns to complete a row of that matrix: by statistics of the problem, and by the costs
of some rules, which of the others is the best. That is supervised, with the soft target of a
listwise ranking (Cao et al. 2007), exp(-log cost / temperature) over its sum; and how good the best
schedule is, on average, once a rule is drawn, since a ranking alone takes no heed of how bad a rule
is that isn't good.
"""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from regal_jax.environments.dispatching import rule
from regal_jax.environments.dispatching.rule import tried
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.regal import dispatching
from regal_jax.policies.regal.dispatching import OBJECTIVES, WORST, DispatchConfig
from regal_jax.search.evolution import rule_search
from regal_jax.training import trainer
from regal_jax.training.settings import graphs_fingerprint
from regal_jax.training.trainer import Batch, Learner, PolicyFile, TrainState

OnProgress = Callable[[str, int, int], None]
"""Called with (what is done, how many of them so far, of how many)."""


@dataclasses.dataclass(frozen=True)
class PoolConfig:
    """Where rules come from.

    Attributes:
      searched: problems of each objective whose best rules are candidates for the pool.
      search_evaluations: rules that are tried on each of them.
      covered: of these problems, those that candidates are chosen by.
      rules: of the pool, for each objective.
    """

    searched: int = 900
    search_evaluations: int = 600
    covered: int = 240
    rules: int = 256


@dataclasses.dataclass(frozen=True)
class DispatchTraining:
    """Hyperparameters of the network's training.

    Attributes:
      steps: updates. batch_size: problems of each objective a step.
      temperature: of targets, in logarithms of costs.
      cost_weight: beside the ranking, of the logarithm of the best cost once a rule is drawn.
      learning_rate: of Adam, falling to zero as a cosine. clip_norm: of the gradient.
      epoch_steps: updates between validations, each with a checkpoint.
      seed: of everything random.
    """

    steps: int = 3000
    batch_size: int = 64
    temperature: float = 0.01
    cost_weight: float = 30.0
    learning_rate: float = 1e-3
    clip_norm: float = 1.0
    epoch_steps: int = 250
    seed: int = 0


class Matrix(NamedTuple):
    """N problems of one objective, and what the M rules of the pool cost on them.

    Attributes:
      features: float32[N, NUM_FEATURES]. costs: float32[N, M], over the row's least one.
    """

    features: np.ndarray
    costs: np.ndarray


METRICS = ("loss", "gradient_norm")
VALIDATION = ("regret", *(f"regret_{objective}" for objective in OBJECTIVES))
"""Logarithm of the cost of the best rule tried over that of the pool's best: the mean over problems
of LOOKS; of both objectives, and of each."""
LOOKS = 1, 4, 12, 32
"""Rules tried, at which validation looks."""
LARGEST_REGRET = 0.5
"""Schedules beyond the memory's capacity cost many times as much as others."""
TRIED_IN_ORDER = 0, 0, 1, 2, 4, 8, 12, 16
"""In training, how many of the pool's first rules were tried, any of these."""
TRIED_AS_GOOD = 0, 0, 1, 2, 4, 8, 16, 32
"""And how many of those that seem best, with some noise in their logarithms of costs."""
NOISES = 0.02, 0.1, 0.5, 10.0
UNTRIED = 0.25
"""Part of the training where nothing was tried: the first choice is all there is with one schedule.
"""


def draw_problem(graph: ComputationGraph, rng: np.random.Generator) -> PlacementProblem:
    """A graph on a platform: memory on one to eight devices, or the makespan on two to eight, with
    transfers from free to thirty times an op's duration and, now and then, little memory."""
    timed = rng.random() < 0.4
    devices = int(rng.choice([1, 2, 4, 8], p=[0.1, 0.45, 0.3, 0.15]))
    if not timed:
        return PlacementProblem(graph, devices)
    duration = float(graph.duration.mean())
    size = max(float(graph.size.mean()) if graph.num_tensors else 0.0, 1.0)
    price, wait = np.exp(rng.uniform(np.log(0.03), np.log(30.0), 2)) * duration
    dear, late, tight = rng.random(3) < (0.7, 0.3, 0.3)
    devices = max(devices, 2)
    peak = rule.live_bytes(graph).max(initial=0.0)
    room = int(peak / devices * np.exp(rng.uniform(0.1, 1.0))) + 1
    return PlacementProblem(
        graph,
        devices,
        "makespan",
        memory_capacity=room if tight else None,
        latency=wait if late else 0.0,
        per_byte=price / size if dear else 0.0,
    )


def draw_problems(graphs: Sequence[ComputationGraph], seed: int) -> list[PlacementProblem]:
    """A problem of each graph that needs memory and time."""
    some = [g for g in graphs if rule.live_bytes(g).any() and g.duration.any()]
    rngs = [np.random.default_rng((seed, index)) for index in range(len(some))]
    return [draw_problem(graph, rng) for graph, rng in zip(some, rngs, strict=True)]


def best_rules(
    problems: Sequence[PlacementProblem],
    evaluations: int,
    seed: int,
    folder: Path,
    on_progress: OnProgress,
) -> np.ndarray:
    """float64[N, FEATURES]: the best rules that a search finds for problems of one objective."""

    def best(index: int) -> np.ndarray:
        problem, rng = problems[index], np.random.default_rng((seed, 0, index))
        first = rule.random_rules(rng, rule_search.PICKS, timed=problem.objective == "makespan")
        columns, order = rule.columns(problem), rule_search.in_order
        *_, (_, found) = rule_search.steps(problem, columns, first, order, evaluations, rng)
        return found.rules[0]

    return _in_chunks(best, len(problems), folder, "rules searched", on_progress)


def costs_of(
    problems: Sequence[PlacementProblem],
    rules: np.ndarray,
    folder: Path,
    label: str,
    on_progress: OnProgress,
) -> np.ndarray:
    """float64[N, M]: costs over each row's least, of rules float64[M, FEATURES]."""

    def costs(index: int) -> np.ndarray:
        problem = problems[index]
        found = np.maximum(tried(problem, rule.columns(problem), rules).costs, 1e-30)
        return found / found.min()

    return _in_chunks(costs, len(problems), folder, label, on_progress)


def choose_pool(costs: np.ndarray, count: int) -> np.ndarray:
    """int[count]: candidates, columns of costs float[N, C], that differ in what they are good at.

    Each adds most to those before, in the mean of the logarithm of the least cost; when none adds
    anything, the best on average of the others follow. Repeats them if there are too few.
    """
    logs = np.minimum(np.log(costs), WORST)
    least = np.full(len(logs), WORST)
    chosen: list[int] = []
    while len(chosen) < min(count, logs.shape[1]):
        after = np.minimum(least[:, None], logs).mean(axis=0)
        after[chosen] = np.inf
        if after.min() >= least.mean():
            break
        chosen.append(int(after.argmin()))
        least = np.minimum(least, logs[:, chosen[-1]])
    others = [one for one in np.argsort(logs.mean(axis=0), kind="stable") if one not in chosen]
    return np.resize([*chosen, *others], count)


def learner(
    validation: Sequence[Matrix], policy: DispatchConfig, config: DispatchTraining
) -> Learner:
    """Learns of batches (features float32[2, B, N], costs float32[2, B, M]), a part of each
    objective."""
    schedule = optax.cosine_decay_schedule(config.learning_rate, config.steps)
    optimizer = trainer.clipped_adam(config.clip_norm, schedule)
    network = dispatching.dispatch_policy(policy)

    def loss_of(params, features, costs, key):
        tried_key, dropout_key = jax.random.split(key)
        done = random_tried(tried_key, costs)
        found = network.log_prob(params, features, costs, done, dropout_key)
        logs, left = jnp.log(costs), jnp.where(done, 0.0, found)
        target = jax.nn.softmax(jnp.where(done, -jnp.inf, -logs / config.temperature))
        best = jnp.min(jnp.where(done, logs, LARGEST_REGRET))
        drawn = jnp.exp(found) @ jnp.minimum(logs, best)
        return config.cost_weight * drawn - target @ left

    def loss(params, batch, key):
        features, costs = batch
        keys = jax.random.split(key, costs.shape[:2])
        many = jax.vmap(jax.vmap(loss_of, (None, 0, 0, 0)))
        return jnp.mean(many(params, features, costs, keys))

    def update(key, state: TrainState, batch):
        value, gradient = jax.value_and_grad(loss)(state.params, batch, key)
        norm = optax.global_norm(gradient)
        return trainer.descend(state, gradient, optimizer), {"loss": value, "gradient_norm": norm}

    def init(key, rules: int) -> TrainState:
        return trainer.new_state(network.init(key, rules), optimizer)

    log_probs = jax.jit(jax.vmap(network.log_prob, (None, 0, 0, 0)))

    def validate(params):
        parts = [
            regret(functools.partial(log_probs, dispatching.of_objective(params, which)), matrix)
            for which, matrix in zip(OBJECTIVES, validation, strict=True)
        ]
        values = [float(np.mean(parts)), *parts]
        return values[0], dict(zip(VALIDATION, values, strict=True))

    return Learner("regal_dispatch", init, update, validate, METRICS, VALIDATION)


def random_tried(key, costs: jax.Array) -> jax.Array:
    """bool[M]: rules that were tried, at random: some of the first, some that are good or not."""
    order_key, good_key, noise_key, scale_key, none_key = jax.random.split(key, 5)
    first = jax.random.choice(order_key, jnp.array(TRIED_IN_ORDER))
    scale = jax.random.choice(scale_key, jnp.array(NOISES))
    seeming = jnp.log(costs) - scale * jax.random.gumbel(noise_key, costs.shape)
    in_order = jnp.arange(len(costs)) < first
    rank = jnp.argsort(jnp.argsort(jnp.where(in_order, jnp.inf, seeming)))
    done = in_order | (rank < jax.random.choice(good_key, jnp.array(TRIED_AS_GOOD)))
    return done & ~jnp.all(done) & (jax.random.uniform(none_key) >= UNTRIED)


def regret(log_probs: Callable, matrix: Matrix) -> float:
    """The mean regret at LOOKS of the rules that are tried when a network chooses."""
    features, costs = matrix
    if not len(costs):
        return 0.0
    rows, done = np.arange(len(costs))[:, None], np.zeros(costs.shape, bool)
    regrets, spent = [], 0
    for look in LOOKS:
        while spent < min(look, costs.shape[1]):
            size = rule_search.batch_size(spent, look)
            found = np.asarray(log_probs(features, costs, done))
            done[rows, np.argsort(-found, axis=1, kind="stable")[:, :size]] = True
            spent += size
        least = np.log(np.min(np.where(done, costs, np.inf), axis=1))
        regrets.append(np.mean(np.minimum(least, LARGEST_REGRET)))
    return float(np.mean(regrets))


def train(
    training: Sequence[ComputationGraph],
    validation: Sequence[ComputationGraph],
    *,
    policy: DispatchConfig,
    pool: PoolConfig,
    config: DispatchTraining,
    directory: str | os.PathLike,
    on_step=lambda step, metrics: None,
    on_progress: OnProgress = lambda label, done, total: None,
) -> Path:
    """Trains a policy on problems drawn of graphs and returns the file of the best one by its
    regret on problems of the validation graphs.

    What was searched and tried is kept in the directory, so that a stopped run goes on.
    """
    about = {
        "pool": dataclasses.asdict(pool),
        "graphs": graphs_fingerprint(training),
        "validation": graphs_fingerprint(validation),
    }
    stored = json.dumps([about, config.seed], sort_keys=True)
    name = hashlib.sha256(stored.encode()).hexdigest()[:12]
    data = Path(directory).absolute() / f"problems-{name}"
    drawn = _by_objective(draw_problems(training, config.seed))
    held_out = _by_objective(draw_problems(validation, config.seed + 1))
    pools = {
        which: _pool(some, pool, config.seed, data / which, on_progress)
        for which, some in drawn.items()
    }
    matrices = _matrices(drawn, pools, data, "training", on_progress)
    checks = _matrices(held_out, pools, data, "validation", on_progress)
    rules = np.stack(list(pools.values()))
    path = Path(directory) / "best.policy"
    trainer.fit(
        learner(checks, policy, config),
        functools.partial(_batches, matrices, config),
        directory,
        example=pool.rules,
        seed=config.seed,
        policy=PolicyFile(
            path,
            policy,
            about | {"training": dataclasses.asdict(config)},
            lambda params: {"rules": rules, "network": params},
        ),
        hyperparameters={"policy": policy, "training": config, **about},
        on_step=on_step,
    )
    return path


def _by_objective(problems: Sequence[PlacementProblem]) -> dict[str, list[PlacementProblem]]:
    """OptionError if there is no problem of an objective."""
    found: dict[str, list[PlacementProblem]] = {
        which: [problem for problem in problems if problem.objective == which]
        for which in OBJECTIVES
    }
    for which, some in found.items():
        if not some:
            raise OptionError(f"no problem of the objective {which} was drawn: more graphs?")
    return found


def _pool(
    problems: Sequence[PlacementProblem],
    config: PoolConfig,
    seed: int,
    folder: Path,
    on_progress: OnProgress,
) -> np.ndarray:
    """float32[M, FEATURES]: the pool of an objective, in the order of choice."""
    rng = np.random.default_rng((seed, 1))
    some = [problems[i] for i in rng.permutation(len(problems))[: config.searched]]
    evaluations = config.search_evaluations
    candidates = best_rules(some, evaluations, seed, folder / "rules", on_progress)
    covered, label = some[: config.covered], "problems, candidates"
    costs = costs_of(covered, candidates, folder / "candidates", label, on_progress)
    return candidates[choose_pool(costs, config.rules)].astype(np.float32)


def _matrices(
    problems: dict[str, list[PlacementProblem]],
    pools: dict[str, np.ndarray],
    folder: Path,
    part: str,
    on_progress: OnProgress,
) -> list[Matrix]:
    """What the rules of each objective cost on its problems."""
    found = []
    for which, some in problems.items():
        pool, label = pools[which].astype(float), f"problems, {part}"
        costs = costs_of(some, pool, folder / which / part, label, on_progress)
        features = [dispatching.features_of(problem, rule.columns(problem)) for problem in some]
        found.append(Matrix(np.stack(features), costs.astype(np.float32)))
    return found


CHUNK = 50
"""Items that a stopped run computes again at most."""


def _in_chunks(
    make: Callable[[int], np.ndarray],
    count: int,
    folder: Path,
    label: str,
    on_progress: OnProgress,
) -> np.ndarray:
    """``make`` of 0..count, stacked; chunks are kept in files of the folder, and read if there."""
    chunks = []
    folder.mkdir(parents=True, exist_ok=True)
    for first in range(0, count, CHUNK):
        last, path = min(first + CHUNK, count), folder / f"{first}.npy"
        if not path.exists():
            made = np.stack([make(index) for index in range(first, last)])
            files.write_atomically(path, functools.partial(np.save, arr=made))
        chunks.append(np.load(path))
        on_progress(label, last, count)
    return np.concatenate(chunks)


def _batches(
    matrices: Sequence[Matrix], config: DispatchTraining, first: int, epoch: int
) -> Iterator[Batch]:
    """Problems of each objective: functions of (seed, step)."""

    def batch(step: int) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng((config.seed, 2, step))
        rows = [rng.integers(len(matrix.costs), size=config.batch_size) for matrix in matrices]
        return tuple(
            np.stack([column[some] for column, some in zip(columns, rows, strict=True)])
            for columns in zip(*matrices, strict=True)
        )

    return trainer.stepwise(batch, first, config.steps, config.epoch_steps)
