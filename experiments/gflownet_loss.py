"""Losses of GFlowNets (figure 4 of gflownet_robust_scheduling).

  python experiments/gflownet_loss.py --flagfile=experiments/flags/smoke/gflownet_loss.flags

The paper's log-partition variance against trajectory balance, whose log-partition function is a
Topoformer of its own: the average speedup of the schedules that are drawn in training, on
sub-graphs of eight real graphs. Trainings of one seed have the same graphs and temperatures, step
for step. Results are rows of a CSV; an interrupted training resumes.
"""

from dataclasses import dataclass
from typing import get_args

from absl.flags import FLAGS

from regal_jax.datasets import corpora, flow_corpora
from regal_jax.studies import flags, launch
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.gflownet import report, training
from regal_jax.studies.gflownet.settings import Training
from regal_jax.training.gflownet import FlowLoss

PUBLISHED = ("log_partition_variance", "trajectory_balance")
SETTING = "losses"


@dataclass(frozen=True, kw_only=True)
class Settings(Training):
    """Which losses."""

    losses: tuple[str, ...] = flags.option(
        PUBLISHED, "Of training; the first is compared with the others.", least=1
    )
    validation_graphs: int = flags.option(8, "Unseen real graphs to draw schedules of.")


DEFAULTS = Settings(output_dir="results/gflownet_loss")


def main(settings, folder) -> None:
    flags.check_names("losses", settings.losses, get_args(FlowLoss))
    output = folder()
    unseen = corpora.evenly_by_size(flow_corpora.real_graphs("test"), settings.validation_graphs)
    corpus = Corpus("eight real graphs", flow_corpora.real_graphs("train"), unseen)
    variants = {name: {"loss": name} for name in settings.losses}
    files = training.train_variants(corpus, output, variants, settings)
    rows = report.report_variants(files, SETTING, output)
    report.print_pairs(rows, SETTING, settings.losses[0], ["quarter_1", "quarter_4"])


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
