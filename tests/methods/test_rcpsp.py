"""Methods on machine types: valid schedules, budgets, bounds, refusals."""

import dataclasses

import jax
import numpy as np
import pytest

import regal_jax as rj
from regal_jax import registry
from regal_jax.datasets.job_shop import classic_job_shops, uniform_job_shops
from regal_jax.datasets.machine_graphs import machine_graph
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import GraphError, OptionError
from regal_jax.methods.one_shot import task_of
from regal_jax.policies.choosing import SequencingConfig, sequencing_policy
from regal_jax.policies.one_shot.policy import OneShotConfig, one_shot_policy
from regal_jax.search.rcpsp import rules
from regal_jax.search.rcpsp.rules import RULES
from regal_jax.training.checkpoints import load_policy, save_policy
from regal_jax.training.one_shot_inputs import one_shot_inputs

GRAPH = machine_graph("layered", 0, 40)
METHODS = [name for problem, name in registry.entries("method") if problem == "rcpsp"]
TINY = {"layers": 1, "size": 8, "heads": 1, "head_size": 4, "dimensions": 2}


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """The file of a guided policy."""
    path = tmp_path_factory.mktemp("policy") / "tiny.policy"
    config = OneShotConfig(feature_set="extended", guided=True, **TINY)
    params = one_shot_policy(config).init(jax.random.key(0), one_shot_inputs(GRAPH, config))
    save_policy(path, params, config, about={"system": "one_shot"})
    return path


@pytest.fixture(scope="module")
def sequencer(tmp_path_factory):
    path = tmp_path_factory.mktemp("sequencer") / "tiny.policy"
    config = SequencingConfig(size=4)
    params = sequencing_policy(config).init(jax.random.key(0))
    save_policy(path, params, config, about={})
    return path


def optimize(method, graph=GRAPH, **options):
    return rj.optimize(graph, objective="makespan", method=method, **options)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_makes_a_valid_schedule(method, policy, sequencer):
    policies = {"one_shot": policy, "sequencing": sequencer}
    options = {"policy": policies[method]} if method in policies else {}
    limit = {"time_limit": 1.0} if method == "cp_sat" else {}
    graph = GRAPH.replace(capacity=np.ones(3, int)) if method == "tabu" else GRAPH
    found = optimize(method, graph, evaluations=300, **options, **limit)
    assert rj.evaluate(graph, found).makespan == found.makespan
    assert found.lower_bound <= found.makespan
    assert found.evaluations <= 300
    assert found.history[-1] == (found.evaluations, found.makespan)
    assert (found.num_devices, found.method) == (3, method)


@pytest.mark.parametrize("decoding", ["greedy", "sample", "brkga"])
def test_one_shot_decodes(policy, decoding):
    evaluations = {"greedy": 1, "sample": 20, "brkga": 1200}[decoding]
    found = optimize("one_shot", policy=policy, decoding=decoding, evaluations=evaluations)
    assert found.evaluations == evaluations
    again = optimize("one_shot", policy=policy, decoding=decoding, evaluations=evaluations)
    assert again.start.tolist() == found.start.tolist()


@pytest.mark.parametrize("method", ["sequencing", "giffler_thompson"])
def test_sequencing_decodes(method, sequencer):
    options = {"policy": sequencer} if method == "sequencing" else {}
    greedy = optimize(method, decoding="greedy", **options)
    assert greedy.evaluations == 1
    found = [
        optimize(method, evaluations=n, seed=s, **options)
        for n, s in ((20, 0), (20, 0), (20, 1), (90, 0))
    ]
    assert [one.evaluations for one in found] == [20, 20, 20, 90]
    assert found[0].start.tolist() == found[1].start.tolist()
    assert (found[2].start.tolist() != found[0].start.tolist()) == (method == "sequencing")
    assert found[3].makespan <= found[0].makespan
    other = optimize(method, decoding="greedy", generation="parallel", **options)
    assert rj.evaluate(GRAPH, other).makespan == other.makespan
    with pytest.raises(OptionError, match="sequencing is decoded by greedy, sample, not by brkga"):
        optimize(method, decoding="brkga", **options)


def test_the_noisy_rule_begins_as_the_best_of_all_rules():
    tried = [
        optimize(rule, generation=generation).makespan
        for rule in RULES
        for generation in ("parallel", "serial", "backwards")
    ]
    assert optimize("noisy_rule", decoding="greedy").makespan == min(tried)
    serial = optimize("noisy_rule", decoding="greedy", generation="serial")
    assert serial.makespan == min(tried[1::3])
    few, again, more = (optimize("noisy_rule", evaluations=n) for n in (20, 20, 90))
    assert few.start.tolist() == again.start.tolist()
    assert more.makespan <= few.makespan <= max(tried)
    with pytest.raises(OptionError, match="decoded by greedy, sample, brkga, not by beam"):
        optimize("noisy_rule", decoding="beam")


def test_priorities_rank_the_graph_turned_round_where_asked(policy):
    """Rules, a policy trained forwards, and choices; genetic searches have no such generation."""
    for method in ("critical_path", "one_shot", "giffler_thompson"):
        options = {"policy": policy} if method == "one_shot" else {}
        found = optimize(method, generation="backwards", evaluations=20, **options)
        assert rj.evaluate(GRAPH, found).makespan == found.makespan
    turned = MachineProblem(GRAPH, generation="backwards")
    rank = rules.genes(rules.critical_path(turned.ranked_graph))
    expected = turned.makespans(rank[None])[0]
    assert optimize("critical_path", generation="backwards").makespan == expected
    with pytest.raises(OptionError, match="takes generation parallel or serial, not backwards"):
        optimize("brkga", generation="backwards")


def test_a_policy_may_read_the_graph_turned_round(policy, tmp_path):
    """As if asked for; a genetic search begins with what it says of the graph itself."""
    params, config, about = load_policy(policy, OneShotConfig)
    turned, config = tmp_path / "turned.policy", dataclasses.replace(config, generation="backwards")
    save_policy(turned, params, config, about=about)
    by_policy = optimize("one_shot", policy=turned, evaluations=20)
    asked = optimize("one_shot", policy=policy, evaluations=20, generation="backwards")
    assert by_policy.start.tolist() == asked.start.tolist()
    forwards = optimize("one_shot", policy=turned, evaluations=20, generation="parallel")
    same = optimize("one_shot", policy=policy, evaluations=20)
    assert forwards.start.tolist() == same.start.tolist() != by_policy.start.tolist()
    searches = [
        optimize("one_shot", policy=file, decoding="brkga", evaluations=1200)
        for file in (policy, turned)
    ]
    assert searches[0].start.tolist() == searches[1].start.tolist()


@pytest.mark.parametrize("method", ["one_shot", "noisy_rule"])
def test_a_search_from_samples_is_no_worse_than_they_are(method, policy):
    options = {"policy": policy} if method == "one_shot" else {}
    sampled = optimize(method, evaluations=256, generation="parallel", **options)
    searched = optimize(method, decoding="brkga", evaluations=2000, **options)
    assert searched.makespan <= sampled.makespan
    assert (sampled.evaluations, searched.evaluations) == (256, 2000)


def test_a_new_guided_policy_is_the_best_rule(policy):
    rules = [optimize(name).makespan for name in ("critical_path", "mopnr", "spt", "tetris")]
    assert optimize("one_shot", policy=policy, decoding="greedy").makespan <= min(rules)


def test_a_policy_makes_schedules_as_it_was_trained_to(tmp_path):
    config = OneShotConfig(feature_set="extended", guided=True, generation="serial", **TINY)
    params = one_shot_policy(config).init(jax.random.key(0), one_shot_inputs(GRAPH, config))
    path = tmp_path / "serial.policy"
    save_policy(path, params, config, about={"system": "one_shot"})
    own, serial, parallel = (
        optimize("one_shot", policy=path, decoding="greedy", **options)
        for options in ({}, {"generation": "serial"}, {"generation": "parallel"})
    )
    rules = [optimize(name, generation="serial").makespan for name in ("critical_path", "spt")]
    assert own.start.tolist() == serial.start.tolist() != parallel.start.tolist()
    assert own.makespan <= min(rules)


def test_auto_finds_the_optimum_of_ft06():
    graph = next(g for g in classic_job_shops("ft") if g.name == "ft06")
    assert optimize("auto", graph, evaluations=20_000).makespan == 55
    solved = optimize("cp_sat", graph, time_limit=30.0)
    assert solved.makespan == solved.lower_bound == 55


@pytest.mark.parametrize("evaluations", [1, 5, 11, 12, 400])
def test_tabu_search_is_for_machines_that_run_one_op_at_a_time(evaluations):
    with pytest.raises(OptionError, match="one op at a time; try --method=justification"):
        optimize("tabu")
    graph = GRAPH.replace(capacity=np.ones(3, int))
    found = optimize("tabu", graph, evaluations=evaluations)
    assert found.evaluations <= evaluations
    assert found.makespan <= optimize("critical_path", graph, generation="serial").makespan
    machines_of_one = optimize("auto", graph, evaluations=400)
    assert rj.evaluate(graph, machines_of_one).makespan == machines_of_one.makespan


@pytest.mark.parametrize("generation", ["parallel", "serial"])
@pytest.mark.parametrize("method", ["brkga", "critical_path", "random_search"])
def test_schedules_are_generated_as_asked(generation, method):
    found = optimize(method, generation=generation, evaluations=300)
    assert rj.evaluate(GRAPH, found).makespan == found.makespan
    if (generation, method) == ("serial", "critical_path"):
        assert found.makespan != optimize(method).makespan


def test_tasks_are_told_apart():
    assert task_of(uniform_job_shops(3, 4, count=1)[0]) == "job_shop"
    assert task_of(GRAPH) == "machines"
    one_type = GRAPH.replace(machine_type=np.zeros(40, np.int32), capacity=np.array([5]))
    assert task_of(one_type) == "cluster"


def test_refusals(policy):
    for options, message in (
        ({"num_devices": 2}, "num_devices is 2, but the graph has 3 machine types"),
        ({"latency": 1.0}, "don't apply to graphs with machine types"),
        ({"generation": "best"}, "generation must be one of"),
    ):
        with pytest.raises(OptionError, match=message):
            optimize("critical_path", **options)
    with pytest.raises(OptionError, match="one_shot is decoded by greedy, sample, brkga"):
        optimize("one_shot", policy=policy, decoding="beam")
    with pytest.raises(
        OptionError, match="'regal_paper' places ops on identical devices, but this problem is one"
    ):
        optimize("regal_paper")
    plain = GRAPH.replace(capacity=None)
    with pytest.raises(OptionError, match="'mopnr' schedules graphs with machine types"):
        optimize("mopnr", plain)
    with pytest.raises(OptionError, match="generation is for graphs with machine types"):
        optimize("critical_path", plain, generation="serial")
    with pytest.raises(GraphError, match="op 0 needs 9 units of machine type"):
        optimize("critical_path", GRAPH.replace(demand=np.full(40, 9)))


def test_a_graph_with_machines_can_be_placed_for_memory():
    found = rj.optimize(GRAPH, objective="peak_memory", method="depth_first", num_devices=2)
    assert rj.evaluate(GRAPH, found).peak_memory.tolist() == list(found.peak_memory)
