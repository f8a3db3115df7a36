"""Target models: what a schedule takes on them, against the oracle; files; the shipped three."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax import shipped
from regal_jax.datasets import flow_corpora
from regal_jax.environments.execution.targets import (
    TargetModel,
    noise_factors,
    read_target,
    simulated,
    transfer_times,
)
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import samplers
from regal_jax.options import Budget
from regal_jax.search.list_scheduling.heuristics import critical_path
from regal_jax.search.orders.rules import random_order
from regal_jax.search.placements import candidates
from tests.environments.execution.cases import schedule_of
from tests.oracles import schedule_cost as oracle
from tests.strategies import computation_graphs

SHIPPED = Path(__file__).parents[3] / "experiments" / "targets"

# Op 0 makes tensors 0 (30 bytes), 1 (10, nobody reads it) and 2 (0, control); op 1 makes tensor 3
# (50). Tensor 4 exists before the first step. Mean duration 4; 30 and 50 bytes are exchanged.
GRAPH = ComputationGraph.create(
    num_ops=3,
    producer=[0, 0, 0, 1, -1],
    size=[30, 10, 0, 50, 400],
    consumers=[[1], [], [2], [2], [0, 2]],
    duration=[3, 4, 5],
    name="net",
)


AMOUNT = st.sampled_from([0.0, 0.25, 1.5])
MODELS = st.builds(
    TargetModel,
    latency=AMOUNT,
    per_byte=AMOUNT,
    latency_share=AMOUNT,
    per_byte_share=AMOUNT,
    noise=AMOUNT,
    seed=st.integers(0, 9),
)


@given(computation_graphs(max_ops=8), MODELS, st.integers(1, 3), st.integers(0, 99))
def test_a_target_is_the_makespan_of_its_durations_and_transfers(graph, model, devices, seed):
    placement = np.random.default_rng(seed).integers(devices, size=graph.num_ops)
    schedule = schedule_of(graph, placement, random_order(graph, seed), devices)
    steps = [("op", op) for op in schedule.ops_in_order().tolist()]
    duration = (graph.duration * noise_factors(model, graph.num_ops)).tolist()
    plain = oracle.plain(graph)._replace(duration=duration)
    latency, per_byte = transfer_times(graph, model)
    expected = oracle.makespan(plain, placement.tolist(), steps, latency, per_byte)
    assert simulated(graph, model)(schedule) == pytest.approx(expected, rel=1e-12)


@given(computation_graphs(max_ops=8), st.integers(0, 99))
def test_the_default_target_is_the_proxy(graph, seed):
    problem = PlacementProblem(graph, 3, "makespan")
    schedule = problem.decode(np.random.default_rng(seed).random(problem.num_genes, np.float32))
    assert simulated(graph, TargetModel())(schedule) == schedule.makespan


def test_transfer_times_by_hand():
    shares = TargetModel(latency_share=0.5, per_byte_share=3)
    assert transfer_times(GRAPH, shares) == (2.0, 3 * 4 / 40)
    both = TargetModel(latency=1, per_byte=0.125, latency_share=0.5, per_byte_share=3)
    assert transfer_times(GRAPH, both) == (3.0, 0.125 + 0.3)


def test_a_schedule_by_hand():
    """Op 0 on device 0, ops 1 and 2 on device 1: tensor 0 and the control cross."""
    target = simulated(GRAPH, TargetModel(latency=2, per_byte=0.1))
    assert target(schedule_of(GRAPH, [0, 1, 1], [0, 1, 2])) == 3 + (2 + 3) + 4 + 5
    assert target(schedule_of(GRAPH, [0, 0, 1], [0, 1, 2])) == 3 + 4 + (2 + 5) + 5
    assert target(schedule_of(GRAPH, [0, 0, 0], [0, 1, 2])) == 12


def test_graphs_that_exchange_nothing_have_no_time_per_byte():
    control = GRAPH.replace(size=np.zeros(5, np.int64))
    alone = ComputationGraph.create(num_ops=2, producer=[0], size=[7], consumers=[[]])
    nothing = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    model = TargetModel(per_byte_share=3, latency_share=0.5, noise=1)
    assert transfer_times(control, model) == (2.0, 0.0)
    assert transfer_times(alone, model) == (0.5, 0.0)
    assert simulated(nothing, model)(schedule_of(nothing, [], [])) == 0


def test_noise_is_fixed_by_seed_and_op():
    model = TargetModel(noise=0.4, seed=5)
    np.testing.assert_array_equal(noise_factors(model, 30), noise_factors(model, 80)[:30])
    other = noise_factors(TargetModel(noise=0.4, seed=6), 80)
    assert not np.any(noise_factors(model, 80) == other)
    np.testing.assert_array_equal(noise_factors(TargetModel(seed=5), 80), 1.0)


@pytest.mark.parametrize("deviation", [0.1, 0.35, 1.0])
def test_noise_has_mean_one_and_the_deviation(deviation):
    factors = noise_factors(TargetModel(noise=deviation), 400_000)
    assert factors.min() > 0
    assert factors.mean() == pytest.approx(1, abs=0.01)
    assert factors.std() == pytest.approx(deviation, rel=0.03)


def test_more_noise_moves_the_same_ops():
    little, much = (np.log(noise_factors(TargetModel(noise=d), 50)) for d in (0.1, 0.9))
    assert np.corrcoef(little, much)[0, 1] == pytest.approx(1)


def test_an_invalid_schedule_is_rejected():
    target = simulated(GRAPH, TargetModel(noise=0.3))
    with pytest.raises(ScheduleError):
        target(schedule_of(GRAPH, [0, 0, 0], [1, 0, 2]))
    with pytest.raises(ScheduleError):
        target(schedule_of(GRAPH, [0, 0, 0], [0, 1, 2]).replace(placement=np.zeros(2, np.int32)))


@pytest.mark.parametrize("field", ["latency", "per_byte", "latency_share", "noise"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, True, "1", None, 10**400])
def test_numbers_out_of_range(field, value):
    with pytest.raises(OptionError, match=field):
        TargetModel(**{field: value})


@pytest.mark.parametrize(
    "options", [{"seed": -1}, {"seed": 1.0}, {"seed": True}, {"name": 3}, {"links": "few"}]
)
def test_other_options_out_of_range(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        TargetModel(**options)


def written(tmp_path, text):
    path = tmp_path / "slow links.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_files(tmp_path):
    everything = """
        name = "all of it"
        [transfers]
        latency = 1
        per_byte = 0.5
        latency_share = 2.0
        per_byte_share = 0.1
        links = "blocking"
        [noise]
        deviation = 0.3
        seed = 4
        [devices]
        straggler = 0.25
    """
    assert read_target(written(tmp_path, everything)) == TargetModel(
        name="all of it",
        latency=1,
        per_byte=0.5,
        latency_share=2.0,
        per_byte_share=0.1,
        noise=0.3,
        seed=4,
        links="blocking",
        straggler=0.25,
    )
    some = read_target(str(written(tmp_path, "[noise]\ndeviation = 1")))
    assert some == TargetModel(name="slow links", noise=1)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "needs a table"),
        ("name = 'x'", "needs a table"),
        ("[transfers]\nlatency = ", "not valid TOML"),
        ("[" * 100_000, "not valid TOML"),
        (b"\xff\xfe", "UTF-8"),
        ("name = 3\n[noise]", "name: must be a string"),
        ("colour = 1\n[noise]", "colour: is none of name, transfers, devices, noise"),
        ("noise = 0.3", "noise: must be a table"),
        ("[[noise]]\nseed = 1", "noise: must be a table"),
        ("[noise]\nlatency = 1", "noise.latency: is none of deviation, seed"),
        ("[transfers]\ndelay = 1", "transfers.delay: is none of latency, "),
        ("[transfers]\nlatency = -1", "transfers.latency: must be a finite number >= 0, got -1"),
        ("[transfers]\nper_byte = nan", "transfers.per_byte"),
        ("[transfers]\nlatency_share = inf", "transfers.latency_share"),
        ("[transfers]\nper_byte_share = '1'", "transfers.per_byte_share"),
        ("[transfers]\nlatency = true", "transfers.latency"),
        ("[transfers]\nlatency = 1979-05-27", "transfers.latency"),
        ("[noise]\ndeviation = -0.1", "noise.deviation"),
        ("[noise]\nseed = 0.5", "noise.seed: must be an integer >= 0"),
        ("[noise]\nseed = -2", "noise.seed"),
    ],
)
def test_malformed_files(tmp_path, text, fault):
    path = written(tmp_path, text)
    with pytest.raises(OptionError) as caught:
        read_target(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.count(str(path)) == 1
    assert fault in message
    assert "\n" not in message


def test_missing_files(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(OptionError, match=str(path)):
            read_target(path)


FALLS = {"noisy": 2.75, "bandwidth": 1.02, "latency": 1.74}
"""Speedups of list scheduling in table 1; on the proxy it has 3.23."""


def slower(name, schedules):
    """What is left of the mean speedup of schedules of the paper's single graph."""
    model = read_target(SHIPPED / f"{name}.toml")
    assert model.name == name
    graph = flow_corpora.single_graph()
    here, there = (simulated(graph, one) for one in (TargetModel(), model))
    return np.mean([here(one) / there(one) for one in schedules])


@pytest.mark.parametrize("name", FALLS)
def test_shipped_targets_slow_list_scheduling_as_in_table_1(name):
    schedule = critical_path(flow_corpora.single_graph(), Platform(4))
    assert slower(name, [schedule]) == pytest.approx(FALLS[name] / 3.23, rel=0.03)


@pytest.mark.parametrize("name", ["bandwidth", "latency"])
def test_shipped_targets_slow_random_ties_as_in_table_1(name):
    problem = PlacementProblem(flow_corpora.single_graph(), 4, "makespan")
    every = samplers.sample_random_ties(problem, Budget(100))
    schedules = candidates.best_schedules(problem, every, 100)
    assert slower(f"{name}_random_ties", schedules) == pytest.approx(FALLS[name] / 3.23, rel=0.05)


@pytest.mark.parametrize("name", ["shared", "blocking", "straggler"])
def test_shipped_targets_that_no_method_assumes(name):
    schedule = critical_path(flow_corpora.single_graph(), Platform(4))
    assert slower(name, [schedule]) < 0.8


def test_which_targets_are_shipped():
    forms = {"shared", "blocking", "straggler", "bandwidth_random_ties", "latency_random_ties"}
    assert {path.stem for path in SHIPPED.iterdir()} == {*FALLS, *forms}


def test_ops_on_the_straggler_take_longer():
    target = simulated(GRAPH, TargetModel(straggler=0.5))
    assert target(schedule_of(GRAPH, [0, 1, 1], [0, 1, 2])) == 1.5 * 3 + 4 + 5
    assert target(schedule_of(GRAPH, [1, 0, 1], [0, 1, 2])) == 3 + 1.5 * 4 + 5
    with pytest.raises(ScheduleError):
        target(schedule_of(GRAPH, [0, 0, 0], [0, 1, 2]).replace(placement=np.zeros(2, np.int32)))


def test_shipped_targets_are_known_by_name(tmp_path, monkeypatch):
    for name, path in shipped.targets().items():
        assert read_target(name) == read_target(path)
    assert "latency" in shipped.targets()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="no_such_target: no such file"):
        read_target("no_such_target")
