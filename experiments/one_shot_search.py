"""Samples of a policy against searches (appendix G of one_shot_priority_sampling).

  python experiments/one_shot_search.py --flagfile=experiments/flags/smoke/one_shot_search.flags

The genetic search of the paper begins with 256 samples of the policy (``machine_search.PAPER_GA``).
Beside it stand, at as many schedules generated, a genetic search that begins with nothing, and
ours, which begins with the priority rules and justifies every schedule. Results are rows of a CSV;
an interrupted run resumes, in its training, too.
"""

from absl import flags

from regal_jax import launch, one_shot_study, study
from regal_jax.one_shot_study import LEARNED

FLAGS = flags.FLAGS

study.define_output("results/one_shot_search")
one_shot_study.define_settings(["job_shop 25x10"])
one_shot_study.define_sizes()
one_shot_study.define_comparison(methods=[LEARNED, "critical_path"])
one_shot_study.define_genetic()
one_shot_study.define_policy()
one_shot_study.define_training()


def main(_) -> None:
    output = study.output_dir()
    graphs = one_shot_study.test_graphs(FLAGS.settings)
    policies = one_shot_study.policies(one_shot_study.corpora(FLAGS.settings), output)
    runs = {}
    for setting in graphs:
        runs[setting] = one_shot_study.runs(policies.get(setting))
        if setting in policies:
            begun = {"policy": policies[setting], "decoding": "brkga"}
            runs[setting].append(one_shot_study.genetic(f"{LEARNED} brkga", LEARNED, begun))
        runs[setting] += [
            one_shot_study.genetic(method, method, {}) for method in ("brkga", "justification")
        ]
    rows = one_shot_study.compare(graphs, runs, output)
    lines = one_shot_study.report(rows, graphs, runs)
    one_shot_study.draw(lines, graphs, runs, output)


if __name__ == "__main__":
    launch.run(main)
