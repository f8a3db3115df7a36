"""Training of moves: advantages are those of the best of K, and what helps is learned."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.policies.regal import moves
from regal_jax.policies.regal.moves import MovesConfig
from regal_jax.training import regal_moves
from regal_jax.training.checkpoints import load_policy
from regal_jax.training.regal_moves import MovesTraining
from tests.policies.cases import random_graph

SMALL = MovesConfig(size=8, rounds=2, moved=2.0, reordered=2.0)
CONFIG = MovesTraining(
    draws=16, best_of=4, batch_size=2, steps=4, epoch_steps=2, evaluations=400, looks=2
)


@pytest.mark.parametrize(("count", "best_of"), [(2, 1), (5, 1), (5, 3), (6, 5)])
def test_advantages_are_what_a_reward_adds_to_the_best_of_k(count, best_of):
    rewards = np.random.default_rng(count).normal(size=count)
    found = regal_moves.advantages(jnp.asarray(rewards), best_of)
    for draw in range(count):
        others = [i for i in range(count) if i != draw]
        with_it = [
            max(rewards[[draw, *some]]) for some in itertools.combinations(others, best_of - 1)
        ]
        without = [max(rewards[list(some)]) for some in itertools.combinations(others, best_of)]
        assert found[draw] == pytest.approx(np.mean(with_it) - np.mean(without), abs=1e-5)
    every = [max(rewards[list(some)]) for some in itertools.combinations(range(count), best_of)]
    best = regal_moves.expected_best(jnp.asarray(rewards), best_of)
    assert best == pytest.approx(np.mean(every), abs=1e-5)


def states(config=CONFIG, objective="peak_memory", num_devices=2):
    graphs = [random_graph(seed, 10 + seed) for seed in range(4)]
    return regal_moves.prepare_states(
        graphs, num_devices=num_devices, objective=objective, config=config, policy=SMALL
    )


def test_states_are_schedules_with_their_costs():
    for found in states():
        for row in range(len(found.cost)):
            graph, inputs, cost = jax.tree.map(
                lambda leaf, row=row: leaf[row], (found.graph, found.inputs, found.cost)
            )
            known = moves.chromosome(inputs)[None]
            assert found.model.value.costs(graph, known)[0] == cost
    assert sum(len(found.cost) for found in states()) >= 2


def test_a_move_that_always_helps_is_learned():
    """The reward is the number of ops that leave: all soon do."""
    found = states()[0]
    learner = regal_moves.learner(
        [found], SMALL, MovesTraining(draws=32, best_of=8, batch_size=2, learning_rate=1e-2)
    )

    class Leaving:
        """Costs exp(-share of the ops on device 1)."""

        def costs(self, graph, chromosomes):
            affinity = chromosomes[:, : 2 * num_ops].reshape(-1, num_ops, 2)
            return jnp.exp(-jnp.mean(affinity[..., 1], axis=1))

    num_ops = found.inputs.device.shape[1]
    rows = np.zeros(2, int)
    batch = found.take(rows)
    inputs = batch.inputs.replace(device=0 * batch.inputs.device)
    batch = batch._replace(model=regal_moves.Static(Leaving()), inputs=inputs, cost=np.ones(2))
    state = learner.init(jax.random.key(0), jax.tree.map(lambda leaf: leaf[0], inputs))
    update = jax.jit(learner.update)
    for step in range(60):
        state, metrics = update(jax.random.key(step), state, batch)
        if step == 0:
            before = float(metrics["moved"])
    assert float(metrics["moved"]) > 1.5 * before


def test_a_stopped_training_goes_on_to_the_same_policy(tmp_path):
    found = states()

    def train(folder, steps):
        config = MovesTraining(**{**vars(CONFIG), "steps": steps})
        return regal_moves.train(
            found, found, policy=SMALL, config=config, directory=tmp_path / folder, about={}
        )

    train("stopped", 2)
    resumed, whole = (train(folder, 4).read_bytes() for folder in ("stopped", "whole"))
    assert resumed == whole
    params, config, about = load_policy(tmp_path / "whole" / "best.policy", MovesConfig)
    assert config == SMALL
    assert about["steps"] in (0, 2, 4)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(params))
