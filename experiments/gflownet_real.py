"""Generalisation to unseen real graphs (table 3 of gflownet_robust_scheduling).

  python experiments/gflownet_real.py --flagfile=experiments/flags/smoke/gflownet_real.flags

Policies are trained on sub-graphs of eight real graphs, or with --train_pool of the model zoo's
training graphs, and tested on whole graphs of architectures that training hasn't seen
(``flow_corpora``; the paper's are not public). Means are over the test graphs. Results are rows of
a CSV; an interrupted run resumes, in its training, too.
"""

from absl import flags

from regal_jax.datasets import corpora, flow_corpora
from regal_jax.studies import launch
from regal_jax.studies.gflownet import experiment as gflownet_experiment
from regal_jax.studies.gflownet import tables
from regal_jax.studies.gflownet.experiment import Corpus
from regal_jax.studies.regal import experiment as regal_experiment

FLAGS = flags.FLAGS
MOST_OPS = 128
"""Of validation graphs: the most that a test graph has."""

flags.DEFINE_boolean("train_pool", False, "Train on all graphs of the zoo that are fit for it.")
flags.DEFINE_integer("validation_graphs", 8, "Graphs to look at during training.")
flags.DEFINE_integer("test_graphs", 16, "Most test graphs, evenly over sizes.")
regal_experiment.define_output("results/gflownet_real")
gflownet_experiment.define_comparison()
gflownet_experiment.define_policies(retrain=False)


def main(_) -> None:
    output = regal_experiment.output_dir()
    test = corpora.evenly_by_size(flow_corpora.real_graphs("test"), FLAGS.test_graphs)
    policies = gflownet_experiment.policies(corpus(), output)
    rows = gflownet_experiment.compare({"real graphs": test}, policies, output)
    rows = gflownet_experiment.chosen(rows, ["real graphs"])
    paper = tables.PAPER_TABLE_3
    gflownet_experiment.report(rows, "real graphs", tables.over_graphs, paper)
    gflownet_experiment.draw_training(output)


def corpus() -> Corpus:
    """What policies are trained on; validation graphs are of families that neither training nor
    testing has."""
    valid = flow_corpora.training_pool("valid", max_ops=MOST_OPS)
    valid = corpora.evenly_by_size(valid, FLAGS.validation_graphs)
    if FLAGS.train_pool:
        return Corpus("the model zoo", flow_corpora.training_pool(), valid)
    return Corpus("eight real graphs", flow_corpora.real_graphs("train"), valid)


if __name__ == "__main__":
    launch.run(main)
