"""Samples of a policy against searches (appendix G of one_shot_priority_sampling).

  python experiments/one_shot_search.py --flagfile=experiments/flags/smoke/one_shot_search.flags

The genetic search of the paper begins with 256 samples of the policy (``machine_search.PAPER_GA``).
Beside it stand, at as many schedules generated, a genetic search that begins with nothing, and
ours, which begins with the priority rules and justifies every schedule. Results are rows of a CSV;
an interrupted run resumes, in its training, too.
"""

from absl import flags

from regal_jax.studies import launch
from regal_jax.studies.one_shot import experiment as one_shot_experiment
from regal_jax.studies.one_shot.experiment import LEARNED
from regal_jax.studies.regal import experiment as regal_experiment

FLAGS = flags.FLAGS

regal_experiment.define_output("results/one_shot_search")
one_shot_experiment.define_settings(["job_shop 25x10"])
one_shot_experiment.define_sizes()
one_shot_experiment.define_comparison(methods=[LEARNED, "critical_path"])
one_shot_experiment.define_genetic()
one_shot_experiment.define_policy()
one_shot_experiment.define_training()


def main(_) -> None:
    output = regal_experiment.output_dir()
    graphs = one_shot_experiment.test_graphs(FLAGS.settings)
    policies = one_shot_experiment.policies(one_shot_experiment.corpora(FLAGS.settings), output)
    runs = {}
    for setting in graphs:
        runs[setting] = one_shot_experiment.runs(policies.get(setting))
        if setting in policies:
            begun = {"policy": policies[setting], "decoding": "brkga"}
            runs[setting].append(one_shot_experiment.genetic(f"{LEARNED} brkga", LEARNED, begun))
        runs[setting] += [
            one_shot_experiment.genetic(method, method, {}) for method in ("brkga", "justification")
        ]
    rows = one_shot_experiment.compare(graphs, runs, output)
    lines = one_shot_experiment.report(rows, graphs, runs)
    one_shot_experiment.draw(lines, graphs, runs, output)


if __name__ == "__main__":
    launch.run(main)
