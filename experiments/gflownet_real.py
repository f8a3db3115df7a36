"""Generalisation to unseen real graphs (table 3 of gflownet_robust_scheduling).

  python experiments/gflownet_real.py --flagfile=experiments/flags/smoke/gflownet_real.flags

Policies are trained on sub-graphs of eight real graphs, or with --train_pool of the model zoo's
training graphs, and tested on whole graphs of architectures that training hasn't seen
(``flow_corpora``; the paper's are not public). Means are over the test graphs. Results are rows of
a CSV; an interrupted run resumes, in its training, too.
"""

from dataclasses import dataclass

from absl.flags import FLAGS

from regal_jax.datasets import corpora, flow_corpora
from regal_jax.studies import flags, launch
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.gflownet import comparison, report, tables, training
from regal_jax.studies.gflownet.settings import Comparison

MOST_OPS = 128
"""Of validation graphs: the most that a test graph has. They are of families that neither training
nor testing has."""


@dataclass(frozen=True, kw_only=True)
class Settings(Comparison):
    """Which real graphs."""

    train_pool: bool = flags.option(False, "Train on all graphs of the zoo that are fit for it.")
    validation_graphs: int = flags.option(8, "Graphs to look at during training.")
    test_graphs: int = flags.option(16, "Most test graphs, evenly over sizes.")
    test_pool: bool = flags.option(False, "Test on all graphs of the zoo that are fit for it.")


DEFAULTS = Settings(output_dir="results/gflownet_real")


def main(settings, folder) -> None:
    output = folder()
    if settings.test_pool:
        test = flow_corpora.training_pool("test", max_ops=MOST_OPS)
    else:
        test = flow_corpora.real_graphs("test")
    test = corpora.evenly_by_size(test, settings.test_graphs)
    valid = flow_corpora.training_pool("valid", max_ops=MOST_OPS)
    valid = corpora.evenly_by_size(valid, settings.validation_graphs)
    if settings.train_pool:
        corpus = Corpus("the model zoo", flow_corpora.training_pool(), valid)
    else:
        corpus = Corpus("eight real graphs", flow_corpora.real_graphs("train"), valid)
    policies = training.policies(corpus, output, settings)
    rows = comparison.compare({"real graphs": test}, policies, output, settings)
    report.report(rows, "real graphs", tables.over_graphs, settings, tables.PAPER_TABLE_3)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
