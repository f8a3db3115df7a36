"""What makes one-shot priority sampling learn (appendix H of one_shot_priority_sampling).

  python experiments/one_shot_ablation.py \\
    --flagfile=experiments/flags/smoke/one_shot_ablation.flags

Policies trained alike, but for the cost's baseline and what bounds the logits: "one_shot" is the
paper's method, "one_shot (-)" that of neural_topological_ordering; the other two, ours, have one
change each. Results are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from absl.flags import FLAGS

from regal_jax.studies import flags, launch
from regal_jax.studies.one_shot import ablation, comparison, corpora
from regal_jax.studies.one_shot.ablation import Settings

DEFAULTS = Settings(
    output_dir="results/one_shot_ablation",
    settings=("job_shop 25x10",),
    methods=("critical_path", "mopnr", "spt"),
)


def main(settings, folder) -> None:
    flags.check_names("variants", settings.variants, ablation.VARIANTS)
    output, graphs = folder(), corpora.test_graphs(settings)
    runs = ablation.variant_runs(settings, output)
    rows = comparison.compare(graphs, runs, output, settings)
    comparison.report(rows, graphs, runs)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
