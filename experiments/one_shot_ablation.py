"""What makes one-shot priority sampling learn (appendix H of one_shot_priority_sampling).

  python experiments/one_shot_ablation.py \\
    --flagfile=experiments/flags/smoke/one_shot_ablation.flags

Policies trained alike, but for the cost's baseline and what bounds the logits: "one_shot" is the
paper's method, "one_shot (-)" that of neural_topological_ordering; the other two, ours, have one
change each. Results are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from absl import flags

from regal_jax.errors import OptionError
from regal_jax.studies import launch
from regal_jax.studies.one_shot import experiment as one_shot_experiment
from regal_jax.studies.regal import experiment as regal_experiment

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
regal_experiment.define_output("results/one_shot_ablation")
one_shot_experiment.define_settings(["job_shop 25x10"])
one_shot_experiment.define_sizes()
one_shot_experiment.define_comparison(methods=["critical_path", "mopnr", "spt"])
one_shot_experiment.define_training()


def main(_) -> None:
    if unknown := {*FLAGS.variants} - {*VARIANTS}:
        raise OptionError(f"variants: {', '.join(sorted(unknown))}: not of {', '.join(VARIANTS)}")
    output, graphs = regal_experiment.output_dir(), one_shot_experiment.test_graphs(FLAGS.settings)
    runs = {}
    for setting, corpus in one_shot_experiment.corpora(FLAGS.settings).items():
        runs[setting] = one_shot_experiment.runs(None)
        for name in FLAGS.variants:
            folder = output / f"training_{corpus.name}_{name}".replace(" ", "_")
            policy = one_shot_experiment.train(corpus, folder, **VARIANTS[name])
            runs[setting] += one_shot_experiment.learned(name, policy)
    rows = one_shot_experiment.compare(graphs, runs, output)
    lines = one_shot_experiment.report(rows, graphs, runs)
    one_shot_experiment.draw(lines, graphs, runs, output)


if __name__ == "__main__":
    launch.run(main)
