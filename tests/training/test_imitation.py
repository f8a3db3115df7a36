"""Imitation: what scripts do by hand, that the best is chosen, and that a policy learns it."""

import jax
import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.policies.regal.beta_mutants import ActionSpace
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.training import imitation
from regal_jax.training import regal as training
from regal_jax.training.checkpoints import load_policy
from regal_jax.training.imitation import Closeness
from regal_jax.training.regal import TrainingConfig, train_regal
from regal_jax.training.regal_examples import prepare_examples
from tests.training.cases import rows, small_graphs, stopped

REGAL = RegalConfig(
    size=8, rounds=1, levels=4, feature_evaluations=100, feature_set="incumbent", normalise=True
)
CONFIG = TrainingConfig(evaluations=460, batch_size=2, samples=2, steps=1, learning_rate=1e-2)


@pytest.fixture(scope="module")
def buckets():
    return prepare_examples(
        small_graphs(), objective="makespan", regal=REGAL, evaluations=460, seed=0
    )


def test_closenesses_go_from_not_at_all_to_as_closely_as_levels_can():
    assert imitation.closenesses(2) == (Closeness(1, 1, 0), Closeness(0, 1, 0))
    assert imitation.closenesses(4) == (
        Closeness(2, 2, 1),
        Closeness(1, 2, 1),
        Closeness(0, 3, 1),
    )


def test_scripts_by_hand(buckets):
    """Three ops on devices 0, 1, 0 that run last, first and in between."""
    inputs = jax.tree.map(lambda leaf: leaf[0], buckets[0].examples.inputs)
    nodes = np.array(inputs.nodes)[:3]
    nodes[:, -4:] = [[1, 0, 1.0, 0], [0, 1, 0.0, 0], [1, 0, 0.5, 0]]
    scripts = imitation.scripted_actions(inputs.replace(nodes=nodes), REGAL.space)
    assert len(scripts) == 9
    assert scripts[0].tolist() == [[2, 1, 2, 1, 2, 1]] * 3
    assert scripts[-1].tolist() == [
        [3, 1, 0, 1, 0, 1],
        [0, 1, 3, 1, 3, 1],
        [3, 1, 0, 1, 2, 1],
    ]
    order_only = ActionSpace(levels=2, placement=False)
    weak = imitation.scripted_actions(inputs.replace(nodes=nodes), order_only)[-1]
    assert weak.tolist() == [[0, 0], [1, 0], [1, 0]]


def test_the_best_script_is_chosen_and_learned(buckets, tmp_path):
    experts = [
        imitation.best_scripts(bucket, regal=REGAL, evaluations=460, seed=0) for bucket in buckets
    ]
    bucket, expert = buckets[0], experts[0]
    inputs = bucket.examples.take(np.array(0)).inputs
    scripts = np.stack(imitation.scripted_actions(inputs, REGAL.space))
    costs = imitation._search_costs(
        jax.random.key(0), bucket.examples.take(np.array(0)), scripts, bucket.model, REGAL, 460
    )
    assert expert[0].tolist() == scripts[int(np.argmin(costs))].tolist()
    params = REGAL.policy.init(jax.random.key(0), inputs)
    losses = []
    learned = imitation.imitate(
        params,
        buckets,
        lambda: experts,
        steps=600,
        regal=REGAL,
        evaluations=460,
        batch_size=CONFIG.batch_size,
        seed=CONFIG.seed,
        directory=tmp_path,
        on_step=lambda step, metrics: losses.append(metrics["loss"]),
    )
    assert losses[0] == pytest.approx(np.log(4), rel=1e-3)  # a new policy is uniform
    assert np.mean(losses[-10:]) < 0.4
    real = np.asarray(inputs.real)
    agreement = (np.asarray(REGAL.policy.mode(learned, inputs)) == expert[0])[real].mean()
    assert agreement > 0.5  # of four levels


def test_imitation_that_was_stopped_ends_bit_for_bit_where_it_would_have(
    buckets, tmp_path, monkeypatch
):
    monkeypatch.setattr(imitation, "CHECKPOINT_EVERY", 2)
    bucket, made = buckets[0], []
    inputs = bucket.examples.take(np.array(0)).inputs

    def experts():
        made.append(1)
        shape = (bucket.examples.num_graphs, *inputs.real.shape, REGAL.space.num_choices)
        return [np.random.default_rng(0).integers(REGAL.levels, size=shape, dtype=np.int32)]

    def run(name, stop_after=None):
        return imitation.imitate(
            REGAL.policy.init(jax.random.key(0), inputs),
            buckets,
            experts,
            steps=5,
            regal=REGAL,
            evaluations=460,
            batch_size=2,
            seed=0,
            directory=tmp_path / name,
            on_step=stopped(stop_after),
        )

    with pytest.raises(KeyboardInterrupt):
        run("parts", stop_after=3)
    jax.tree.map(np.testing.assert_array_equal, run("parts"), run("whole"))
    assert rows(tmp_path / "parts" / "imitation") == rows(tmp_path / "whole" / "imitation")
    run("whole")
    assert len(made) == 3  # a finished run needs no experts


def test_training_begins_from_imitation_and_resumes(tmp_path):
    graphs = small_graphs()
    options = {"regal": REGAL, "config": CONFIG, "directory": tmp_path / "new", "validate_every": 1}
    path = train_regal(graphs, graphs, objective="makespan", imitation_steps=3, **options)
    written = (tmp_path / "new" / "imitation.policy").read_bytes()
    again = train_regal(graphs, graphs, objective="makespan", imitation_steps=3, **options)
    assert path == again
    assert (tmp_path / "new" / "imitation.policy").read_bytes() == written


def test_the_head_start_counts_as_a_policy_of_step_0(tmp_path, monkeypatch):
    """Training that makes things worse returns what it began with."""
    scores = iter([1.0, 0.5])
    monkeypatch.setattr(training, "validate", lambda *args, **options: next(scores))
    graphs = small_graphs()
    path = train_regal(
        graphs,
        graphs,
        objective="makespan",
        regal=REGAL,
        config=CONFIG,
        directory=tmp_path,
        validate_every=1,
        imitation_steps=3,
    )
    kept, _, about = load_policy(path, RegalConfig)
    begun, _, _ = load_policy(tmp_path / "imitation.policy", RegalConfig)
    jax.tree.map(np.testing.assert_array_equal, kept, begun)
    assert (about["steps"], about["validation_improvement"]) == (0, 1.0)


def test_imitation_needs_an_incumbent(tmp_path):
    with pytest.raises(OptionError, match="feature_set=incumbent"):
        train_regal(
            small_graphs(),
            small_graphs(),
            objective="makespan",
            regal=RegalConfig(),
            config=CONFIG,
            directory=tmp_path,
            validate_every=1,
            imitation_steps=3,
        )
