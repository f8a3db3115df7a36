"""What makes one-shot priority sampling learn (appendix H of one_shot_priority_sampling).

  python experiments/one_shot_ablation.py \\
    --flagfile=experiments/flags/smoke/one_shot_ablation.flags

Policies trained alike, but for the cost's baseline and what bounds the logits: "one_shot" is the
paper's method, "one_shot (-)" that of neural_topological_ordering; the other two, ours, have one
change each. Results are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from absl import flags

from regal_jax import launch, one_shot_study, study
from regal_jax.errors import OptionError

FLAGS = flags.FLAGS
GREEDY_BASELINE = {"training": {"baseline": "greedy_rollout"}}
STANDARDISED_LOGITS = {"policy": {"standardised": True}, "training": {"c_logits": 0.0}}
VARIANTS = {
    "one_shot": {},
    "one_shot (-)": {
        "policy": STANDARDISED_LOGITS["policy"],
        "training": GREEDY_BASELINE["training"] | STANDARDISED_LOGITS["training"],
    },
    "greedy baseline": GREEDY_BASELINE,
    "standardised logits": STANDARDISED_LOGITS,
}

flags.DEFINE_list("variants", list(VARIANTS), "Rows of the table.")
study.define_output("results/one_shot_ablation")
one_shot_study.define_settings(["job_shop 25x10"])
one_shot_study.define_sizes()
one_shot_study.define_comparison(methods=["critical_path", "mopnr", "spt"])
one_shot_study.define_training()


def main(_) -> None:
    if unknown := {*FLAGS.variants} - {*VARIANTS}:
        raise OptionError(f"variants: {', '.join(sorted(unknown))}: not of {', '.join(VARIANTS)}")
    output, graphs = study.output_dir(), one_shot_study.test_graphs(FLAGS.settings)
    runs = {}
    for setting, corpus in one_shot_study.corpora(FLAGS.settings).items():
        runs[setting] = one_shot_study.runs(None)
        for name in FLAGS.variants:
            folder = output / f"training_{corpus.name}_{name}".replace(" ", "_")
            policy = one_shot_study.train(corpus, folder, **VARIANTS[name])
            runs[setting] += one_shot_study.learned(name, policy)
    rows = one_shot_study.compare(graphs, runs, output)
    lines = one_shot_study.report(rows, graphs, runs)
    one_shot_study.draw(lines, graphs, runs, output)


if __name__ == "__main__":
    launch.run(main)
