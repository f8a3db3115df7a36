"""The loop that trains policies over orders: batches, resuming, and what it writes."""

import dataclasses
import json

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.datasets.layered import layered_graphs
from regal_jax.errors import OptionError, RegalError
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.policies.topological_order.policy import OrderingConfig, ordering_policy
from regal_jax.search.orders.dynamic_programming import best_of_random, order_peak
from regal_jax.training import checkpoints
from regal_jax.training import topological_order as reinforce
from regal_jax.training.ordering_examples import batches
from regal_jax.training.ordering_inputs import ordering_inputs
from regal_jax.training.topological_order import OrderingTraining, train_ordering
from tests.oracles import ordering as oracle
from tests.policies.cases import chain, inputs_of
from tests.training.cases import checkpoint, rows, stopped

POLICY = OrderingConfig(encoder="mlp", size=6, layers=1, dimensions=2)
CONFIG = OrderingTraining(
    batch_size=2, epoch_graphs=4, epochs=3, learning_rate=0.03, samples=2, seed=1
)
STEPS = 6
VALIDATION = layered_graphs(100, 3, 12)


def epoch_graphs(epoch: int):
    return layered_graphs(epoch, 4, 12)


@pytest.fixture(scope="module", autouse=True)
def shapes():
    """The hyperparameters and shapes of batches that the update was compiled for."""
    found = []
    update = reinforce._update.__wrapped__

    def traced(state, batch, *arguments):
        found.append((arguments[-1], jax.tree.map(jnp.shape, batch)))
        return update(state, batch, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reinforce, "_update", jax.jit(traced, static_argnums=(4, 5)))
        yield found


def run(directory, *, stop_after=None, config=CONFIG, graphs=epoch_graphs, validation=VALIDATION):
    return train_ordering(
        graphs,
        validation,
        policy=POLICY,
        config=config,
        directory=directory,
        about={"objective": "peak_memory"},
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


def test_orders_drawn_on_the_device_end_bit_for_bit_where_they_would_have(tmp_path):
    """In chunks, unlike those of the kernel."""
    config = dataclasses.replace(CONFIG, sampler="device", epochs=2, epoch_graphs=6)
    assert not reinforce.learner([], POLICY, CONFIG, None).traceable
    assert reinforce.learner([], POLICY, config, None).traceable
    run(tmp_path / "whole", config=config)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", config=config, stop_after=4)
    run(tmp_path / "parts", config=config)
    whole, resumed = (checkpoint(tmp_path / name, 6) for name in ("whole", "parts"))
    chex.assert_trees_all_equal(whole, resumed)
    assert rows(tmp_path / "whole") == rows(tmp_path / "parts")


def test_epochs_of_other_graphs_share_a_compilation(whole, resumed, shapes):
    """Though they have different numbers of edges; the runs share it, too."""
    counts = [{len(oracle.plain_pairs(graph)) for graph in epoch_graphs(e)} for e in range(3)]
    assert len(set().union(*counts)) > 3
    assert len([batch for config, batch in shapes if config == CONFIG]) == 1


def test_the_log_has_a_row_a_step_and_validations(whole):
    found = rows(whole)
    assert [int(row["step"]) for row in found] == list(range(1, STEPS + 1))
    validated = [row["step"] for row in found if row["validation_cost"]]
    assert validated == ["2", "4", "6"]
    for name in ("cost", "advantage_std", "log_prob", "gradient_norm"):
        assert np.isfinite([float(row[name]) for row in found]).all()


def test_a_finished_run_is_not_run_again(whole):
    before = rows(whole)
    run(whole, stop_after=1)
    assert rows(whole) == before


def greedy_cost(params) -> float:
    """Mean peak of the greedy orders over the best of random ones, graph by graph."""
    found = []
    for graph in VALIDATION:
        inputs = ordering_inputs(graph, POLICY)
        priority = jax.jit(ordering_policy(POLICY).priorities)(params, inputs)
        order = oracle.greedy_order(np.asarray(priority).tolist(), oracle.plain_pairs(graph))
        found.append(order_peak(graph, np.array(order)) / best_of_random(graph).peak)
    return float(np.mean(found))


def test_best_policy_is_the_one_of_best_validation(whole):
    params, config, about = checkpoints.load_policy(whole / "best.policy", OrderingConfig)
    assert config == POLICY
    costs = {int(r["step"]): float(r["validation_cost"]) for r in rows(whole) if r["step"] in "246"}
    best = min(costs.values())
    assert about["objective"] == "peak_memory"
    assert about["validation_cost"] <= best
    assert about["steps"] == 0 or costs[about["steps"]] == best == about["validation_cost"]
    state = checkpoint(whole, STEPS)
    chex.assert_trees_all_equal(params, jax.device_get(state["best_params"]))
    np.testing.assert_allclose(state["best_cost"], about["validation_cost"], rtol=1e-6)
    again = reinforce.validation_cost(params, list(batches(VALIDATION, POLICY, 2)), POLICY)
    np.testing.assert_allclose(again, about["validation_cost"], rtol=1e-5)


def test_the_validation_cost_counts_each_graph_once():
    """Three graphs in batches of two."""
    one = jax.tree.map(lambda leaf: leaf[0], next(batches(VALIDATION, POLICY, 2)).inputs)
    params = jax.jit(ordering_policy(POLICY).init)(jax.random.key(3), one)
    found = reinforce.validation_cost(params, list(batches(VALIDATION, POLICY, 2)), POLICY)
    np.testing.assert_allclose(found, greedy_cost(params), rtol=1e-5)


def test_training_begins_from_given_parameters(tmp_path, whole):
    params, _, _ = checkpoints.load_policy(whole / "best.policy", OrderingConfig)
    path = train_ordering(
        epoch_graphs,
        VALIDATION,
        policy=POLICY,
        config=dataclasses.replace(CONFIG, epochs=0),
        directory=tmp_path,
        initial_params=params,
    )
    same, _, about = checkpoints.load_policy(path, OrderingConfig)
    chex.assert_trees_all_equal(params, same)
    assert about["steps"] == 0
    json.dumps(about)


def test_policies_of_another_kind_are_errors(whole, tmp_path):
    with pytest.raises(RegalError, match=r"best\.policy: holds a policy of topoformer"):
        checkpoints.load_policy(whole / "best.policy", RegalConfig)
    regal = RegalConfig(size=4, rounds=1)
    params = regal.policy.init(jax.random.key(0), inputs_of(chain(2)))
    checkpoints.save_policy(tmp_path / "regal.policy", params, regal, about={})
    with pytest.raises(RegalError, match=r"regal\.policy: holds a policy of regal"):
        checkpoints.load_policy(tmp_path / "regal.policy", OrderingConfig)


def test_batches_have_all_graphs_and_one_shape_a_size():
    graphs = [*layered_graphs(0, 5, 12), *layered_graphs(1, 3, 20), *layered_graphs(2, 1, 16)]
    found = list(batches(graphs, POLICY, 4))
    ops = [batch.inputs.features.shape[1] for batch in found]
    assert ops == [16, 16, 24]  # six graphs of up to 16 ops, then three of 20
    assert jax.tree.map(lambda leaf: leaf.shape[1:], found[0]) == jax.tree.map(
        lambda leaf: leaf.shape[1:], found[1]
    )
    reals = [batch.inputs.relations.real.sum(axis=1).tolist() for batch in found]
    assert reals == [[12, 12, 12, 12], [12, 16], [20, 20, 20]]
    references = [round(float(peak)) for batch in found for peak in batch.reference]
    assert references[:4] == [best_of_random(graph).peak for graph in graphs[:4]]
    assert set(references) == {best_of_random(graph).peak for graph in graphs}


def test_the_cost_of_an_example_is_that_of_its_graph():
    """The inputs, the arrays and the reference in a row belong to one graph."""
    batch = next(batches(VALIDATION, POLICY, 2))
    for row, graph in enumerate(VALIDATION[:2]):
        order = best_of_random(graph).order
        positions = oracle.positions(order.tolist(), batch.inputs.features.shape[1])
        arrays = jax.tree.map(lambda leaf: leaf[row : row + 1], batch.graph)  # noqa: B023
        cost = float(reinforce.costs(arrays, positions[None, None])[0, 0])
        assert cost == batch.reference[row]
        senders = batch.inputs.relations.senders[row]
        assert (senders < 16).sum() == len(oracle.plain_pairs(graph))


def test_an_epoch_is_a_function_of_seed_and_number():
    config = dataclasses.replace(CONFIG, epoch_graphs=12)

    def references(epoch, seed=0, graphs=epoch_graphs):
        changed = dataclasses.replace(config, seed=seed)
        found = reinforce._epoch(graphs, epoch, POLICY, changed)
        assert len(found) == 6  # two batches, again and again
        return [batch.reference.tolist() for batch in found]

    assert references(0) == references(0)
    assert references(0) != references(1)
    same = lambda epoch: epoch_graphs(0)  # noqa: E731
    several = {str(references(epoch, graphs=same)) for epoch in range(6)}
    assert len(several) == 2  # either batch first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation": []}, "no validation graphs"),
        (
            {"config": dataclasses.replace(CONFIG, baseline="leave_one_out", samples=1)},
            "at least two samples",
        ),
        ({"graphs": lambda epoch: []}, "no training graphs"),
    ],
)
def test_what_cannot_be_trained(tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        run(tmp_path, **options)


def test_a_batch_that_the_devices_cannot_share_is_an_error(tmp_path, monkeypatch):
    device = jax.devices()[0]
    monkeypatch.setattr(jax, "devices", lambda: [device] * 3)
    with pytest.raises(OptionError, match=r"batch_size \(2\) must be a multiple of the 3 devices"):
        run(tmp_path)
