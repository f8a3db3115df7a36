"""What a comparison runs, and on what: budgets, targets, rows by their settings."""

import pytest

from regal_jax.environments.execution.targets import TargetModel
from regal_jax.errors import OptionError
from regal_jax.studies.comparison.candidates import Search
from regal_jax.studies.gflownet import comparison
from regal_jax.studies.gflownet.settings import Comparison
from regal_jax.training.gflownet import FlowTraining
from regal_jax.training.ppo import PPOTraining


def test_a_method_may_have_a_budget_of_its_own():
    settings = Comparison(
        methods=("brkga", "brkga 900", "list_sampling 7", "gflownet", "ppo", "brkga 900 trials"),
        samples=40,
        evaluations=600,
        training=FlowTraining(test_temperature=0.02),
        ppo=PPOTraining(temperature=0.5),
    )
    assert comparison.searches(settings) == [
        Search("brkga", "brkga", 40, 600),
        Search("brkga 900", "brkga", 900, 900),
        Search("list_sampling 7", "list_sampling", 7, 7),
        Search("gflownet", "gflownet", 40, 600, 0.02),
        Search("ppo", "ppo", 40, 600, 0.5),
        Search("brkga 900 trials", "brkga", 900, 900, trials=True),
    ]


@pytest.mark.parametrize("label", ["auto", "brkga x", "brkga -5", "", "brkga 5 6", "trials"])
def test_what_is_no_sampler_is_told(label):
    with pytest.raises(OptionError, match=r"methods: .* is none of critical_path, brkga"):
        comparison.searches(Comparison(methods=(label,)))


def test_targets_are_read_by_name_and_names_are_unique(tmp_path):
    for stem in ("one", "two", "ged"):
        (tmp_path / f"{stem}.toml").write_text("[transfers]\nlatency = 1\n")
    one, two, ged = (str(tmp_path / f"{stem}.toml") for stem in ("one", "two", "ged"))
    assert comparison.target_models([one, two]) == {
        name: TargetModel(name=name, latency=1) for name in ("one", "two")
    }
    for some in ([one, two, one], [one, ged]):
        with pytest.raises(OptionError, match=r"targets: the name '(one|ged)' is taken"):
            comparison.target_models(some)


def test_rows_are_chosen_by_methods_and_may_be_put_together():
    rows = [
        {"setting": setting, "method": method}
        for setting in ("a", "b", "c")
        for method in ("brkga", "gflownet", "ppo")
    ]
    assert comparison.chosen(rows, ["a", "c"], ["ppo", "brkga"], "all") == [
        *({"setting": "all", "method": "ppo"},) * 2,
        *({"setting": "all", "method": "brkga"},) * 2,
    ]
