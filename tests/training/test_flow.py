"""Trainings of policies over construction: what they see, write, and go on from."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.policies.gflownet.policy import FlowConfig, padded_inputs
from regal_jax.training import checkpoints, flow, gflownet, ppo, trainer
from regal_jax.training.flow import train_flow
from regal_jax.training.gflownet import FlowTraining
from regal_jax.training.ppo import PPOTraining
from regal_jax.training.trainer import Learner
from tests.policies.cases import random_graph
from tests.policies.gflownet.cases import WITHOUT_EDGES
from tests.training.cases import checkpoint, rows, stopped

POLICY = dataclasses.replace(WITHOUT_EDGES, max_ops=20)
GRAPHS = [
    random_graph(0, 12).replace(duration=np.random.default_rng(seed).integers(1, 9, 12))
    for seed in range(3)
]
"""Of one shape."""
PLAN = FlowTraining(num_devices=2, steps=9, epoch_steps=4, trajectories=5)


def listener(heard: list, fail_at: int | None = None) -> Learner:
    """Trains nothing; notes (key, inputs, temperature) of each step. Its parameter is a sum of the
    temperatures."""

    def init(key, inputs):
        return trainer.new_state({"policy": jnp.float32(0.0)}, optax.identity(), selects=False)

    def update(key, state, batch):
        inputs, (temperature,) = jax.tree.map(lambda rows: rows[0], batch.inputs), batch.temperature
        heard.append((jax.random.key_data(key).tolist(), inputs, temperature))
        bad = jnp.nan if int(state.step) == fail_at else 0.0
        params = {"policy": state.params["policy"] + heard[-1][2] + bad}
        return state.replace(params=params, step=state.step + 1), {"loss": params["policy"]}

    return Learner("listener", init, update, lambda params: (None, {}), ("loss",), traceable=False)


def train(directory, plan=PLAN, *, heard=None, graphs=GRAPHS, validation=(), fail_at=None, **more):
    return train_flow(
        graphs,
        validation,
        learner=listener([] if heard is None else heard, fail_at),
        policy=POLICY,
        plan=plan,
        directory=directory,
        **more,
    )


def test_each_step_has_its_own_graph_and_random_numbers(tmp_path):
    heard = []
    train(tmp_path, dataclasses.replace(PLAN, steps=40), heard=heard)
    assert len(heard) == 40
    assert len({tuple(key) for key, *_ in heard}) == len({number for *_, number in heard}) == 40
    known = [padded_inputs(graph, Platform(2), POLICY) for graph in GRAPHS]
    drawn = [
        next(at for at, one in enumerate(known) if np.array_equal(one.features, inputs.features))
        for _, inputs, _ in heard
    ]
    assert set(drawn) == {0, 1, 2}
    others = []
    train(tmp_path / "other", dataclasses.replace(PLAN, steps=40, seed=1), heard=others)
    assert [number for *_, number in heard] != [number for *_, number in others]


def test_an_interrupted_run_goes_on_from_its_last_checkpoint(tmp_path):
    whole, first, second = [], [], []
    train(tmp_path / "whole", heard=whole)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", heard=first, on_step=stopped(6))
    train(tmp_path / "parts", heard=second)
    assert len(first) == 6
    assert len(second) == 5  # the checkpoint is that of step 4
    for again, once in zip(second, whole[4:], strict=True):
        assert again[0] == once[0]
        assert again[2] == once[2]
        jax.tree.map(np.testing.assert_array_equal, again[1], once[1])
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")
    one, other = (
        checkpoints.load_policy(tmp_path / name / "last.policy", FlowConfig)
        for name in ("whole", "parts")
    )
    assert one == other
    done = []
    train(tmp_path / "parts", heard=done)
    assert done == []


def test_a_policy_is_written_at_the_end_of_every_epoch(tmp_path):
    path = tmp_path / "last.policy"
    steps = {}

    def on_step(step, metrics):
        steps[step] = checkpoints.load_policy(path, FlowConfig)[2]["steps"] if path.exists() else 0

    assert train(tmp_path, about={"corpus": "random"}, on_step=on_step) == path
    # read before the step's own is written
    assert steps == {1: 0, 2: 0, 3: 0, 4: 0, 5: 4, 6: 4, 7: 4, 8: 4, 9: 8}
    _, config, about = checkpoints.load_policy(path, FlowConfig)
    assert config == POLICY
    assert about == {"corpus": "random", "system": "listener", "steps": 9}
    assert [row["step"] for row in rows(tmp_path)] == [str(step) for step in range(1, 10)]


def test_sub_graphs_have_the_sizes_asked_for(tmp_path):
    heard = []
    plan = dataclasses.replace(PLAN, steps=60, min_subgraph=4, max_subgraph=7)
    small = random_graph(9, 3)
    train(tmp_path, plan, heard=heard, graphs=[*GRAPHS, small])
    sizes = {int(inputs.problem.num_ops) for _, inputs, _ in heard}
    assert sizes == {3, 4, 5, 6, 7}  # graphs that are smaller are left whole
    assert {len(inputs.features) for _, inputs, _ in heard} == {8}


def test_graphs_of_one_step_are_different_and_padded_alike():
    plan = dataclasses.replace(PLAN, steps=3, problems=6)
    small = random_graph(5, 3)
    for batch in flow._batches([*GRAPHS, small], POLICY, plan, 0, 0):
        inputs, temperature = batch.data
        assert inputs.features.shape[:2] == (6, 16)
        assert set(inputs.problem.num_ops.tolist()) <= {5, 3, 12}
        assert len(set(temperature.tolist())) == 6
        assert len({row.tobytes() for row in inputs.problem.duration}) > 1
        assert temperature.dtype == np.float32


def test_sub_graphs_are_no_larger_than_their_graphs(tmp_path):
    heard = []
    plan = dataclasses.replace(PLAN, steps=20, min_subgraph=11, max_subgraph=100)
    train(tmp_path, plan, heard=heard)
    assert {int(inputs.problem.num_ops) for _, inputs, _ in heard} <= {11, 12}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps and epoch_steps"),
        ({"epoch_steps": 0}, "steps and epoch_steps"),
        ({"trajectories": 0}, "trajectories, validation_samples"),
        ({"validation_samples": 0}, "validation_samples"),
        ({"validation_top": 0}, "validation_top"),
        ({"min_subgraph": 8, "max_subgraph": 7}, "min_subgraph <= max_subgraph"),
        ({"min_subgraph": -1, "max_subgraph": 7}, "0 <= min_subgraph"),
        ({"max_subgraph": 7}, "max_subgraph needs min_subgraph"),
        ({"num_devices": 0}, "num_devices"),
    ],
)
def test_options_out_of_range_are_errors(tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        train(tmp_path, dataclasses.replace(PLAN, **options))
    assert not list(tmp_path.iterdir())


def test_there_must_be_graphs_that_the_policy_is_for(tmp_path):
    with pytest.raises(OptionError, match="no training graphs"):
        train(tmp_path, graphs=[])
    with pytest.raises(OptionError, match="21 ops, the policy is for at most 20"):
        train(tmp_path, graphs=[random_graph(0, 21)])
    with pytest.raises(OptionError, match="21 ops, the policy is for at most 20"):
        train(
            tmp_path,
            graphs=[GRAPHS[0], random_graph(0, 21)],
            plan=dataclasses.replace(PLAN, steps=40),
        )


def test_a_diverged_run_stops_before_it_is_written(tmp_path):
    with pytest.raises(OptionError, match="training has diverged"):
        train(tmp_path, fail_at=5)
    *_, about = checkpoints.load_policy(tmp_path / "last.policy", FlowConfig)
    assert about["steps"] == 4


SMALL = {
    "num_devices": 2,
    "steps": 4,
    "epoch_steps": 2,
    "trajectories": 5,
    "validation_samples": 20,
    "validation_top": 5,
}
SYSTEMS = {
    "gflownet": (gflownet, FlowTraining(**SMALL)),
    "ppo": (ppo, PPOTraining(**SMALL)),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_network_is_trained_looked_at_and_resumed(name, tmp_path, monkeypatch):
    """Bit for bit. Nothing of the process is touched: no cache of JAX is cleared."""

    def clear_caches():
        raise AssertionError("caches of the whole process")

    monkeypatch.setattr(jax, "clear_caches", clear_caches)
    (system, plan), traced = SYSTEMS[name], []

    def run(directory, stop_after=None):
        learner = system.learner(POLICY, plan)
        noted = lambda *arguments: traced.append(1) or learner.update(*arguments)  # noqa: E731
        return train_flow(
            GRAPHS,
            GRAPHS[:2],
            learner=learner._replace(update=noted),
            policy=POLICY,
            plan=plan,
            directory=directory,
            on_step=stopped(stop_after),
        )

    path = run(tmp_path / "whole")
    assert len(traced) == 1  # one compilation for four steps of graphs of one shape
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", 3)
    run(tmp_path / "parts")
    assert rows(tmp_path / "whole") == rows(tmp_path / "parts")
    jax.tree.map(
        np.testing.assert_array_equal,
        *(checkpoint(tmp_path / folder, 4) for folder in ("whole", "parts")),
    )
    one, config, about = checkpoints.load_policy(path, FlowConfig)
    other, *_ = checkpoints.load_policy(tmp_path / "parts" / "last.policy", FlowConfig)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert (config, about) == (POLICY, {"system": name, "steps": 4})
    table = rows(tmp_path / "whole")
    assert list(table[0]) == ["step", *system.METRICS, *flow.VALIDATION]
    for row in table:
        looked_at = int(row["step"]) % 2 == 0
        for column in flow.VALIDATION:
            assert (row[column] != "") == looked_at
        if looked_at:
            assert 2 >= float(row["validation_top_1"]) >= float(row["validation_top"]) >= 1
        if name == "gflownet":
            assert 0.01 <= float(row["temperature"]) <= 1
        assert float(row["best_speedup"]) >= float(row["speedup"]) > 0


@pytest.mark.parametrize(
    ("plan", "grows"),
    [
        (FlowTraining(), True),
        (FlowTraining(final_rate=0.5), False),
        (PPOTraining(), False),
        (PPOTraining(final_rate=1.0, final_entropy=1.0), True),
    ],
)
def test_a_training_may_be_extended_unless_its_rates_depend_on_its_length(plan, grows):
    assert plan.growing == (("training.steps",) if grows else ())
