"""The loop that trains one-shot policies: what it writes, resuming, and what it reuses."""

import dataclasses
import json

import chex
import jax
import numpy as np
import pytest

from regal_jax import registry
from regal_jax.datasets.job_shop import uniform_job_shops
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError, RegalError
from regal_jax.policies.one_shot import plackett_luce
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.training import checkpoints
from regal_jax.training import one_shot as reinforce
from regal_jax.training.one_shot import (
    OneShotTraining,
    prepared,
    train_one_shot,
    validation_cost,
)
from tests.oracles.ordering import graph_of
from tests.training.cases import checkpoint, rows, stopped

POLICY = OneShotConfig(encoder="mlp", size=6, layers=1, dimensions=2, feature_set="extended")
CONFIG = OneShotTraining(epochs=3, samples=16, batch_size=2, learning_rate=0.03, seed=1)
TRAINING = uniform_job_shops(4, 4, count=3)
VALIDATION = uniform_job_shops(4, 4, count=2, seed=1)
STEPS = 6
"""Of 3 epochs, of two graphs and then one."""


def run(
    directory,
    *,
    stop_after=None,
    config=CONFIG,
    graphs=TRAINING,
    validation=VALIDATION,
    policy=POLICY,
):
    return train_one_shot(
        graphs,
        validation,
        policy=policy,
        config=config,
        directory=directory,
        about={"data": "job shops"},
        on_step=stopped(stop_after),
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The directory of a run that nothing interrupted."""
    directory = tmp_path_factory.mktemp("whole")
    assert run(directory) == directory / "best.policy"
    return directory


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """The same of a run stopped one step after a checkpoint."""
    directory = tmp_path_factory.mktemp("resumed")
    with pytest.raises(KeyboardInterrupt):
        run(directory, stop_after=3)
    assert len(rows(directory)) == 3
    run(directory)
    return directory


def test_a_resumed_run_ends_bit_for_bit_where_it_would_have(whole, resumed):
    chex.assert_trees_all_equal(checkpoint(whole, STEPS), checkpoint(resumed, STEPS))
    assert rows(whole) == rows(resumed)
    assert (whole / "best.policy").read_bytes() == (resumed / "best.policy").read_bytes()


@pytest.mark.parametrize("generation", ["parallel", "serial", "backwards"])
def test_graphs_are_scheduled_as_asked(tmp_path, generation, monkeypatch):
    seen = []
    inner = MachineProblem.makespans
    monkeypatch.setattr(
        MachineProblem,
        "makespans",
        lambda self, rows: seen.append((self, len(rows))) or inner(self, rows),
    )
    policy = dataclasses.replace(POLICY, generation=generation)
    run(tmp_path, config=dataclasses.replace(CONFIG, epochs=1), policy=policy)
    assert {problem.generation for problem, _ in seen} == {generation}
    # Of training, and the greedy schedules of validation before and after.
    assert sorted(count for _, count in seen) == [1] * 2 * 2 + [CONFIG.samples] * 3


def test_the_log_has_a_row_a_step_and_validations(whole):
    found = rows(whole)
    assert [int(row["step"]) for row in found] == list(range(1, STEPS + 1))
    assert [row["step"] for row in found if row["validation_cost"]] == ["2", "4", "6"]
    for name in reinforce.METRICS:
        assert np.isfinite([float(row[name]) for row in found]).all()


def test_a_finished_run_is_not_run_again(whole):
    before = rows(whole)
    run(whole, stop_after=1)
    assert rows(whole) == before


def greedy_cost(params) -> float:
    found = []
    for graph in VALIDATION:
        logits = reinforce.op_logits(params, prepared(graph, POLICY), POLICY)
        schedule = MachineProblem(graph).decode(logits)
        found.append(schedule.makespan / MachineProblem(graph).lower_bound)
    return float(np.mean(found))


def test_best_policy_is_the_one_of_best_validation(whole):
    params, config, about = checkpoints.load_policy(whole / "best.policy", OneShotConfig)
    assert config == POLICY
    costs = {r["step"]: float(r["validation_cost"]) for r in rows(whole) if r["validation_cost"]}
    assert (about["system"], about["data"]) == ("one_shot", "job shops")
    assert about["validation_cost"] <= min(costs.values())
    assert about["steps"] == 0 or costs[str(about["steps"])] == about["validation_cost"]
    state = checkpoint(whole, STEPS)
    assert (int(state["step"]), int(state["epoch"])) == (STEPS, 3)
    chex.assert_trees_all_equal(params, jax.device_get(state["best_params"]))
    assert greedy_cost(params) == pytest.approx(about["validation_cost"])


def test_validation_by_the_best_of_samples(whole):
    params, _, _ = checkpoints.load_policy(whole / "best.policy", OneShotConfig)
    held_out = [prepared(graph, POLICY) for graph in VALIDATION]
    config = dataclasses.replace(CONFIG, validation_samples=8)
    expected = []
    for example in held_out:
        logits = reinforce.op_logits(params, example, POLICY)
        priorities, _ = plackett_luce.draw(np.random.default_rng(0), logits, 8)
        makespans = example.problem.makespans(priorities)
        expected.append(makespans.min() / example.problem.lower_bound)
    assert validation_cost(params, held_out, POLICY, config) == pytest.approx(np.mean(expected))
    many = dataclasses.replace(CONFIG, validation_samples=300)
    assert validation_cost(params, held_out, POLICY, many) <= greedy_cost(params)


def test_a_graph_without_work_costs_as_much_as_its_bound():
    graph = graph_of(2, [(0, 1)]).replace(duration=np.zeros(2), capacity=np.array([1]))
    example = prepared(graph, POLICY)
    params = registry.make_policy(POLICY).init(jax.random.key(0), example.inputs)
    assert validation_cost(params, [example], POLICY, CONFIG) == 1


def test_training_begins_from_given_parameters(tmp_path, whole):
    params, _, _ = checkpoints.load_policy(whole / "best.policy", OneShotConfig)
    path = train_one_shot(
        TRAINING,
        VALIDATION,
        policy=POLICY,
        config=dataclasses.replace(CONFIG, epochs=0),
        directory=tmp_path,
        initial_params=params,
    )
    same, _, about = checkpoints.load_policy(path, OneShotConfig)
    chex.assert_trees_all_equal(params, same)
    assert about["steps"] == 0
    json.dumps(about)


def test_every_epoch_has_all_graphs_and_prepares_each_once(monkeypatch):
    made = []
    inner = reinforce.prepared
    monkeypatch.setattr(
        reinforce, "prepared", lambda graph, *a: made.append(graph) or inner(graph, *a)
    )
    found = list(reinforce._batches(lambda epoch: TRAINING, POLICY, CONFIG, 0, 0))
    assert [len(batch) for batch, _ in found] == [2, 1] * 3
    assert [is_last for _, is_last in found] == [False, True] * 3
    names = [
        [e.problem.graph.name for batch, _ in found[i : i + 2] for e in batch] for i in (0, 2, 4)
    ]
    assert all(sorted(epoch) == sorted(graph.name for graph in TRAINING) for epoch in names)
    assert len({tuple(epoch) for epoch in names}) > 1
    assert len(made) == 3
    again = list(reinforce._batches(lambda epoch: TRAINING, POLICY, CONFIG, 4, 2))
    assert [e.problem.graph.name for batch, _ in again for e in batch] == names[2]


def test_fresh_graphs_an_epoch_are_not_kept(monkeypatch):
    made = []
    inner = reinforce.prepared
    monkeypatch.setattr(
        reinforce,
        "prepared",
        lambda graph, *a: made.append(graph.name) or inner(graph, *a),
    )
    list(reinforce._batches(lambda epoch: TRAINING[epoch % 2 :][:2], POLICY, CONFIG, 0, 0))
    first, second, third = (graph.name for graph in TRAINING)
    assert sorted(made) == sorted([first, second, third, first])


def test_graphs_of_an_epoch_by_its_number(tmp_path):
    seen = []

    def graphs(epoch):
        seen.append(epoch)
        return TRAINING[epoch:]

    run(tmp_path, graphs=graphs)
    assert seen == [0, 1, 2]
    assert len(rows(tmp_path)) == 2 + 1 + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation": []}, "no validation graphs"),
        ({"graphs": []}, "no training graphs in epoch 0"),
        ({"config": dataclasses.replace(CONFIG, samples=1)}, "at least 2 samples"),
        ({"config": dataclasses.replace(CONFIG, batch_size=0)}, "batch_size is 0"),
        ({"config": dataclasses.replace(CONFIG, epsilon=0.0)}, "epsilon is 0.0"),
        ({"config": dataclasses.replace(CONFIG, epsilon=np.nan)}, "epsilon is nan"),
        ({"policy": dataclasses.replace(POLICY, generation="none")}, "generation must be one of"),
        ({"config": dataclasses.replace(CONFIG, learning_rate=np.nan)}, "diverged"),
        ({"validation": [graph_of(0, []).replace(capacity=np.array([1]))]}, "ops"),
        ({"graphs": [graph_of(2, [(0, 1)])]}, "capacity"),
    ],
)
def test_what_cannot_be_trained(tmp_path, options, message):
    with pytest.raises(RegalError, match=message):
        run(tmp_path, **options)


def test_a_policy_for_fewer_machine_types(tmp_path):
    paper = dataclasses.replace(POLICY, feature_set="paper", num_types=3)
    with pytest.raises(OptionError, match="machine type 3, the policy is for 3 types"):
        train_one_shot(TRAINING, VALIDATION, policy=paper, config=CONFIG, directory=tmp_path)
