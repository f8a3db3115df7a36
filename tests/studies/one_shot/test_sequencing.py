"""Sequencing by launcher: its flags for the shipped policy are those that made it; it resumes."""

import dataclasses
from pathlib import Path

from absl.flags import FlagValues

from regal_jax.datasets import machine_corpora
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.policies.choosing import SequencingConfig
from regal_jax.studies import flags
from regal_jax.studies.one_shot.sequencing import Settings
from regal_jax.training.checkpoints import load_policy
from regal_jax.training.settings import graphs_fingerprint
from tests.experiments.test_launchers import launch
from tests.experiments.test_launchers_ablations import SMOKE

FLAGS = Path(__file__).parents[3] / "experiments" / "flags" / "small" / "sequencing_jssp.flags"


def test_the_flags_are_those_of_the_shipped_policy():
    values, defaults = FlagValues(), Settings(output_dir="results")
    flags.define(defaults, values)
    values(["", f"--flagfile={FLAGS}"])
    settings = flags.read(defaults, values)
    _, config, about = load_policy(shipped_policy("job_shop", "sequencing"), SequencingConfig)
    assert config == settings.sequencing
    assert about["training"] == dataclasses.asdict(settings.training)
    assert about["train_settings"] == list(settings.train_settings)
    assert about["epoch_graphs"] == settings.epoch_graphs
    validation = machine_corpora.fresh_graphs(
        settings.validation_settings,
        settings.validation_graphs,
        (machine_corpora.VALIDATION,),
    )
    assert about["validation"] == graphs_fingerprint(validation)


def test_a_run_trains_compares_and_resumes(tmp_path):
    flagfile = f"--flagfile={SMOKE}/sequencing_jssp.flags"
    first = launch("sequencing_jssp.py", flagfile, f"--output_dir={tmp_path}")
    rows = (tmp_path / "results.csv").read_text()
    assert "job_shop 25x10: makespan, gap from the lower bound (1 graphs)" in first
    assert "classic ft: makespan, gap from the best known (1 graphs)" in first
    for label in ("sequencing greedy", "sequencing S(4)", "giffler_thompson S(4)", "critical_path"):
        assert first.count(label) == 2
    assert launch("sequencing_jssp.py", flagfile, f"--output_dir={tmp_path}") == first
    assert (tmp_path / "results.csv").read_text() == rows
