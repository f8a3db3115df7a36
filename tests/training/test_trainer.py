"""The training loop, of a system that is trained in no time: chunks, resuming, what it writes."""

import dataclasses
import json
import threading

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest

from regal_jax.errors import OptionError
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.training import checkpoints, trainer
from regal_jax.training.trainer import Batch, Learner, PolicyFile, TrainState, ahead, groups
from tests.cpu_devices import run_on_devices
from tests.training.cases import checkpoint, rows, stopped

STEPS, EPOCH = 12, 5
OPTIMIZER = optax.adam(0.01)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Of a line that is fitted to random numbers."""

    rate: float = 1.0
    steps: int = STEPS
    sizes: tuple[int, ...] = (3,)


def learner(plan: Plan, costs=None, **options) -> Learner:
    """Its parameters are validated by ``costs``, one after the other; by none without."""
    costs = costs if costs is None else iter(costs)

    def init(key, example):
        params = {"weight": jax.random.normal(key, (4,)), "bias": jnp.zeros(())}
        return trainer.new_state(params, OPTIMIZER, selects=costs is not None)

    def update(key, state: TrainState, data):
        noise = jax.random.normal(key, data.shape[:1])

        def loss_of(params):
            found = jnp.tanh(data @ params["weight"]) + params["bias"] + noise
            return plan.rate * jnp.mean(found**2)

        loss, gradient = jax.value_and_grad(loss_of)(state.params)
        return trainer.descend(state, gradient, OPTIMIZER), {"loss": loss, "noise": noise[0]}

    def validate(params):
        cost = None if costs is None else next(costs)
        return cost, {} if cost is None else {"cost": cost}

    return Learner("line", init, update, validate, ("loss", "noise"), ("cost",), **options)


def batches(plan: Plan):
    """Of random sizes among a plan's; a stream from (step, epoch) on."""

    def stream(step, epoch):
        assert epoch == -(-step // EPOCH)
        for index in range(step, plan.steps):
            rng = np.random.default_rng(index)
            data = rng.normal(size=(rng.choice(plan.sizes), 4)).astype(np.float32)
            yield Batch(data, (index + 1) % EPOCH == 0 or index + 1 == plan.steps)

    return stream


def fit(directory, plan=Plan(), *, costs=None, stop_after=None, options=None, on_step=None, **more):
    return trainer.fit(
        learner(plan, costs, **(options or {})),
        batches(plan),
        directory,
        example=None,
        seed=0,
        policy=PolicyFile(directory / "line.policy", OneShotConfig(), {"data": "none"}),
        hyperparameters={"training": plan, "data": "normal"},
        may_grow=["training.steps"],
        on_step=on_step or stopped(stop_after),
        **more,
    )


def assert_same(one, other):
    jax.tree.map(
        np.testing.assert_array_equal,
        *(jax.tree.map(np.asarray, (s.params, s.opt_state, s.step)) for s in (one, other)),
    )


def test_items_come_in_order_and_one_is_made_ahead():
    made, threads = [], set()

    def items():
        for number in range(4):
            made.append(number)
            threads.add(threading.get_ident())
            yield number

    assert list(ahead(items())) == [0, 1, 2, 3]
    assert made == [0, 1, 2, 3]
    assert threading.get_ident() not in threads
    assert list(ahead(iter(()))) == []


def test_an_error_in_the_background_is_raised_where_its_item_would_be():
    def items():
        yield 1
        raise ValueError("no second item")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="no second item"):
        next(found)


def test_groups_have_one_shape_and_end_with_epochs():
    sizes = [3, 3, 3, 5, 5, 3, 3]
    stream = (Batch(np.zeros(size), index in (4, 6)) for index, size in enumerate(sizes))
    found = [([len(data) for data in g.data], g.ends_epoch) for g in groups(stream, 2)]
    assert found == [([3, 3], False), ([3], False), ([5, 5], True), ([3, 3], True)]


def test_chunks_of_any_length_end_bit_for_bit_at_the_same_parameters(tmp_path):
    plan = Plan(sizes=(3, 6))
    states = [fit(tmp_path / str(chunk), plan, chunk=chunk) for chunk in (1, 3, 8)]
    for state, chunk in zip(states, (1, 3, 8), strict=True):
        assert int(state.step) == STEPS
        assert_same(state, states[0])
        assert rows(tmp_path / str(chunk)) == rows(tmp_path / "1")


def test_updates_on_the_host_are_those_on_the_device(tmp_path):
    one, other = fit(tmp_path / "one"), fit(tmp_path / "two", options={"traceable": False})
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), one.params, other.params)


@pytest.mark.parametrize("stop_after", [3, 5, 6, 11])
def test_a_stopped_run_ends_bit_for_bit_where_it_would_have(tmp_path, stop_after):
    whole = fit(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "parts", stop_after=stop_after)
    assert len(rows(tmp_path / "parts")) == stop_after
    assert_same(fit(tmp_path / "parts"), whole)
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")
    jax.tree.map(
        np.testing.assert_array_equal,
        *(checkpoint(tmp_path / folder, STEPS) for folder in ("whole", "parts")),
    )


def test_a_longer_training_goes_on_to_where_it_would_have_been(tmp_path):
    fit(tmp_path / "parts", Plan(steps=7), chunk=4)
    longer = fit(tmp_path / "parts", Plan(steps=10))
    assert_same(longer, fit(tmp_path / "whole", Plan(steps=10)))
    with pytest.raises(OptionError, match=r"training\.steps was 10, now 9"):
        fit(tmp_path / "parts", Plan(steps=9))


def test_a_finished_run_is_not_run_again(tmp_path):
    first = fit(tmp_path)
    assert_same(fit(tmp_path, stop_after=1), first)


def test_the_best_parameters_are_kept_and_shipped(tmp_path):
    """A tie is no improvement."""
    state = fit(tmp_path, costs=[5.0, 4.5, 4.5])
    parameters = fit(tmp_path / "shorter", Plan(steps=10)).params
    assert float(state.best_cost) == 4.5
    jax.tree.map(np.testing.assert_array_equal, state.best_params, parameters)
    kept, config, about = checkpoints.load_policy(tmp_path / "line.policy", OneShotConfig)
    jax.tree.map(np.testing.assert_array_equal, kept, parameters)
    assert config == OneShotConfig()
    assert about == {"data": "none", "steps": 10, "cost": 4.5}
    assert [row["cost"] for row in rows(tmp_path) if row["cost"]] == ["5.0", "4.5", "4.5"]


def test_the_first_parameters_may_be_the_best(tmp_path):
    state = fit(tmp_path, costs=[1.0, 2.0, 2.0, 2.0], options={"validates_first": True})
    *_, about = checkpoints.load_policy(tmp_path / "line.policy", OneShotConfig)
    assert (about["steps"], about["cost"], float(state.best_cost)) == (0, 1.0, 1.0)


def test_without_selection_the_last_parameters_are_shipped(tmp_path):
    state = fit(tmp_path)
    kept, _, about = checkpoints.load_policy(tmp_path / "line.policy", OneShotConfig)
    jax.tree.map(np.testing.assert_array_equal, kept, jax.device_get(state.params))
    assert about == {"data": "none", "steps": STEPS}
    assert state.best_params is None


def test_what_a_run_was_made_with_is_in_its_folder(tmp_path):
    fit(tmp_path)
    found = json.loads((tmp_path / "config.json").read_text())
    assert found["hyperparameters"] == {
        "system": "line",
        "training.rate": 1.0,
        "training.steps": STEPS,
        "training.sizes": [3],
        "data": "normal",
    }
    assert {"regal_jax", "source", "jax"} == set(found["code"])


def test_changed_hyperparameters_are_told_in_one_line(tmp_path):
    fit(tmp_path)
    before = (tmp_path / "config.json").read_text()
    with pytest.raises(
        OptionError, match=r"training.rate was 1.0, now 2.0;.*another output_dir"
    ) as e:
        fit(tmp_path, Plan(rate=2.0, steps=20))
    assert "steps" not in str(e.value)
    assert "\n" not in str(e.value)
    assert (tmp_path / "config.json").read_text() == before


def test_checkpoints_of_before_they_had_hyperparameters_are_told_in_one_line(tmp_path):
    with ocp.CheckpointManager(tmp_path / "checkpoints") as manager:
        manager.save(3, args=ocp.args.StandardSave({"step": jnp.int32(3)}))
    with pytest.raises(OptionError, match=r"older version.*another output_dir") as caught:
        fit(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_diverged_run_stops_before_it_is_written(tmp_path):
    with pytest.raises(OptionError, match="training has diverged"):
        fit(tmp_path, Plan(rate=float("inf")))
    assert not (tmp_path / "line.policy").exists()


def test_programs_of_many_shapes_are_dropped(tmp_path, monkeypatch):
    """Those of this training alone; steps are the same, and nothing is left in the end."""
    plan, made, kept = Plan(sizes=(2, 3, 5)), [], []
    jit = jax.jit
    monkeypatch.setattr(
        jax, "jit", lambda *a, **options: made.append(jit(*a, **options)) or made[-1]
    )
    monkeypatch.setattr(jax, "clear_caches", lambda: pytest.fail("the whole process"))

    def count(step, metrics):
        kept.append(made[0]._cache_size())

    many = fit(tmp_path / "many", plan, chunk=1, on_step=count)
    assert max(kept) == 3
    assert made[0]._cache_size() == 0
    monkeypatch.setattr(trainer, "MOST_SHAPES", 2)
    made.clear()
    kept.clear()
    assert_same(fit(tmp_path / "few", plan, chunk=1, on_step=count), many)
    assert max(kept) == 2


TWO_DEVICES = """
import jax, pathlib, tempfile
from regal_jax.training import trainer
from tests.training.test_trainer import Plan, fit
mesh = trainer.device_mesh(4)
folder = pathlib.Path(tempfile.mkdtemp())
state = fit(folder, Plan(sizes=(4,)), options={"mesh": mesh})
print(len(jax.devices()), *state.params["weight"].tolist())
"""


def test_batches_are_shared_by_devices(tmp_path):
    number, *weights = run_on_devices(TWO_DEVICES, 2).split()
    assert number == "2"
    expected = fit(tmp_path, Plan(sizes=(4,))).params["weight"]
    np.testing.assert_allclose([float(w) for w in weights], expected, rtol=1e-4)


def test_devices_must_share_a_batch_evenly(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: [jax.local_devices()[0]] * 3)
    with pytest.raises(OptionError, match=r"batch_size \(4\) must be a multiple of the 3 devices"):
        trainer.device_mesh(4)
