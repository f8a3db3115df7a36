"""One-shot priorities and windows: what the policy sees of a graph, what a new one does, draws."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.datasets.job_shop import uniform_job_shops
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.features.rcpsp import machine_features, places
from regal_jax.graphs.features.relations import relations
from regal_jax.policies.one_shot import policy as one_shot
from regal_jax.policies.one_shot.policy import OneShotConfig, Scores, chromosomes, one_shot_policy
from regal_jax.policies.topological_order.policy import OrderingConfig, ordering_policy
from regal_jax.search.rcpsp import rules
from regal_jax.training.one_shot_inputs import best_rule, one_shot_inputs
from regal_jax.training.ordering_inputs import ordering_inputs
from tests.policies.cases import random_params
from tests.search.rcpsp.cases import random_machines

TINY = OneShotConfig(
    encoder="topoformer_edges", layers=1, size=6, heads=1, head_size=3, dimensions=2, num_types=3
)
GUIDED = dataclasses.replace(TINY, guided=True, feature_set="extended")
WINDOWS = dataclasses.replace(GUIDED, generation="lookahead")
GRAPH, OTHER = uniform_job_shops(3, 3, count=2)


@functools.cache
def params(config: OneShotConfig):
    policy = one_shot_policy(config)
    return random_params(policy.init, jax.random.key(0), one_shot_inputs(GRAPH, config))


def logits(config: OneShotConfig, inputs, found=None) -> np.ndarray:
    return np.asarray(scores(config, inputs, found).logits)


def scores(config: OneShotConfig, inputs, found=None) -> Scores:
    return jax.jit(one_shot_policy(config).encode)(found or params(config), inputs)


def test_the_default_is_the_policy_of_the_paper():
    """F.2, F.3: the encoder's defaults and an encoding of 20 numbers, each op's type one of 20."""
    config = OneShotConfig(num_types=20)
    assert (config.layers, config.size, config.heads, config.head_size) == (4, 256, 10, 64)
    assert (config.encoder, config.guided, config.standardised) == ("topoformer", False, False)
    assert (config.dimensions, config.feature_set, config.windows) == (20, "paper", False)


@pytest.mark.parametrize("config", [TINY, dataclasses.replace(TINY, feature_set="extended")])
def test_inputs_are_features_and_relations(config):
    exact = one_shot_inputs(GRAPH, config)
    expected = machine_features(GRAPH, dimensions=2, feature_set=config.feature_set, num_types=3)
    np.testing.assert_array_equal(exact.features, expected)
    jax.tree.map(np.testing.assert_array_equal, exact.relations, relations(GRAPH))
    padded = one_shot_inputs(GRAPH, config, 12, 16)
    np.testing.assert_array_equal(padded.features[:9], expected)
    assert not padded.features[9:].any()
    jax.tree.map(np.testing.assert_array_equal, padded.relations, relations(GRAPH, 12, 16))


def test_only_an_encoder_with_heads_for_machines_gets_machine_types():
    config = dataclasses.replace(TINY, encoder="topoformer_machines")
    found = one_shot_inputs(GRAPH, config, 12, 16).relations.machine_type
    np.testing.assert_array_equal(found, [*GRAPH.machine_type, -1, -1, -1])
    without = dataclasses.replace(config, heads_by_relation="same_machine=0")
    assert one_shot_inputs(GRAPH, without).relations.machine_type is None


@pytest.mark.parametrize(
    "config", [TINY, GUIDED, dataclasses.replace(TINY, encoder="topoformer_machines", heads=2)]
)
def test_padding_changes_no_logit_and_has_0(config):
    exact = logits(config, one_shot_inputs(GRAPH, config))
    padded = logits(config, one_shot_inputs(GRAPH, config, 16, 32))
    np.testing.assert_allclose(padded[:9], exact, rtol=1e-4, atol=1e-5)
    assert not padded[9:].any()
    assert np.ptp(exact) > 0.01


def test_standardised_logits():
    """Mean 0 and deviation 5 of the real ops (eq. 17 of neural_topological_ordering)."""
    config = dataclasses.replace(TINY, standardised=True)
    plain = logits(TINY, one_shot_inputs(GRAPH, TINY))
    found = logits(config, one_shot_inputs(GRAPH, config, 12, 16), params(TINY))
    np.testing.assert_allclose(found[:9], 5 * (plain - plain.mean()) / plain.std(), rtol=1e-3)
    assert not found[9:].any()


def test_the_best_rule_has_the_shortest_schedule():
    for graph in (GRAPH, OTHER):
        problem = MachineProblem(graph)
        of_rule = {
            name: problem.makespans(rules.genes(rule(graph))[None])[0]
            for name, rule in rules.RULES.items()
        }
        assert problem.makespans(best_rule(graph)[None])[0] == min(of_rule.values())
        assert len(set(of_rule.values())) > 1


def test_a_new_guided_policy_does_what_the_best_rule_does():
    inputs = one_shot_inputs(OTHER, GUIDED, 12, 16)
    assert inputs.features.shape == (12, 1 + 19 + 2)
    fresh = jax.jit(one_shot_policy(GUIDED).init)(jax.random.key(0), inputs)
    found = logits(GUIDED, inputs, fresh)[:9]
    np.testing.assert_allclose(found, 20 * places(best_rule(OTHER)), rtol=1e-6)
    problem = MachineProblem(OTHER)
    expected = problem.makespans(best_rule(OTHER)[None])
    np.testing.assert_array_equal(problem.makespans(found[None]), expected)


def test_a_guided_policy_can_learn():
    """All parameters of the head have a gradient, and then those of the encoder."""
    inputs, policy = one_shot_inputs(GRAPH, GUIDED), one_shot_policy(GUIDED)

    def loss(found):
        return (policy.encode(found, inputs).logits ** 2).sum()

    gradient = jax.jit(jax.grad(loss))(params(GUIDED))
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradient["params"]["head"]))
    assert float(np.abs(gradient["params"]["guide"])) > 0


def test_a_graph_that_does_not_fit():
    with pytest.raises(OptionError, match="does not fit"):
        one_shot_inputs(GRAPH, TINY, 8, 20)
    with pytest.raises(OptionError, match="machine type 2, the policy is for 2 types"):
        one_shot_inputs(GRAPH, dataclasses.replace(TINY, num_types=2))


def test_padding_changes_no_odds_of_holding_and_has_0():
    exact = scores(WINDOWS, one_shot_inputs(GRAPH, WINDOWS))
    padded = scores(WINDOWS, one_shot_inputs(GRAPH, WINDOWS, 16, 32))
    for few, more in zip(exact, padded, strict=True):
        np.testing.assert_allclose(more[:9], few, rtol=1e-4, atol=1e-5)
        assert not np.asarray(more[9:]).any()
        assert np.ptp(few) > 0.01


def test_a_new_policy_with_windows_rarely_holds():
    """The same odds for all ops, below 1; the ranking is that of a policy without windows."""
    inputs = one_shot_inputs(OTHER, WINDOWS, 12, 16)
    fresh = jax.jit(one_shot_policy(WINDOWS).init)(jax.random.key(0), inputs)
    found = scores(WINDOWS, inputs, fresh)
    np.testing.assert_allclose(jax.nn.sigmoid(found.holds[:9]), one_shot.FIRST_HOLD, rtol=1e-5)
    np.testing.assert_allclose(found.logits[:9], 20 * places(best_rule(OTHER)), rtol=1e-6)
    assert not one_shot.greedy(jax.tree.map(np.asarray, found)).holds.any()


def test_windows_add_parameters_to_those_of_the_ranking():
    inputs = one_shot_inputs(GRAPH, WINDOWS)
    names = set(params(WINDOWS)["params"])
    assert names - set(params(GUIDED)["params"]) == {"hold", "hold_head"}
    own = {"params": {k: v for k, v in params(WINDOWS)["params"].items() if "hold" not in k}}
    without = scores(GUIDED, inputs, own)
    np.testing.assert_allclose(without.logits, scores(WINDOWS, inputs).logits, rtol=1e-6)
    np.testing.assert_array_equal(without.logits, logits(GUIDED, inputs, own))
    assert without.holds is None


ODDS = st.lists(st.floats(-20, 20, width=32), min_size=3, max_size=3)
log_prob = jax.jit(one_shot.log_prob)


def every_draw(padding: int):
    """(rankings, holds) of all 6 * 8 draws of 3 ops, the padding ranked last and holding."""
    rankings = [[*one, *range(3, 3 + padding)] for one in itertools.permutations(range(3))]
    holds = [[*one, *[True] * padding] for one in itertools.product([False, True], repeat=3)]
    pairs = list(itertools.product(rankings, holds))
    return np.array([ranking for ranking, _ in pairs], np.int32), np.array([h for _, h in pairs])


@given(ODDS, ODDS)
def test_probabilities_of_all_draws_sum_to_one(found, odds):
    """With padding of any score, which doesn't count."""
    padded = Scores(*(np.array([*some, 30.0, -40.0], np.float32) for some in (found, odds)))
    exact = Scores(*(some[:3] for some in padded))
    values = np.asarray(log_prob(padded, *every_draw(2), 3), float)
    assert np.exp(values).sum() == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(values, log_prob(exact, *every_draw(0), 3), rtol=1e-5, atol=1e-5)


def test_log_probabilities_by_hand():
    """Weights 1, 2, 3; odds of holding 1:1, 1:3 and 4:1."""
    found = Scores(jnp.log(jnp.array([1.0, 2.0, 3.0])), jnp.log(jnp.array([1.0, 1 / 3, 4.0])))
    holds = np.array([[True, False, False], [False, True, True]])
    values = jnp.exp(log_prob(found, np.array([[2, 1, 0], [0, 2, 1]]), holds, 3))
    ranking = np.array([3 / 6 * 2 / 3, 1 / 6 * 3 / 5])
    expected = ranking * [1 / 2 * 3 / 4 * 1 / 5, 1 / 2 * 1 / 4 * 4 / 5]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    alone = log_prob(Scores(found.logits), np.array([[2, 1, 0], [0, 2, 1]]), None, 3)
    np.testing.assert_allclose(jnp.exp(alone), ranking, rtol=1e-6)


def plain(found, odds, ranking, holds) -> float:
    left = [np.logaddexp.reduce(found[ranking[place:]]) for place in range(3)]
    return found.sum() - sum(left) - np.logaddexp(0, np.where(holds, -odds, odds)).sum()


@functools.cache
def doubled_gradient():
    return jax.jit(jax.grad(lambda *a: one_shot.log_prob(*a).sum()))


@given(ODDS, ODDS, st.integers(0, 47))
def test_gradients_are_finite_differences(found, odds, index):
    """In float64, and 0 for padding."""
    rows = [some[index : index + 1] for some in every_draw(2)]
    padded = [np.array([*some, 1.0, 2.0]) for some in (found, odds)]
    with jax.enable_x64(True):
        gradient = doubled_gradient()(Scores(*map(jnp.asarray, padded)), *rows, 3)
        gradient = [np.asarray(part) for part in gradient]
    ranking, holds = rows[0][0, :3], rows[1][0, :3]
    for part in (0, 1):
        assert not gradient[part][3:].any()
        for op in range(3):
            ends = []
            for sign in (1, -1):
                moved = [some[:3].copy() for some in padded]
                moved[part][op] += sign * 1e-5
                ends.append(plain(*moved, ranking, holds))
            assert gradient[part][op] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)


def test_log_odds_far_from_0():
    found = Scores(jnp.zeros(2), jnp.array([-1e4, 1e4]))
    rows = np.array([[0, 1]], np.int32), np.array([[False, True]])
    np.testing.assert_allclose(log_prob(found, *rows, 2), -np.log(2), rtol=1e-6)
    gradient = jax.grad(lambda f: one_shot.log_prob(f, rows[0], ~rows[1], 2).sum())(found)
    np.testing.assert_allclose(gradient.holds, [1, -1])


def test_draws_have_these_probabilities():
    """By a chi-square test on all 6 * 8 draws."""
    found = Scores(np.array([0.5, -0.5, 1.0], np.float32), np.array([-1.0, 0.0, 1.5], np.float32))
    drawn = one_shot.draw(np.random.default_rng(0), found, 40_000)
    rankings, holds = every_draw(0)
    counts = [
        np.sum(np.all(drawn.rankings == ranking, axis=1) & np.all(drawn.holds == hold, axis=1))
        for ranking, hold in zip(rankings, holds, strict=True)
    ]
    expected = np.exp(np.asarray(log_prob(found, rankings, holds, 3), float))
    assert sum(counts) == 40_000
    assert scipy.stats.chisquare(counts, expected / expected.sum() * 40_000).pvalue > 1e-3


def test_who_never_holds_is_like_a_policy_without_windows():
    """In draws, in probabilities, and in schedules."""
    graph = random_machines(0, 40)
    ranking = np.random.default_rng(1).normal(size=40).astype(np.float32)
    never, none = Scores(ranking, np.full(40, -1e6, np.float32)), Scores(ranking)
    drawn, plain = (one_shot.draw(np.random.default_rng(2), one, 50) for one in (never, none))
    np.testing.assert_array_equal(drawn.priorities, plain.priorities)
    np.testing.assert_array_equal(drawn.rankings, plain.rankings)
    assert plain.holds is None
    np.testing.assert_array_equal(
        log_prob(never, drawn.rankings, drawn.holds, 40), log_prob(none, plain.rankings, None, 40)
    )
    parallel, lookahead = (MachineProblem(graph, generation=g) for g in ("parallel", "lookahead"))
    expected = parallel.makespans(chromosomes(parallel, plain.priorities))
    for one in (drawn, plain):
        rows = chromosomes(lookahead, one.priorities, one.holds)
        np.testing.assert_array_equal(lookahead.makespans(rows), expected)
    others = one_shot.draw(np.random.default_rng(2), Scores(ranking, np.zeros(40)), 50)
    rows = chromosomes(lookahead, others.priorities, others.holds)
    assert (lookahead.makespans(rows) != expected).any()


def test_greedy_draws_are_the_most_likely_ones():
    found = Scores(np.array([0.0, 2.0, 1.0], np.float32), np.array([0.1, -0.1, 3.0], np.float32))
    drawn = one_shot.greedy(found)
    assert (drawn.rankings.tolist(), drawn.holds.tolist()) == ([[1, 2, 0]], [[True, False, True]])
    np.testing.assert_array_equal(drawn.priorities, found.logits[None])
    rankings, holds = every_draw(0)
    best = int(np.argmax(log_prob(found, rankings, holds, 3)))
    assert rankings[best].tolist() == drawn.rankings[0].tolist()
    assert holds[best].tolist() == drawn.holds[0].tolist()
    assert one_shot.greedy(Scores(found.logits)).holds is None


def test_only_lookahead_has_windows():
    priorities, holds = np.array([[3.0, 1.0, 2.0]]), np.array([[True, False, True]])
    graph = random_machines(0, 3)
    for generation in ("parallel", "serial"):
        rows = chromosomes(MachineProblem(graph, generation=generation), priorities, holds)
        assert (rows.dtype, rows.tolist()) == (np.float32, [[3, 1, 2]])
    problem = MachineProblem(graph, generation="lookahead")
    assert chromosomes(problem, priorities, holds).tolist() == [[3, 1, 2, 1, 0, 1]]
    assert chromosomes(problem, priorities).tolist() == [[3, 1, 2, 0, 0, 0]]


def test_orders_of_one_device_have_no_machines():
    """The encoder with heads for machines is for machine problems."""
    config = OrderingConfig(encoder="topoformer_machines", layers=1, size=4, heads=1, head_size=2)
    with pytest.raises(OptionError, match="needs relations with machine types"):
        jax.eval_shape(
            ordering_policy(config).init, jax.random.key(0), ordering_inputs(GRAPH, config)
        )
