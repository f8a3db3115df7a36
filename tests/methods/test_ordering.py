"""Methods that order the ops of one device: their budgets, decodings, bounds and refusals."""

import functools

import jax
import numpy as np
import pytest

import regal_jax as rj
from regal_jax import api
from regal_jax.datasets.layered import layered_graph
from regal_jax.errors import OptionError, RegalError
from regal_jax.methods import pretrained, topoformer
from regal_jax.options import Budget, Options
from regal_jax.policies.topological_order.policy import OrderingConfig, ordering_policy
from regal_jax.search.orders import dynamic_programming
from regal_jax.training.checkpoints import load_policy, save_policy
from regal_jax.training.ordering_inputs import ordering_inputs
from tests.oracles import beam_search as oracle
from tests.oracles.exhaustive_search import least_peak_memory
from tests.oracles.schedule_cost import plain
from tests.policies.cases import chain, random_graph, random_params

TINY = {"layers": 1, "size": 8, "heads": 1, "head_size": 4, "dimensions": 2}
GRAPH = layered_graph(0, 30)


@pytest.fixture(scope="module", params=["nar", "ar", "guided"])
def policy(request, tmp_path_factory):
    guided = request.param == "guided"
    config = OrderingConfig(decoder="nar" if guided else request.param, guided=guided, **TINY)
    params = ordering_policy(config).init(jax.random.key(0), ordering_inputs(GRAPH, config))
    path = tmp_path_factory.mktemp("policy") / f"{request.param}.policy"
    save_policy(path, params, config, about={"system": "topoformer"})
    return path


def optimize(method, graph=GRAPH, **options):
    return rj.optimize(graph, num_devices=1, method=method, **options)


@pytest.mark.parametrize("decoding", ["greedy", "sample", "beam", "guided"])
def test_topoformer_decodes(policy, decoding):
    if (policy.stem, decoding) == ("ar", "guided"):
        with pytest.raises(OptionError, match="greedy, sample or beam, not by guided"):
            optimize("topoformer", policy=policy, decoding=decoding)
        return
    found = optimize("topoformer", policy=policy, decoding=decoding, evaluations=5)
    assert rj.evaluate(GRAPH, found).peak_memory == found.peak_memory
    assert found.evaluations == (5 if decoding == "sample" else 1)
    again = optimize("topoformer", policy=policy, decoding=decoding, evaluations=5)
    assert again.steps.tolist() == found.steps.tolist()


def test_more_samples_are_no_worse(policy):
    few, many = (
        optimize("topoformer", policy=policy, decoding="sample", evaluations=n) for n in (1, 30)
    )
    assert many.cost <= few.cost


@pytest.mark.parametrize("policy", ["guided"], indirect=True)
def test_a_new_guided_policy_is_the_best_of_its_rules(policy):
    rules = [optimize(name).cost for name in ("depth_first", "breadth_first", "lpmf")]
    found = optimize("topoformer", policy=policy, decoding="greedy")
    assert found.cost <= min(rules)


@pytest.mark.parametrize("graph", [random_graph(3, 1), chain(1)])
def test_topoformer_on_a_single_op(policy, graph):
    found = optimize("topoformer", graph, policy=policy, decoding="sample")
    assert rj.evaluate(graph, found).peak_memory == found.peak_memory


def test_the_shipped_policy_beats_random_orders():
    graph = layered_graph(5, 200)
    assert optimize("topoformer", graph).cost <= optimize("random_orders", graph).cost


def evaluations(name, **options):
    return api.plan(GRAPH, method=name, num_devices=1, **options).budget.evaluations


def test_budgets_are_the_papers():
    of = {
        name: evaluations(name)
        for name in ("topoformer", "approximate_dp", "random_orders", "brkga")
    }
    assert of == {
        "topoformer": 300,  # ours: guided
        "approximate_dp": 100_000,
        "random_orders": 100,
        "brkga": 5000,
    }
    assert evaluations("topoformer", decoding="beam") == 16


@pytest.mark.parametrize("seed", range(4))
def test_dynamic_programmes_agree_and_prove_it(seed):
    graph = random_graph(seed, 9)
    exact = [optimize(name, graph) for name in ("dp", "depth_first_dp", "approximate_dp")]
    assert len({found.cost for found in exact}) == 1
    assert all(found.lower_bound == found.cost for found in exact)


def test_approximate_dp_and_random_orders_are_those_of_the_search():
    found = optimize("approximate_dp", evaluations=3)
    assert found.cost == dynamic_programming.beam_search(GRAPH, width=3).peak
    found = optimize("random_orders", evaluations=7, seed=2)
    assert found.cost == dynamic_programming.best_of_random(GRAPH, seed=2, orders=7).peak


def test_depth_first_dp_ends_at_its_time_limit():
    found = optimize("depth_first_dp", layered_graph(0, 200), time_limit=0.2)
    assert rj.evaluate(layered_graph(0, 200), found).peak_memory == found.peak_memory


@pytest.mark.parametrize("evaluations", [30, 100, 3000])
def test_auto_counts_its_beam_and_is_no_worse(evaluations):
    graph = layered_graph(1, 60)
    found = optimize("auto", graph, evaluations=evaluations)
    assert found.evaluations <= evaluations
    spent = [point for point, _ in found.history]
    costs = [cost for _, cost in found.history]
    assert spent == sorted(spent)
    assert costs == sorted(costs, reverse=True)
    assert found.cost <= optimize("depth_first", graph).cost


ORDERING = ["topoformer", "next_op", "lookahead", "dp", "approximate_dp", "depth_first_dp", "exact"]


@pytest.mark.parametrize("method", ORDERING)
@pytest.mark.parametrize("options", [{"num_devices": 2}, {"objective": "makespan"}])
def test_methods_for_orders_refuse_other_problems(method, options):
    with pytest.raises(OptionError, match=f"^{method} orders the ops of one device"):
        rj.optimize(GRAPH, **{"num_devices": 1, "method": method} | options)


def test_bad_options():
    with pytest.raises(OptionError, match="decoding must be one of greedy, sample, beam"):
        optimize("topoformer", decoding="best")
    with pytest.raises(OptionError, match="width must be at least 1"):
        optimize("approximate_dp", evaluations=0)
    with pytest.raises(OptionError, match="evaluations must be at least 1"):
        optimize("topoformer", evaluations=0)
    path = pretrained.shipped_policy("peak_memory")
    with pytest.raises(RegalError, match=r"regal_peak_memory\.policy"):
        optimize("topoformer", policy=path)


AUTOREGRESSIVE = OrderingConfig(encoder="mlp", decoder="ar", feature_set="extended", **TINY)


@functools.cache
def random_policy():
    return random_params(
        ordering_policy(AUTOREGRESSIVE).init,
        jax.random.key(0),
        ordering_inputs(GRAPH, AUTOREGRESSIVE),
        scale=0.25,
    )


def stepwise_order(graph, width: int, inputs=None) -> list[int]:
    budget = Budget(width, options=Options(decoding="beam"))
    inputs = inputs or ordering_inputs(graph, AUTOREGRESSIVE)
    found = topoformer.stepwise_order(random_policy(), AUTOREGRESSIVE, graph, inputs, budget)
    return found.tolist()


def scores_of(graph):
    """The policy's own logits, for one partial order at a time."""
    policy, none = ordering_policy(AUTOREGRESSIVE), graph.num_ops
    seen = policy.encode(random_policy(), ordering_inputs(graph, AUTOREGRESSIVE))

    def scores(ops, choices):
        ready = np.isin(np.arange(none), choices)[None]
        last, first = (np.array([op]) for op in ((ops[-1], ops[0]) if ops else (none, none)))
        return np.asarray(policy.logits(seen, ready, last, first))[0, choices]

    return scores


@pytest.mark.parametrize("seed", range(3))
def test_an_autoregressive_beam_of_one_is_the_greedy_order(seed):
    graph = layered_graph(seed, 30)
    inputs = ordering_inputs(graph, AUTOREGRESSIVE)
    positions = jax.jit(ordering_policy(AUTOREGRESSIVE).mode)(random_policy(), inputs)
    assert stepwise_order(graph, 1) == np.argsort(positions).tolist()


@pytest.mark.parametrize("width", [2, 6])
@pytest.mark.parametrize("seed", range(2))
def test_an_autoregressive_beam_is_the_plain_one(width, seed):
    graph = random_graph(seed, 9)
    expected, tied = oracle.beam_search(plain(graph), width, scores_of(graph))
    assert not tied
    assert stepwise_order(graph, width) == list(expected.ops)


@pytest.mark.parametrize("seed", range(3))
def test_an_autoregressive_beam_of_all_sets_has_the_least_peak(seed):
    graph = random_graph(seed, 6)
    peak = dynamic_programming.order_peak(graph, np.array(stepwise_order(graph, 2**6)))
    assert peak == least_peak_memory(plain(graph), 1)


def test_an_autoregressive_beam_does_not_depend_on_padding():
    for width in (1, 5):
        bare = stepwise_order(GRAPH, width)
        assert stepwise_order(GRAPH, width, ordering_inputs(GRAPH, AUTOREGRESSIVE, 37, 200)) == bare


@pytest.mark.parametrize("policy", ["nar", "guided"], indirect=True)
def test_priorities_do_not_depend_on_padding(policy):
    params, config, _ = load_policy(policy, OrderingConfig)
    exact = ordering_policy(config).priorities(params, ordering_inputs(GRAPH, config))
    padded = topoformer.op_priorities(params, config, GRAPH)
    np.testing.assert_allclose(padded, exact, atol=1e-4)
