"""When diverse candidates pay where transfers are dear (ours; on table 1 of
gflownet_robust_scheduling).

  python experiments/gflownet_sizes.py --flagfile=experiments/flags/smoke/gflownet_sizes.flags

Candidates are tried on the targets with tensors of other sizes, log-normal of several spreads, new
ones for each seed; the proxy doesn't see sizes. The further they are spread, the fewer tensors take
most of the time of transfers, and the more it matters that some candidate, by chance, has these on
one device. Graphs are that of table 1, or those of table 3 that training hasn't seen. Results are
rows of a CSV; an interrupted run resumes.
"""

from absl.flags import FLAGS

from regal_jax.datasets import flow_corpora
from regal_jax.studies import launch
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.gflownet import comparison, report, sizes, tables, training
from regal_jax.studies.gflownet.sizes import Settings

TARGETS = ("bandwidth",)
DEFAULTS = Settings(output_dir="results/gflownet_sizes", targets=TARGETS)


def main(settings, folder) -> None:
    output, single = folder(), flow_corpora.single_graph()
    graphs, setting, summary = [single], "one graph", tables.over_seeds
    if settings.unseen:
        graphs, setting = flow_corpora.real_graphs("test"), "unseen graphs"
        summary = tables.over_graphs
    sizes.print_shares(graphs, settings.spreads, settings.seeds)  # checks the spreads, first
    policies = training.policies(Corpus(single.name, [single], [single]), output, settings)
    measure = sizes.measure(comparison.trial(settings), settings.spreads)
    rows = comparison.compare({setting: graphs}, policies, output, settings, measure)
    report.report(rows, setting, summary, settings)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
