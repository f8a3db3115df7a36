"""One-shot priority sampling on job shops (tables 1, 5 and 6 of one_shot_priority_sampling).

  python experiments/one_shot_jssp.py --flagfile=experiments/flags/smoke/one_shot_jssp.flags

Uniform job shops of 25 or 50 jobs on 10, 20 or 30 machines: 100 of each size to train on, or new
ones (--train_instances=fresh), and 50 to test on. With --classic the tests are the literature's
instances, by family, and gaps are from the best known makespans; policies are trained on fresh
job shops of --train_settings. Our copy of the paper lacks its tables of results, so that none of
its numbers stand beside ours. Results are rows of a CSV; an interrupted run resumes, in its
training, too.
"""

from absl import flags

from regal_jax.datasets import job_shop
from regal_jax.datasets.task_graphs import Bounds
from regal_jax.studies import launch
from regal_jax.studies.one_shot import experiment as one_shot_experiment
from regal_jax.studies.regal import experiment as regal_experiment

FLAGS = flags.FLAGS
SIZES = ("25x10", "25x20", "25x30", "50x10", "50x20", "50x30")

flags.DEFINE_boolean("classic", False, "Test on the literature's job shops.")
flags.DEFINE_list("families", ["ft", "la", "abz", "orb", "yn", "swv", "ta", "dmu"], "Of them.")
regal_experiment.define_output("results/one_shot_jssp")
one_shot_experiment.define_settings([f"job_shop {size}" for size in SIZES])
one_shot_experiment.define_sizes()
one_shot_experiment.define_comparison()
one_shot_experiment.define_policy()
one_shot_experiment.define_training()


def main(_) -> None:
    output, bounds, best_known = regal_experiment.output_dir(), {}, None
    if FLAGS.classic:
        known = job_shop.classic_bounds()
        bounds = {name: Bounds(b["lower_bound"], b["upper_bound"]) for name, b in known.items()}
        best_known = {name: bound.upper for name, bound in bounds.items()}
        graphs = {
            f"classic {family}": job_shop.classic_job_shops(family)[: FLAGS.test_graphs]
            for family in FLAGS.families
        }
        fresh = one_shot_experiment.fresh_corpus(FLAGS.train_settings or FLAGS.settings)
        corpora = dict.fromkeys(graphs, fresh)
    else:
        graphs = one_shot_experiment.test_graphs(FLAGS.settings)
        corpora = one_shot_experiment.corpora(FLAGS.settings)
    policies = one_shot_experiment.policies(corpora, output)
    runs = {setting: one_shot_experiment.runs(policies.get(setting)) for setting in graphs}
    rows = one_shot_experiment.compare(graphs, runs, output, bounds)
    lines = one_shot_experiment.report(rows, graphs, runs, best_known=best_known)
    one_shot_experiment.draw(lines, graphs, runs, output, best_known=best_known)


if __name__ == "__main__":
    launch.run(main)
