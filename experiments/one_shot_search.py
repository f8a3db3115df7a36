"""Samples of a policy against searches (appendix G of one_shot_priority_sampling).

  python experiments/one_shot_search.py --flagfile=experiments/flags/smoke/one_shot_search.flags

The genetic search of the paper begins with 256 samples of the policy (``PAPER_GA``).
Beside it stand, at as many schedules generated, its control, which begins with as many samples of
the best rule with noise, a genetic search that begins with nothing, and ours, which begins with the
priority rules and justifies every schedule. Results are rows of a CSV; an interrupted run resumes,
in its training, too.
"""

from dataclasses import dataclass

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.one_shot import comparison, corpora, training
from regal_jax.studies.one_shot.runs import genetic_runs, runs
from regal_jax.studies.one_shot.settings import LEARNED, Genetic, Settings


@dataclass(frozen=True, kw_only=True)
class GeneticSettings(Settings, Genetic):
    """Policies against genetic searches."""


DEFAULTS = GeneticSettings(
    output_dir="results/one_shot_search",
    settings=("job_shop 25x10",),
    methods=(LEARNED, "critical_path"),
)


def main(settings, folder) -> None:
    output, graphs = folder(), corpora.test_graphs(settings)
    policies = training.policies(corpora.corpora(settings), output, settings)
    by_setting = {
        setting: runs(policies.get(setting), settings) + genetic_runs(policies, setting, settings)
        for setting in graphs
    }
    rows = comparison.compare(graphs, by_setting, output, settings)
    comparison.report(rows, graphs, by_setting)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
