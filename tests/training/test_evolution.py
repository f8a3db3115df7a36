"""Evolution: the minimum of known functions, policies that get better by it, and resuming."""

import dataclasses

import jax
import numpy as np
import pytest

from regal_jax.datasets.layered import layered_graphs
from regal_jax.errors import OptionError
from regal_jax.policies.choosing import NOISE, RULE, NextOpConfig
from regal_jax.search.orders.choices import NEXT_OP
from regal_jax.training import checkpoints, evolution
from regal_jax.training.choosing import drawn, example, train_choosing
from regal_jax.training.evolution import Evolution
from regal_jax.training.trainer import changed
from tests.training.cases import stopped, whole_as_resumed

CONFIG = Evolution(
    epochs=3, batch_size=2, population=6, samples=4, validation_samples=4, spread=0.5, seed=1
)
VALIDATION = layered_graphs(1, 2, 30)
STEPS = 6
"""Of 3 epochs, of two graphs and then one."""


def fresh(epoch):
    return layered_graphs(10 + epoch, 3, 30)


def run(directory, *, stop_after=None, config=CONFIG, validation=VALIDATION):
    return train_choosing(
        NEXT_OP,
        fresh,
        validation,
        learner=evolution.learner,
        epoch_graphs=3,
        policy=NextOpConfig(),
        config=config,
        directory=directory,
        about={"data": "layered graphs"},
        on_step=stopped(stop_after),
    )


def sphere(x):
    return np.sum(x**2, axis=1)


def ellipsoid(x):
    """Turned, with axes of lengths 1 to 100."""
    turned = x @ np.linalg.qr(np.random.default_rng(5).normal(size=(6, 6)))[0]
    return np.sum(10.0 ** np.linspace(0, 4, 6) * turned**2, axis=1)


@pytest.mark.parametrize(("function", "steps"), [(sphere, 120), (ellipsoid, 300)])
def test_the_minimum_is_found(function, steps):
    rng, mean = np.random.default_rng(0), np.full(6, 3.0)
    distribution = evolution.first_distribution(mean.astype(np.float32), 1.0)
    for _ in range(steps):
        some = evolution.draw(rng, mean, distribution, 12)
        ranked = some[np.argsort(function(some))]
        mean, distribution = evolution.moved(mean, distribution, ranked)
    assert function(mean[None])[0] < 1e-8
    assert distribution.spread < 1e-2


def test_drawn_parameters_have_the_covariance():
    rng, root = np.random.default_rng(1), np.array([[2.0, 0.0], [1.0, 0.5]])
    none = np.zeros(2, np.float32)
    distribution = evolution.Distribution(np.float32(3.0), np.float32(root @ root.T), none, none)
    drawn = evolution.draw(rng, np.array([1.0, -1.0]), distribution, 100_000)
    np.testing.assert_allclose(np.cov(drawn.T), 9 * root @ root.T, rtol=0.05)
    np.testing.assert_allclose(drawn.mean(axis=0), [1.0, -1.0], atol=0.1)


def test_the_mean_moves_to_the_better_half():
    """The first step of a population of four: weights are those of the two best."""
    distribution = evolution.first_distribution(np.zeros(2, np.float32), 1.0)
    ranked = np.array([[1.0, 0.0], [0.0, 1.0], [9.0, 9.0], [-9.0, 9.0]])
    mean, found = evolution.moved(np.zeros(2), distribution, ranked)
    weights = np.log(2.5) - np.log([1.0, 2.0])
    np.testing.assert_allclose(mean, weights / weights.sum())
    np.testing.assert_array_equal(found.covariance, found.covariance.T)
    assert np.all(np.linalg.eigvalsh(found.covariance) > 0)
    other, _ = evolution.moved(np.zeros(2), distribution, ranked[[0, 1, 3, 2]])
    np.testing.assert_array_equal(mean, other)


def test_a_resumed_run_ends_bit_for_bit_where_it_would_have(tmp_path):
    whole = whole_as_resumed(run, tmp_path, stop_after=3, step=STEPS)
    params, config, about = checkpoints.load_policy(whole / "best.policy", NextOpConfig)
    assert config == NextOpConfig()
    assert about["data"] == "layered graphs"
    assert about["training"]["population"] == 6
    assert params["weights"].shape == (len(NEXT_OP.kernel.NAMES),)


def test_a_policy_begins_as_its_rule(tmp_path):
    """Without spread nothing changes."""
    config = Evolution(epochs=1, batch_size=3, population=2, samples=1, spread=1e-9)
    file = run(tmp_path, config=config)
    params, _, about = checkpoints.load_policy(file, NextOpConfig)
    rule = [RULE.get(name, 0.0) / NOISE for name in NEXT_OP.kernel.NAMES]
    np.testing.assert_allclose(params["weights"], rule, atol=1e-6)
    assert about["validation_cost"] >= 1.0


def test_without_samples_the_most_likely_schedule_counts():
    held_out = [example(NEXT_OP, graph) for graph in fresh(0)]
    config = Evolution(population=2, samples=0, spread=1e-9, validation_samples=0)
    learner = evolution.learner(NextOpConfig(), config, held_out, 1)
    state = learner.init(jax.random.key(0), None)
    network = NEXT_OP.linear(dict(RULE))
    greedy = [drawn(one, network, 0) for one in held_out]
    _, metrics = learner.update(jax.random.key(0), state, held_out)
    assert metrics["cost"] == pytest.approx(np.mean(np.log(greedy)))
    best, of_both = learner.validate(state.params)
    assert best == of_both["validation_greedy"] == pytest.approx(np.mean(greedy))


def test_the_best_of_samples_gets_better():
    """From weights that know nothing."""
    held_out = [example(NEXT_OP, graph) for graph in fresh(0)]
    config = Evolution(population=8, samples=2, spread=1.0)
    learner = evolution.learner(NextOpConfig(), config, held_out, 1)
    state = learner.init(jax.random.key(0), None)
    state = changed(state, params=jax.tree.map(np.zeros_like, state.params))
    costs = []
    for step in range(25):
        state, metrics = learner.update(jax.random.key(step), state, held_out)
        costs.append(metrics["cost"])
    assert np.mean(costs[-5:]) < np.mean(costs[:5]) - 0.02


@pytest.mark.parametrize("wrong", [{"population": 1}, {"samples": -1}, {"spread": float("nan")}])
def test_what_cannot_evolve_is_refused(tmp_path, wrong):
    with pytest.raises(OptionError, match="a population of two or more, samples, and a spread"):
        run(tmp_path, config=dataclasses.replace(CONFIG, **wrong))


def test_no_validation_graphs_are_refused(tmp_path):
    with pytest.raises(OptionError, match="no validation graphs"):
        run(tmp_path, validation=[])
