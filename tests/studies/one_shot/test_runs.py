"""Runs of one-shot priority sampling's tables: labels, budgets, options."""

from regal_jax.studies.one_shot import runs
from regal_jax.studies.one_shot.settings import Comparison


def test_a_generation_behind_a_method_is_an_option_of_its_runs():
    methods = ("noisy_rule", "noisy_rule backwards", "spt serial", "justification")
    found = runs.runs(None, Comparison(methods=methods, test_samples=(4,), search_evaluations=50))
    labels = {run.label: (run.method, run.evaluations, run.options) for run in found}
    greedy, drawn = ({"policy": None, "decoding": how} for how in ("greedy", "sample"))
    backwards = {"generation": "backwards"}
    assert labels == {
        "noisy_rule greedy": ("noisy_rule", 1, greedy),
        "noisy_rule S(4)": ("noisy_rule", 4, drawn),
        "noisy_rule backwards greedy": ("noisy_rule", 1, greedy | backwards),
        "noisy_rule backwards S(4)": ("noisy_rule", 4, drawn | backwards),
        "spt serial": ("spt", 1, {"generation": "serial"}),
        "justification 50": ("justification", 50, {}),
    }
