"""Orders made choice by choice, as methods: decodings, budgets, refusals, what the network adds."""

import jax
import numpy as np
import pytest

import regal_jax as rj
from regal_jax.datasets.layered import layered_graph, layered_graphs
from regal_jax.errors import OptionError
from regal_jax.policies.choosing import NextOpConfig, next_op_policy
from regal_jax.training.checkpoints import save_policy

GRAPH = layered_graph(7, 80)


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    path = tmp_path_factory.mktemp("policy") / "tiny.policy"
    config = NextOpConfig()
    params = next_op_policy(config).init(jax.random.key(0))
    save_policy(path, params, config, about={"objective": "peak_memory"})
    return path


def optimize(method, graph=GRAPH, **options):
    return rj.optimize(graph, num_devices=1, method=method, **options)


@pytest.mark.parametrize("method", ["next_op", "lookahead"])
def test_greedy_and_samples(method, policy):
    options = {"policy": policy} if method == "next_op" else {}
    greedy = optimize(method, decoding="greedy", **options)
    assert greedy.evaluations == 1
    found = [
        optimize(method, evaluations=n, seed=s, **options)
        for n, s in ((20, 0), (20, 0), (20, 1), (90, 0))
    ]
    assert [one.evaluations for one in found] == [20, 20, 20, 90]
    assert found[0].steps.tolist() == found[1].steps.tolist()
    assert found[2].steps.tolist() != found[0].steps.tolist()
    assert found[3].cost <= found[0].cost
    for one in (greedy, *found):
        assert rj.evaluate(GRAPH, one).peak_memory == one.peak_memory
        assert one.history[-1] == (one.evaluations, one.cost)
    assert optimize(method, **options).evaluations == 16
    with pytest.raises(OptionError, match=f"{method} is decoded by greedy, sample, not by beam"):
        optimize(method, decoding="beam", **options)


@pytest.mark.parametrize("decoding", ["greedy", "sample"])
def test_the_shipped_policies_are_ahead_of_their_control(decoding):
    """On fresh layered graphs, with the same number of samples."""
    graphs = layered_graphs(77, 12, 250)
    costs = {
        name: np.array([optimize(name, graph, decoding=decoding).cost for graph in graphs])
        for name in ("next_op", "lookahead")
    }
    random = np.array([optimize("random_orders", graph).cost for graph in graphs])
    assert np.mean(costs["next_op"] / costs["lookahead"]) < 1.0
    assert np.mean(costs["next_op"] / random) < 0.95
