"""Generalisation to unseen random graphs (table 2 of gflownet_robust_scheduling).

  python experiments/gflownet_generalise.py \\
    --flagfile=experiments/flags/smoke/gflownet_generalise.flags

Policies are trained on Erdos-Renyi and layered graphs, and tested on new ones of these and of three
more families (``makespan_graphs``). Means are over the test graphs, all and by family. Results are
rows of a CSV; an interrupted run resumes, in its training, too.
"""

from absl import flags

from regal_jax.datasets.makespan_graphs import makespan_graphs
from regal_jax.studies import launch
from regal_jax.studies.gflownet import experiment as gflownet_experiment
from regal_jax.studies.gflownet import tables
from regal_jax.studies.gflownet.experiment import Corpus
from regal_jax.studies.regal import experiment as regal_experiment

FLAGS = flags.FLAGS

flags.DEFINE_integer("train_graphs", 1000, "Training graphs.")
flags.DEFINE_integer("validation_graphs", 10, "Graphs to look at during training.")
flags.DEFINE_integer("test_graphs", 50, "Test graphs, in turns of the five families.")
flags.DEFINE_integer("graph_ops", 50, "Ops of each graph.")
regal_experiment.define_output("results/gflownet_generalise")
gflownet_experiment.define_comparison(targets=[])
gflownet_experiment.define_policies(retrain=False)


def main(_) -> None:
    output = regal_experiment.output_dir()
    counts = (FLAGS.train_graphs, FLAGS.validation_graphs, FLAGS.test_graphs)
    train, valid, test = (
        list(makespan_graphs(split, count, FLAGS.graph_ops))
        for split, count in zip(("train", "valid", "test"), counts, strict=True)
    )
    policies = gflownet_experiment.policies(Corpus("random graphs", train, valid), output)
    families = list(dict.fromkeys(graph.family for graph in test))
    by_family = {name: [graph for graph in test if graph.family == name] for name in families}
    rows = gflownet_experiment.compare(by_family, policies, output)
    every = gflownet_experiment.chosen(rows, families, "all families")
    paper = tables.PAPER_TABLE_2
    gflownet_experiment.report(every, "all families", tables.over_graphs, paper)
    for family in families:
        own = gflownet_experiment.chosen(rows, [family])
        print(tables.text(family, tables.over_graphs(own, family)) + "\n")
    gflownet_experiment.draw_training(output)


if __name__ == "__main__":
    launch.run(main)
