"""How near GFlowNets are to the distribution that they are trained for, by temperature.

  python experiments/gflownet_convergence.py \\
    --flagfile=experiments/flags/smoke/gflownet_convergence.flags

GFlowNets are trained on small random graphs, and held against the exact distribution of the reward
on unseen ones, whose schedules can be listed; --policy against its own weights on real graphs,
whose schedules can't. Results are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from absl.flags import FLAGS

from regal_jax.datasets import corpora, flow_corpora
from regal_jax.studies import launch
from regal_jax.studies.gflownet import convergence
from regal_jax.studies.gflownet.convergence import REAL, SMALL, Settings

DEFAULTS = Settings(output_dir="results/gflownet_convergence")


def main(settings, folder) -> None:
    output = folder()
    corpus, rows = convergence.random_graphs(settings), []
    convergence.check(corpus.validation, settings)
    if settings.test_graphs:
        small = convergence.small_policies(corpus, output, settings)
        rows += convergence.compare(SMALL, corpus.validation, small, output, settings)
    real = corpora.evenly_by_size(flow_corpora.real_graphs("test"), settings.real_graphs)
    rows += convergence.compare(REAL, real, convergence.real_policies(settings), output, settings)
    print(convergence.page(rows))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
