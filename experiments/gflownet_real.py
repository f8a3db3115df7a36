"""Generalisation to unseen real graphs (table 3 of gflownet_robust_scheduling).

  python experiments/gflownet_real.py --flagfile=experiments/flags/smoke/gflownet_real.flags

Policies are trained on sub-graphs of eight real graphs, or with --train_pool of the model zoo's
training graphs, and tested on whole graphs of architectures that training hasn't seen
(``flow_corpora``; the paper's are not public). Means are over the test graphs. Results are rows of
a CSV; an interrupted run resumes, in its training, too.
"""

from absl import flags

from regal_jax import flow_study, launch, study
from regal_jax.datasets import corpora, flow_corpora
from regal_jax.flow_study import Corpus
from regal_jax.reporting import robust_tables

FLAGS = flags.FLAGS
MOST_OPS = 128
"""Of validation graphs: the most that a test graph has."""

flags.DEFINE_boolean("train_pool", False, "Train on all graphs of the zoo that are fit for it.")
flags.DEFINE_integer("validation_graphs", 8, "Graphs to look at during training.")
flags.DEFINE_integer("test_graphs", 16, "Most test graphs, evenly over sizes.")
study.define_output("results/gflownet_real")
flow_study.define_comparison()
flow_study.define_policies(retrain=False)


def main(_) -> None:
    output = study.output_dir()
    test = corpora.evenly_by_size(flow_corpora.real_graphs("test"), FLAGS.test_graphs)
    policies = flow_study.policies(corpus(), output)
    rows = flow_study.compare({"real graphs": test}, policies, output)
    rows = flow_study.chosen(rows, ["real graphs"])
    paper = robust_tables.PAPER_TABLE_3
    flow_study.report(rows, "real graphs", robust_tables.over_graphs, paper)
    flow_study.draw_training(output)


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
