"""Training of the dispatcher: what is tried, chosen and learned, and that a stopped run goes on."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.environments.dispatching import rule
from regal_jax.errors import OptionError
from regal_jax.policies.regal import dispatching
from regal_jax.policies.regal.dispatching import NUM_FEATURES, OBJECTIVES, DispatchConfig
from regal_jax.training import regal_dispatch
from regal_jax.training.checkpoints import load_policy
from regal_jax.training.regal_dispatch import DispatchTraining, Matrix, PoolConfig
from tests.policies.cases import random_graph

SMALL = DispatchConfig(size=16, dropout=0.0)
POOL = PoolConfig(searched=3, search_evaluations=70, covered=2, rules=6)
CONFIG = DispatchTraining(steps=4, epoch_steps=2, batch_size=2)
GRAPHS = [random_graph(seed, 8 + seed) for seed in range(12)]


def test_problems_are_drawn_alike_and_vary():
    problems = regal_dispatch.draw_problems(GRAPHS * 9, 0)
    again = regal_dispatch.draw_problems(GRAPHS * 9, 0)
    assert [(p.graph.name, p.platform, p.objective) for p in problems] == [
        (p.graph.name, p.platform, p.objective) for p in again
    ]
    assert {p.objective for p in problems} == set(OBJECTIVES)
    assert {p.num_devices for p in problems} == {1, 2, 4, 8}
    timed = [p for p in problems if p.objective == "makespan"]
    assert {p.platform.memory_capacity is None for p in timed} == {True, False}
    assert {p.platform.per_byte > 0 for p in timed} == {True, False}


def test_best_rules_are_better_than_random_ones(tmp_path):
    problems = [p for p in regal_dispatch.draw_problems(GRAPHS, 0) if p.objective == OBJECTIVES[0]]
    found = regal_dispatch.best_rules(problems, 300, 0, tmp_path, lambda *_: None)
    other = rule.random_rules(np.random.default_rng(9), 20, timed=False)
    for problem, one in zip(problems, found, strict=True):
        costs = rule.tried(problem, rule.columns(problem), np.stack([one, *other])).costs
        assert costs[0] <= np.median(costs[1:])
    assert np.isfinite(found).all()


def test_a_pool_is_chosen_by_what_each_rule_adds():
    costs = np.array(
        [
            [1.0, 9.0, 1.2, 1.0, 1.1],
            [9.0, 1.0, 1.2, 9.0, 1.1],
            [9.0, 1.0, 1.2, 9.0, 1.3],
        ]
    )
    assert regal_dispatch.choose_pool(costs, 3).tolist() == [4, 1, 0]
    assert regal_dispatch.choose_pool(costs, 5).tolist() == [4, 1, 0, 2, 3]
    assert regal_dispatch.choose_pool(costs, 7).tolist() == [4, 1, 0, 2, 3, 4, 1]


def test_some_rules_are_tried_but_never_all():
    costs = jnp.asarray(np.random.default_rng(0).uniform(1.0, 2.0, 40), jnp.float32)
    keys = jax.random.split(jax.random.key(0), 400)
    done = np.asarray(jax.vmap(regal_dispatch.random_tried, (0, None))(keys, costs))
    count = done.sum(axis=1)
    assert count.min() == 0
    assert 32 < count.max() < 40
    logs = np.log(np.asarray(costs))
    some = (count > 0) & (count < 40)
    assert np.mean([logs[row].mean() for row in done[some]]) < logs.mean() - 0.05
    few = jax.vmap(regal_dispatch.random_tried, (0, None))(keys, costs[:6])
    assert not np.any(np.all(few, axis=1))


def test_regret_is_what_a_network_misses():
    rng = np.random.default_rng(0)
    costs = np.exp(rng.uniform(0.0, 0.4, (7, 50)))
    costs /= costs.min(axis=1, keepdims=True)
    matrix = Matrix(np.zeros((7, NUM_FEATURES)), costs)

    def known(features, costs, done):
        return np.where(done, -np.inf, -costs)

    def in_order(features, costs, done):
        return np.where(done, -np.inf, -np.arange(50.0))

    assert regal_dispatch.regret(known, matrix) == 0.0
    expected = np.mean([np.log(costs[:, :look].min(axis=1)) for look in regal_dispatch.LOOKS])
    assert regal_dispatch.regret(in_order, matrix) == pytest.approx(expected)
    nothing = Matrix(np.zeros((0, NUM_FEATURES)), np.zeros((0, 50)))
    assert regal_dispatch.regret(known, nothing) == 0.0


def test_which_rule_is_good_is_learned():
    """Of ten rules the feature says which half is good; in it, all depends on the first one."""
    rng = np.random.default_rng(0)

    def matrix(count):
        kind, first = rng.integers(2, size=(2, count))
        features = np.zeros((count, NUM_FEATURES), np.float32)
        features[:, 0] = kind
        costs = np.full((count, 10), 1.5, np.float32)
        costs[np.arange(count), 5 * kind] = 1.1 + 0.1 * first
        costs[np.arange(count), 5 * kind + 1 + first] = 1.0
        return Matrix(features, costs)

    training, held_out = [matrix(64), matrix(64)], [matrix(50), matrix(50)]
    config = dataclasses.replace(CONFIG, steps=400, batch_size=32, learning_rate=3e-3)
    learner = regal_dispatch.learner(held_out, SMALL, config)
    state = learner.init(jax.random.key(1), 10)
    before, _ = learner.validate(state.params)
    update = jax.jit(learner.update)
    for step, batch in enumerate(regal_dispatch._batches(training, config, 0, 0)):
        state, metrics = update(jax.random.key(step), state, batch.data)
    after, found = learner.validate(state.params)
    assert before > 0.08
    assert after < 0.65 * before  # 0.035 is the least there is
    assert set(found) == set(learner.validation)
    assert np.isfinite(metrics["loss"])


def test_a_rule_that_is_never_bad_comes_before_rules_that_are_often_best():
    """Which of two rules is the best one can't be known at first; a third is a little worse."""
    best = np.arange(64) % 2
    costs = np.full((64, 3), 1.6, np.float32)
    costs[np.arange(64), best] = 1.0
    costs[:, 2] = 1.1
    matrix = Matrix(np.zeros((64, NUM_FEATURES), np.float32), costs)
    config = dataclasses.replace(CONFIG, steps=150, batch_size=32, learning_rate=3e-3)
    first = []
    for weight in (0.0, 100.0):
        weighted = dataclasses.replace(config, cost_weight=weight)
        learner = regal_dispatch.learner([matrix, matrix], SMALL, weighted)
        state, update = learner.init(jax.random.key(0), 3), jax.jit(learner.update)
        batches = regal_dispatch._batches([matrix, matrix], weighted, 0, 0)
        for step, batch in enumerate(batches):
            state, _ = update(jax.random.key(step), state, batch.data)
        params = jax.tree.map(lambda leaf: leaf[0], state.params)
        network = dispatching.dispatch_policy(SMALL)
        found = network.log_prob(params, matrix.features[0], costs[0], np.zeros(3, bool))
        first.append(int(np.argmax(found)))
    assert first[0] != 2
    assert first[1] == 2


def test_a_stopped_training_goes_on_to_the_same_policy(tmp_path):
    class Stopped(Exception):
        pass

    def train(folder, stop=None, on_progress=lambda *_: None):
        def on_step(step, metrics):
            if step == stop:
                raise Stopped

        return regal_dispatch.train(
            GRAPHS,
            GRAPHS[:8],
            policy=SMALL,
            pool=POOL,
            config=CONFIG,
            directory=tmp_path / folder,
            on_step=on_step,
            on_progress=on_progress,
        )

    def stop_while_trying(label, done, total):
        if "training" in label:
            raise Stopped

    with pytest.raises(Stopped):
        train("stopped", on_progress=stop_while_trying)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "stopped").rglob("*.npy")}
    assert kept
    with pytest.raises(Stopped):
        train("stopped", stop=3)
    resumed, whole = (train(folder).read_bytes() for folder in ("stopped", "whole"))
    assert resumed == whole
    assert all(path.stat().st_mtime_ns == at for path, at in kept.items())
    params, config, about = load_policy(tmp_path / "whole" / "best.policy", DispatchConfig)
    assert config == SMALL
    assert about["training"] == dataclasses.asdict(CONFIG)
    assert params["rules"].shape == (2, 6, dispatching.rule.kernel.FEATURES)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(params))


def test_graphs_without_a_problem_of_each_objective_are_refused(tmp_path):
    with pytest.raises(OptionError, match="no problem of the objective"):
        regal_dispatch.train(
            GRAPHS[:1], GRAPHS, policy=SMALL, pool=POOL, config=CONFIG, directory=tmp_path / "a"
        )
