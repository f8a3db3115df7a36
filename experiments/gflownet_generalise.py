"""Generalisation to unseen random graphs (table 2 of gflownet_robust_scheduling).

  python experiments/gflownet_generalise.py \\
    --flagfile=experiments/flags/smoke/gflownet_generalise.flags

Policies are trained on Erdos-Renyi and layered graphs, and tested on new ones of these and of three
more families (``makespan_graphs``). Means are over the test graphs, all and by family. Results are
rows of a CSV; an interrupted run resumes, in its training, too.
"""

from absl import flags

from regal_jax import flow_study, launch, study
from regal_jax.datasets.makespan_graphs import makespan_graphs
from regal_jax.flow_study import Corpus
from regal_jax.reporting import robust_tables

FLAGS = flags.FLAGS

flags.DEFINE_integer("train_graphs", 1000, "Training graphs.")
flags.DEFINE_integer("validation_graphs", 10, "Graphs to look at during training.")
flags.DEFINE_integer("test_graphs", 50, "Test graphs, in turns of the five families.")
flags.DEFINE_integer("graph_ops", 50, "Ops of each graph.")
study.define_output("results/gflownet_generalise")
flow_study.define_comparison(targets=[])
flow_study.define_policies(retrain=False)


def main(_) -> None:
    output = study.output_dir()
    counts = (FLAGS.train_graphs, FLAGS.validation_graphs, FLAGS.test_graphs)
    train, valid, test = (
        list(makespan_graphs(split, count, FLAGS.graph_ops))
        for split, count in zip(("train", "valid", "test"), counts, strict=True)
    )
    policies = flow_study.policies(Corpus("random graphs", train, valid), output)
    families = list(dict.fromkeys(graph.family for graph in test))
    by_family = {name: [graph for graph in test if graph.family == name] for name in families}
    rows = flow_study.compare(by_family, policies, output)
    every = flow_study.chosen(rows, families, "all families")
    paper = robust_tables.PAPER_TABLE_2
    flow_study.report(every, "all families", robust_tables.over_graphs, paper)
    for family in families:
        own = flow_study.chosen(rows, [family])
        print(robust_tables.text(family, robust_tables.over_graphs(own, family)) + "\n")
    flow_study.draw_training(output)


if __name__ == "__main__":
    launch.run(main)
