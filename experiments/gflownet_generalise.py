"""Generalisation to unseen random graphs (table 2 of gflownet_robust_scheduling).

  python experiments/gflownet_generalise.py \\
    --flagfile=experiments/flags/smoke/gflownet_generalise.flags

Policies are trained on Erdos-Renyi and layered graphs, and tested on new ones of these and of three
more families (``makespan_graphs``). Means are over the test graphs, all and by family. Results are
rows of a CSV; an interrupted run resumes, in its training, too.
"""

from dataclasses import dataclass

from absl.flags import FLAGS

from regal_jax.datasets.makespan_graphs import makespan_graphs
from regal_jax.studies import flags, launch
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.gflownet import comparison, report, tables, training
from regal_jax.studies.gflownet.settings import Comparison


@dataclass(frozen=True, kw_only=True)
class Settings(Comparison):
    """Which random graphs."""

    train_graphs: int = flags.option(1000, "Training graphs.")
    validation_graphs: int = flags.option(10, "Graphs to look at during training.")
    test_graphs: int = flags.option(50, "Test graphs, in turns of the five families.")
    graph_ops: int = flags.option(50, "Ops of each graph.")


DEFAULTS = Settings(output_dir="results/gflownet_generalise", targets=())


def main(settings, folder) -> None:
    output = folder()
    train = list(makespan_graphs("train", settings.train_graphs, settings.graph_ops))
    valid = list(makespan_graphs("valid", settings.validation_graphs, settings.graph_ops))
    test = list(makespan_graphs("test", settings.test_graphs, settings.graph_ops))
    policies = training.policies(Corpus("random graphs", train, valid), output, settings)
    families = list(dict.fromkeys(graph.family for graph in test))
    by_family = {name: [graph for graph in test if graph.family == name] for name in families}
    rows = comparison.compare(by_family, policies, output, settings)
    report.report_families(rows, families, settings, tables.PAPER_TABLE_2)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
