"""How near policies are to the reward's distribution, against plain Python's, and its table."""

import dataclasses

import numpy as np
import pytest

from regal_jax.datasets.task_graphs import task_graph
from regal_jax.environments.construction import enumeration
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.policies.gflownet.policy import flow_inputs, padded_inputs
from regal_jax.studies.gflownet import convergence
from regal_jax.studies.gflownet.convergence import SMALL, TRAINED, UNTRAINED, Asked, Settings
from regal_jax.training import checkpoints
from tests.policies.gflownet.cases import (
    GRAPH,
    WITHOUT_EDGES,
    decisions,
    log_rewards,
    random_policy,
    terminal_distribution,
)

CHAIN = task_graph([(0, 1), (1, 2)], [2.0, 1.0, 3.0])


def settings(**changes):
    some = Settings(temperatures=(0.5,), samples=400, flow=WITHOUT_EDGES)
    training = dataclasses.replace(some.training, num_devices=2)
    return dataclasses.replace(some, training=training, **changes)


def test_measures_are_those_of_all_schedules():
    asked, temperature = settings(), 0.5
    inputs = flow_inputs(GRAPH, Platform(2), WITHOUT_EDGES)
    params = random_policy(WITHOUT_EDGES, inputs)
    levels = enumeration.levels(inputs.problem, 2, symmetric=True)
    found = convergence.measure(params, inputs, levels, WITHOUT_EDGES, asked)
    decided = decisions(WITHOUT_EDGES, params, GRAPH, np.log(temperature))
    ends = terminal_distribution(decided, GRAPH.num_ops)
    reward = log_rewards(ends, GRAPH, 2, temperature)
    wanted = np.exp(reward) / np.exp(reward).sum()
    drawn = np.array([*ends.values()])
    expected = 100 * np.abs(drawn - wanted).sum() / 2
    assert found["total_variation 0.5"] == pytest.approx(expected, abs=1e-2)
    assert 5 < expected < 95
    deviation = np.sqrt(drawn @ (reward - drawn @ reward) ** 2)
    assert found["reward 0.5"] == pytest.approx(deviation, rel=0.15)
    assert 0 < found["effective_samples 0.5"] < 100


def test_where_there_is_one_schedule_every_policy_has_converged():
    asked = settings()
    asked = dataclasses.replace(asked, training=dataclasses.replace(asked.training, num_devices=1))
    inputs = flow_inputs(CHAIN, Platform(1), WITHOUT_EDGES)
    params = random_policy(WITHOUT_EDGES, inputs)
    levels = enumeration.levels(inputs.problem, 1, symmetric=True)
    found = convergence.measure(params, inputs, levels, WITHOUT_EDGES, asked)
    assert found["total_variation 0.5"] == pytest.approx(0.0, abs=1e-3)
    assert found["effective_samples 0.5"] == pytest.approx(100.0, abs=1e-3)
    assert found["flow 0.5"] == pytest.approx(0.0, abs=1e-5)


def test_rows_are_kept_and_make_a_table(tmp_path):
    asked = settings(temperatures=(1.0, 0.5), samples=20)
    params = random_policy(WITHOUT_EDGES, padded_inputs(GRAPH, Platform(2), WITHOUT_EDGES))
    file = tmp_path / "a.policy"
    checkpoints.save_policy(file, params, WITHOUT_EDGES, about={})
    policies = [
        Asked(UNTRAINED, 0, WITHOUT_EDGES, None),
        Asked(TRAINED, 0, WITHOUT_EDGES, file),
    ]
    rows = convergence.compare(SMALL, [GRAPH], policies, tmp_path, asked)
    before = (tmp_path / "results.csv").read_bytes()
    assert convergence.compare(SMALL, [GRAPH], policies, tmp_path, asked) == rows
    assert (tmp_path / "results.csv").read_bytes() == before
    page = convergence.page(rows)
    assert page.startswith("Small graphs: 1 graph, 1 training.\n\n|")
    header, _, *lines = page.splitlines()[2:]
    assert [cell.strip() for cell in header.split("|")[2:5]] == ["method", "1", "0.5"]
    methods = [line.split("|")[2].strip() for line in lines]
    assert methods == [UNTRAINED, TRAINED, "change"] * 2 + [UNTRAINED, TRAINED]
    numbers = [float(line.split("|")[3].split()[0]) for line in lines[:3]]
    assert numbers[2] == pytest.approx(numbers[1] - numbers[0], abs=0.11)


def test_a_ratio_over_no_deviation_is_none(tmp_path):
    asked = settings(temperatures=(1.0,), samples=5)
    still = CHAIN.replace(duration=0 * CHAIN.duration)
    beginning = [Asked(UNTRAINED, 0, WITHOUT_EDGES, None)]
    page = convergence.page(convergence.compare(SMALL, [still], beginning, tmp_path, asked))
    assert page.splitlines()[-1].split("|")[3].strip() == "nan"


def test_what_cannot_be_listed_is_told():
    many = task_graph([], np.arange(1.0, 101.0))
    with pytest.raises(OptionError, match="partial schedules of a size"):
        convergence.check([many], settings())
    with pytest.raises(OptionError, match="temperatures: give at least one"):
        convergence.check([], settings(temperatures=()))
