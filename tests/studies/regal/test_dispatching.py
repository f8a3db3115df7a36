"""The dispatcher's experiment: its flags for the shipped policy are those that made it."""

import dataclasses
from pathlib import Path

from absl.flags import FlagValues

from regal_jax.datasets import corpora
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.policies.regal.dispatching import DispatchConfig
from regal_jax.studies import flags
from regal_jax.studies.regal.dispatching import Settings
from regal_jax.training.checkpoints import load_policy
from regal_jax.training.settings import graphs_fingerprint

FLAGS = Path(__file__).parents[3] / "experiments" / "flags" / "small" / "regal_dispatch.flags"


def test_the_flags_are_those_of_the_shipped_policy():
    values, defaults = FlagValues(), Settings()
    flags.define(defaults, values)
    values(["", f"--flagfile={FLAGS}"])
    settings = flags.read(defaults, values)
    _, config, about = load_policy(shipped_policy("rules"), DispatchConfig)
    assert config == settings.dispatch
    assert about["pool"] == dataclasses.asdict(settings.pool)
    assert about["training"] == dataclasses.asdict(settings.training)
    training = corpora.training_graphs(
        settings.dataset, settings.copies, settings.train_ops, max_graphs=settings.train_graphs
    )
    assert about["graphs"] == graphs_fingerprint(training)
    validation = corpora.validation_graphs(
        settings.dataset, settings.validation_ops, max_graphs=settings.validation_graphs
    )
    assert about["validation"] == graphs_fingerprint(validation)
