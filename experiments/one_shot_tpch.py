"""One-shot priority sampling on TPC-H (table 2 of one_shot_priority_sampling).

  python experiments/one_shot_tpch.py --data_dir=data/tpch \\
    --flagfile=experiments/flags/smoke/one_shot_tpch.flags

Plans of 50, 100 or 150 queries on 6,000 units, from the files that ``datasets.tpch`` describes: 50
graphs of each to train on, or new ones of single queries (--train_instances=fresh), and 10 to test
on. Makespans are in ms. Our copy of the paper lacks its tables of results; the published numbers
beside ours are PPO-BiHyb's (``machine_tables.PUBLISHED_TPCH``). Results are rows of a CSV; an
interrupted run resumes, in its training, too.
"""

from absl import flags

from regal_jax.studies import launch
from regal_jax.studies.one_shot import experiment as one_shot_experiment
from regal_jax.studies.one_shot.tables import PUBLISHED_TPCH
from regal_jax.studies.regal import experiment as regal_experiment

FLAGS = flags.FLAGS
NOTE = """published: PPO-BiHyb's, who count used capacity in floating-point shares, by whose
rounding ops that fit exactly may not fit; ours are exact integers (and ties go to the lower op
index, not the higher), so that rules differ, too"""

regal_experiment.define_output("results/one_shot_tpch")
one_shot_experiment.define_settings(["tpch 50", "tpch 100", "tpch 150"])
one_shot_experiment.define_sizes()
one_shot_experiment.define_comparison(methods=[*one_shot_experiment.METHODS, "tetris"])
one_shot_experiment.define_policy()
one_shot_experiment.define_training()


def main(_) -> None:
    output = regal_experiment.output_dir()
    graphs = one_shot_experiment.test_graphs(FLAGS.settings)
    policies = one_shot_experiment.policies(one_shot_experiment.corpora(FLAGS.settings), output)
    runs = {setting: one_shot_experiment.runs(policies.get(setting)) for setting in graphs}
    rows = one_shot_experiment.compare(graphs, runs, output)
    lines = one_shot_experiment.report(rows, graphs, runs, published=PUBLISHED_TPCH)
    print(NOTE)
    one_shot_experiment.draw(lines, graphs, runs, output)


if __name__ == "__main__":
    launch.run(main)
