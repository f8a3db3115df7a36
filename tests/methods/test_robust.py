"""Samplers behind ``optimize``: the best of many schedules, by makespan or on a target."""

import math
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regal_jax as rj
from regal_jax import registry
from regal_jax.datasets.makespan_graphs import makespan_graph
from regal_jax.environments.execution.targets import transfer_times
from regal_jax.environments.placement import checker
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError, RegalError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import robust
from regal_jax.options import Budget, Options
from regal_jax.policies.gflownet.policy import FlowConfig, flow_inputs, flow_policy
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.search.placements import candidates as candidates_of
from regal_jax.training.checkpoints import save_policy
from tests.contracts import UNTIMED
from tests.graphs.cases import single_input_graph
from tests.policies.cases import inputs_of

OPS = 16
MODEL = rj.TargetModel(name="slow", latency_share=3.0, noise=0.2)
TINY = FlowConfig(
    network="encode_once", guided=True, layers=1, size=8, heads=1, head_size=4, head_width=4
)


GRAPH = single_input_graph(seed=1, num_ops=OPS)
DEFAULTS = {"objective": "makespan", "num_devices": 3, "method": "list_sampling", "seed": 2}


def optimize(graph=GRAPH, **options):
    return rj.optimize(graph, **{**DEFAULTS, **options})


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    """Files of new policies by system."""
    folder = tmp_path_factory.mktemp("flow")
    params = flow_policy(TINY).init(jax.random.key(0), flow_inputs(GRAPH, Platform(3), TINY), 3)
    for system in ("gflownet", "ppo"):
        save_policy(folder / system, params, TINY, about={"system": system})
    regal = RegalConfig(size=4, rounds=1)
    params = regal.policy.init(jax.random.key(0), inputs_of(GRAPH))
    save_policy(folder / "regal", params, regal, about={})
    return folder


@pytest.fixture
def options_of(policies):
    """method -> the options it can't do without, and a small budget."""

    def options(method):
        if method in ("gflownet", "ppo"):
            return {"method": method, "policy": policies / method, "evaluations": 60}
        if method == "regal_paper":  # its policy is for two devices
            policy = policies / "regal"
            return {"method": method, "num_devices": 2, "evaluations": 1200, "policy": policy}
        return {"method": method, "evaluations": 600 if method == "brkga" else 60}

    return options


def drawn(options, candidates=100):
    """(problem, candidates) that the options stand for, of which so many are tried."""
    problem = rj.PlacementProblem(GRAPH, options.get("num_devices", 3), "makespan")
    count, policy = options["evaluations"], options.get("policy")
    budget = Budget(count, 2, options=Options(candidates=candidates, policy=policy))
    return problem, registry.find("sampler", options["method"]).make(problem, budget)


@pytest.mark.parametrize("method", ["list_sampling", "price_sweep", "one_shot", "gflownet", "ppo"])
def test_a_sampler_gives_its_best_by_makespan(method, options_of):
    options = options_of(method)
    schedule = optimize(**options)
    times = candidates_of.makespans(*drawn(options))
    assert schedule.makespan == times.min()
    assert schedule.history == ((60, times.min()),)
    assert schedule.target_time is None


def test_a_sampler_draws_a_thousand():
    assert optimize().evaluations == 1000
    assert optimize(target=MODEL).evaluations == 1000


@pytest.mark.parametrize("method", registry.names("sampler"))
def test_the_best_candidate_on_the_target_is_returned(method, options_of):
    options, tried = options_of(method), []

    def target(schedule):
        tried.append(schedule)
        return on_target(schedule)

    on_target = rj.simulated(GRAPH, MODEL)
    schedule = optimize(target=target, candidates=9, **options)
    problem, found = drawn(options, candidates=9)
    assert tried == candidates_of.best_schedules(problem, found, 9)
    alone = method in ("critical_path", "random_ties")  # here no two devices are free at once
    assert len(tried) == (1 if alone else 9)
    times = [on_target(candidate) for candidate in tried]
    chosen = tried[int(np.argmin(times))]
    assert schedule.target_time == min(times)
    assert schedule.placement.tolist() == chosen.placement.tolist()
    assert schedule.steps.tolist() == chosen.steps.tolist()
    cost = rj.evaluate(GRAPH, schedule)
    assert (schedule.makespan, schedule.start.tolist()) == (cost.makespan, cost.start.tolist())
    assert schedule.lower_bound == problem.lower_bound
    evaluations = 1 if method == "critical_path" else options["evaluations"]
    assert schedule.history == ((evaluations, schedule.makespan),)
    assert (schedule.evaluations, schedule.method) == (evaluations, method)


@pytest.mark.parametrize("method", ["auto", "portfolio"])
def test_auto_sweeps_prices_on_a_target(method):
    graph = makespan_graph("layered", 0, 30)
    schedule = optimize(graph, target=MODEL, method=method).replace(**UNTIMED)
    same = optimize(graph, target=MODEL, method="regal", trials=100)
    assert schedule == same.replace(**UNTIMED)
    assert (schedule.method, schedule.evaluations) == ("regal", 5000)
    assert schedule.target_time < optimize(graph, target=MODEL).target_time


def test_what_is_best_on_the_target_depends_on_it():
    """Enough candidates that transfers of 3 mean durations change the choice."""
    free, slow = (optimize(target=rj.TargetModel(latency_share=share)) for share in (0.0, 3.0))
    assert free.makespan == free.target_time == optimize().makespan
    assert slow.makespan > free.makespan
    latency, per_byte = transfer_times(GRAPH, rj.TargetModel(latency_share=3.0))
    there = Platform(3, latency=latency, per_byte=per_byte)
    assert checker.evaluate(GRAPH, slow, there).makespan == slow.target_time
    assert checker.evaluate(GRAPH, free, there).makespan > slow.target_time


def test_a_target_may_be_a_function_a_model_or_a_file(tmp_path):
    path = tmp_path / "slow.toml"
    path.write_text("[transfers]\nlatency_share = 3.0\n[noise]\ndeviation = 0.2\n")
    found = [
        optimize(target=target, evaluations=50).replace(**UNTIMED)
        for target in (MODEL, rj.simulated(GRAPH, MODEL), path, str(path))
    ]
    assert found[0].target_time is not None
    assert found == [found[0]] * 4


def test_the_proxy_has_the_platforms_transfers():
    """The order in which candidates are tried is that of the platform's makespans."""
    tried = []

    def target(schedule):
        tried.append(schedule.makespan)
        return 1.0

    schedule = optimize(target=target, latency=0.5, per_byte=0.1, evaluations=50)
    assert tried == sorted(tried)
    assert schedule.makespan == tried[0]  # all are equal on the target: the first
    assert rj.evaluate(GRAPH, schedule, latency=0.5, per_byte=0.1).makespan == tried[0]


def test_a_target_that_measures():
    def fn(x):
        return jnp.sin(x) @ jnp.cos(x) + jnp.tanh(x)

    x = np.ones((4, 4), np.float32)
    graph, target = rj.from_jax(fn, x), rj.measured(fn, x, repeats=1, warm_up=0)
    schedule = optimize(graph, num_devices=1, evaluations=20, candidates=2, target=target)
    assert 0 < schedule.target_time < math.inf


def test_a_searchs_evaluations_and_progress_are_its_own():
    reports = []
    options = {"method": "brkga", "evaluations": 10**6, "time_limit": 1.0, "target": MODEL}
    schedule = optimize(on_progress=lambda done, cost: reports.append(done), **options)
    assert 500 <= schedule.evaluations < 10**6
    assert reports[-1] == schedule.evaluations
    late = Budget(10**6, 2, deadline=time.perf_counter() - 1)
    problem = rj.PlacementProblem(GRAPH, 3, "makespan")
    only = robust.best_on_target(problem, "brkga", late, rj.simulated(GRAPH, MODEL))
    assert only.evaluations == 500  # the first population


@pytest.mark.parametrize(("method", "own"), [("list_sampling", 0.5), ("gflownet", 0.005)])
def test_a_temperature_reaches_the_sampler(method, own, options_of):
    """Hot samples are worse on average; the method's own temperature is the default."""
    tried = {}

    def target(schedule):
        times.append(schedule.makespan)
        return schedule.makespan

    for temperature in (0.001, 1e3, own, None):
        times = tried[temperature] = []
        optimize(target=target, temperature=temperature, **options_of(method))
    assert np.mean(tried[0.001]) < np.mean(tried[1e3])
    assert tried[None] == tried[own] != tried[1e3]


def peaks(found):
    problem = rj.PlacementProblem(GRAPH, 3, "makespan")
    return [max(s.peak_memory) for s in candidates_of.best_schedules(problem, found, 10**6)]


def test_candidates_beyond_the_memory_capacity_are_left_out():
    _, found = drawn({"method": "list_sampling", "evaluations": 400})
    by_makespan = peaks(found)
    capacity = sorted(by_makespan)[len(by_makespan) // 5]
    assert by_makespan[0] > capacity
    tried = []

    def target(schedule):
        tried.append(schedule)
        return schedule.makespan

    options = {"evaluations": 400, "memory_capacity": capacity}
    best = optimize(target=target, candidates=12, **options)
    problem = rj.PlacementProblem(GRAPH, 3, "makespan")
    every = candidates_of.best_schedules(problem, found, 10**6)
    fitting = [schedule for schedule in every if max(schedule.peak_memory) <= capacity]
    assert len(fitting) >= 12
    assert tried == fitting[:12]
    rj.evaluate(GRAPH, best, memory_capacity=capacity)
    assert optimize(**options).makespan == best.makespan == fitting[0].makespan


def test_where_no_candidate_fits_the_least_excess_is_returned():
    _, found = drawn({"method": "list_sampling", "evaluations": 40})
    problem = rj.PlacementProblem(GRAPH, 3, "makespan", memory_capacity=1)
    every = candidates_of.best_schedules(problem, found, 40)
    least = min(sum(max(peak - 1, 0) for peak in s.peak_memory) for s in every)
    for options in ({}, {"target": MODEL}):
        schedule = optimize(evaluations=40, memory_capacity=1, **options)
        assert sum(max(peak - 1, 0) for peak in schedule.peak_memory) == least
        with pytest.raises(ScheduleError, match="capacity"):
            rj.evaluate(GRAPH, schedule, memory_capacity=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": MODEL, "method": "heft"}, "heft makes no candidates .*; critical_path, brkga"),
        ({"target": MODEL, "objective": "peak_memory"}, "for the objective makespan, not peak_mem"),
        ({"objective": "peak_memory"}, "for the objective makespan, not peak_memory"),
        ({"target": 3.0}, "must be a function of a schedule, a TargetModel or a file, got 3.0"),
        ({"target": "none.toml"}, "none.toml: no such file"),
        ({"target": lambda schedule: math.nan}, "the target says that a schedule takes nan us"),
        ({"target": lambda schedule: -1}, r"the target says that a schedule takes -1\.0 us"),
        ({"target": lambda schedule: "soon"}, "the target must return a time in us, got 'soon'"),
        ({"candidates": 5}, "candidates are what is tried on a target, but none is given"),
        ({"target": MODEL, "candidates": 0}, "candidates must be an integer >= 1, got 0"),
        ({"target": MODEL, "candidates": 1.5}, "candidates must be an integer >= 1, got 1.5"),
        ({"temperature": 0.0}, "temperature must be a positive number, got 0.0"),
        ({"temperature": -1.0}, "temperature must be a positive number, got -1.0"),
        ({"temperature": math.nan}, "temperature must be a positive number, got nan"),
        ({"temperature": math.inf}, "temperature must be a positive number, got inf"),
        ({"temperature": 1.0, "method": "brkga"}, "brkga has no temperature; list_sampling, gflow"),
        ({"method": "one_shot", "decoding": "greedy"}, "is decoded by sample: 'greedy'"),
        ({"num_devices": 0}, "num_devices must be in"),
        ({"evaluations": 0}, "evaluations must be at least 1"),
        ({"method": "brkga", "evaluations": 499, "target": MODEL}, "at least the population"),
        ({"method": "regal_paper", "target": MODEL}, "no regal policy is shipped for makespan"),
    ],
)
def test_options_out_of_range_are_one_line(options, message):
    with pytest.raises(RegalError, match=message) as caught:
        optimize(**{"evaluations": 20, **options})
    assert "\n" not in str(caught.value)


def test_a_policy_of_another_system_does_not_fit(policies):
    with pytest.raises(OptionError, match="is one of ppo, not of gflownet"):
        optimize(method="gflownet", policy=policies / "ppo")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gflownet"}, "places ops on identical devices, but .* graphs with machine"),
        ({"target": MODEL, "method": "one_shot"}, "targets are for identical devices"),
        ({"temperature": 1.0, "method": "one_shot"}, "one_shot has no temperature"),
    ],
    ids=str,
)
def test_machine_types_are_not_identical_devices(options, message):
    graph = GRAPH.replace(
        capacity=np.array([1, 2]), machine_type=np.arange(OPS) % 2, demand=np.ones(OPS, np.int64)
    )
    with pytest.raises(OptionError, match=message):
        rj.optimize(graph, objective="makespan", **options)


@pytest.mark.parametrize("method", registry.names("sampler"))
def test_a_graph_without_ops(method, options_of):
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    schedule = optimize(empty, target=rj.TargetModel(latency=1.0), **options_of(method))
    assert (schedule.makespan, schedule.target_time) == (0.0, 0.0)


def test_the_time_on_the_target_is_in_the_file_if_there_is_one(tmp_path):
    path = tmp_path / "s.json"
    for target in (MODEL, None):
        schedule = optimize(target=target, evaluations=20)
        rj.save_schedule(schedule, path)
        assert ("target_time" in path.read_text()) == (target is not None)
        assert rj.load_schedule(path).target_time == schedule.target_time
    path.write_text(path.read_text().replace('"seed"', '"target_time": "x", "seed"'))
    with pytest.raises(ScheduleError, match="target_time: must be a finite number, got 'x'"):
        rj.load_schedule(path)
