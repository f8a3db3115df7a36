"""Moves: densities are those of what is drawn, and only what moves changes."""

import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from regal_jax.environments.placement import checker
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.graphs.batching import GraphShape
from regal_jax.policies.regal import moves, schedule_features
from regal_jax.policies.regal.moves import MovesConfig, moves_policy
from regal_jax.policies.regal.schedule_features import graph_part, schedule_inputs
from tests.policies.cases import random_graph, random_params

CONFIG = MovesConfig(size=4, rounds=2)


def case(num_ops=5, num_devices=2, objective="peak_memory", shape=None, seed=0):
    """(problem, schedule, its inputs)."""
    graph = random_graph(seed, num_ops)
    problem = PlacementProblem(graph, num_devices, objective, shape=shape)
    chromosome = np.random.default_rng(seed).random(problem.num_genes, np.float32)
    schedule = problem.decode(chromosome)
    return problem, schedule, schedule_inputs(problem, schedule, graph_part(graph), 0.5)


def proposed(inputs, seed=0):
    policy = moves_policy(CONFIG)
    params = random_params(policy.init, jax.random.key(seed), inputs)
    return jax.jit(policy.moves)(params, inputs)


def parents(inputs, count):
    return jnp.broadcast_to(inputs.device, (count, len(inputs.device)))


def test_a_fresh_policy_moves_all_ops_alike():
    _, _, inputs = case()
    policy = moves_policy(CONFIG)
    found = jax.jit(policy.moves)(policy.init(jax.random.key(0), inputs), inputs)
    begin = moves.fresh(CONFIG, inputs)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(begin), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_fresh_moves_as_many_as_it_says(num_devices):
    _, _, inputs = case(60, num_devices)
    begin = moves.constant_moves(inputs, moved=3.0, reordered=2.0, scale=0.1)
    device = parents(inputs, 2000)
    drawn = moves.draw(jax.random.key(1), begin, inputs, device)
    moved = np.asarray(jnp.sum(drawn.device != device, axis=1))
    assert moved.mean() == pytest.approx(0.0 if num_devices == 1 else 3.0, abs=0.2)
    assert np.asarray(jnp.sum(drawn.reordered, axis=1)).mean() == pytest.approx(2.0, abs=0.15)
    assert np.asarray(drawn.change)[np.asarray(drawn.reordered)].std() == pytest.approx(
        0.1, rel=0.1
    )


def test_devices_have_the_frequencies_that_log_prob_says():
    _, _, inputs = case(2, 3, shape=GraphShape(2, 8, 8, 8, 8))
    found = proposed(inputs)
    count = 6000
    drawn = moves.draw(jax.random.key(1), found, inputs, parents(inputs, count))
    every = jnp.array(list(itertools.product(range(3), repeat=2)), jnp.int32)
    no = jnp.zeros((9, 2), bool)
    none = moves.Drawn(every != inputs.device, every, no, jnp.zeros((9, 2)))
    stays = jnp.sum(jax.nn.log_sigmoid(-found.odds))
    expected = np.exp(np.asarray(moves.log_prob(found, none, inputs) - stays, float))
    assert expected.sum() == pytest.approx(1.0, rel=1e-4)
    seen = np.bincount(np.asarray(drawn.device) @ [3, 1], minlength=9)
    assert stats.chisquare(seen, count * expected / expected.sum()).pvalue > 1e-4


def test_priorities_move_by_the_density_that_log_prob_says():
    _, _, inputs = case(3, 1)
    found = proposed(inputs)
    drawn = moves.draw(jax.random.key(2), found, inputs, parents(inputs, 4000))
    for op in np.flatnonzero(inputs.real):
        which = np.asarray(drawn.reordered[:, op])
        often = float(jax.nn.sigmoid(found.odds[op]))
        assert which.mean() == pytest.approx(often, abs=4 * (often * (1 - often) / 4000) ** 0.5)
        normal = stats.norm(float(found.shift[op]), float(found.scale[op]))
        far = np.asarray(drawn.change[:, op])[which]
        assert stats.kstest(far, normal.cdf).pvalue > 1e-4
    one = jax.tree.map(lambda leaf: leaf[:5], drawn)
    by_hand = []
    for row in range(5):
        total = 0.0
        for op in np.flatnonzero(inputs.real):
            often = float(jax.nn.sigmoid(found.odds[op]))
            normal = stats.norm(float(found.shift[op]), float(found.scale[op]))
            if one.reordered[row, op]:
                total += np.log(often) + normal.logpdf(float(one.change[row, op]))
            else:
                total += np.log1p(-often)
        by_hand.append(total)
    np.testing.assert_allclose(moves.log_prob(found, one, inputs), by_hand, rtol=1e-4)


@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_genes_of_what_stays_are_those_of_the_parent(num_devices):
    problem, schedule, inputs = case(12, num_devices)
    still = moves.constant_moves(inputs, moved=0.0, reordered=0.0, scale=1.0)
    chromosome = jnp.asarray(problem.pad(problem.encode(schedule)[None]))
    same = jax.jit(lambda key: moves.mutate(still, inputs)(key, chromosome))(jax.random.key(0))
    np.testing.assert_array_equal(same, chromosome)
    often = moves.constant_moves(inputs, moved=0.0, reordered=3.0, scale=1.0)
    changed = np.asarray(moves.mutate(often, inputs)(jax.random.key(0), chromosome))
    moved = changed != np.asarray(chromosome)
    ops = problem.shape.ops * num_devices + np.arange(problem.graph.num_ops)
    assert 0 < moved[0, ops].sum() < problem.graph.num_ops
    readers = np.asarray(inputs.reader)
    copies = moved[0, ops[-1] + 1 + problem.shape.ops - problem.graph.num_ops :]
    for tensor in range(problem.graph.num_tensors):
        follows = readers[tensor] < problem.graph.num_ops and moved[0, ops[readers[tensor]]]
        rows = copies[tensor * num_devices : (tensor + 1) * num_devices]
        assert np.all(rows == follows)


def test_what_leaves_never_stays():
    _, _, inputs = case(8, 3)
    found = moves.constant_moves(inputs, moved=4.0, reordered=0.0, scale=1.0)
    elsewhere = moves._elsewhere(jax.random.key(0), found, parents(inputs, 500))
    assert np.all(np.asarray(elsewhere) != np.asarray(inputs.device))
    assert set(np.asarray(elsewhere).ravel().tolist()) == {0, 1, 2}


def test_padding_changes_nothing():
    _, _, small = case(6)
    _problem, _schedule, large = case(6, shape=GraphShape(32, 64, 64, 16, 16))
    policy = moves_policy(CONFIG)
    params = random_params(policy.init, jax.random.key(0), small)
    one, other = policy.moves(params, small), policy.moves(params, large)
    real = np.flatnonzero(large.real)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(np.asarray(a)[: len(real)], np.asarray(b)[real], rtol=2e-4)


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
def test_renamed_devices_are_proposed_as_often(objective):
    problem, schedule, inputs = case(7, 3, objective)
    rename = np.array([2, 0, 1])
    renamed = problem.costed(
        schedule.replace(
            placement=rename[schedule.placement], steps=_renamed(problem, schedule, rename)
        )
    )
    others = schedule_inputs(problem, renamed, graph_part(problem.graph), 0.5)
    policy = moves_policy(CONFIG)
    params = random_params(policy.init, jax.random.key(0), inputs)
    one, other = policy.moves(params, inputs), policy.moves(params, others)
    count = problem.graph.num_ops
    np.testing.assert_allclose(
        one.log_share[:count], other.log_share[:count][:, rename], rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(one.odds[:count], other.odds[:count], rtol=1e-3, atol=1e-4)


def _renamed(problem, schedule, rename):
    num_ops, num_devices = problem.graph.num_ops, problem.num_devices
    steps = schedule.steps.copy()
    copies = steps >= num_ops
    tensor, device = np.divmod(steps[copies] - num_ops, num_devices)
    steps[copies] = num_ops + tensor * num_devices + rename[device]
    return steps


@pytest.mark.parametrize("seed", range(5))
def test_memory_in_use_is_the_checkers_on_one_device(seed):
    problem, schedule, _ = case(15, 1, seed=seed)
    at = np.argsort(schedule.ops_in_order())
    use = schedule_features._memory_use(problem.graph, schedule.placement.astype(int), at, 1)
    timeline = checker.memory_timeline(problem.graph, schedule).usage[1:]
    np.testing.assert_array_equal(use, timeline)


def test_one_program_serves_all_schedules_of_a_shape():
    policy = moves_policy(CONFIG)
    problem, _, inputs = case(10)
    params = random_params(policy.init, jax.random.key(0), inputs)
    traced = jax.jit(chex.assert_max_traces(lambda seen: policy.moves(params, seen), n=1))
    for seed in range(3):
        schedule = problem.decode(np.random.default_rng(seed).random(problem.num_genes, np.float32))
        traced(schedule_inputs(problem, schedule, graph_part(problem.graph), 0.1 * seed))
