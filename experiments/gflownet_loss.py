"""Losses of GFlowNets (figure 4 of gflownet_robust_scheduling).

  python experiments/gflownet_loss.py --flagfile=experiments/flags/smoke/gflownet_loss.flags

The paper's log-partition variance against trajectory balance, whose log-partition function is a
Topoformer of its own, and detailed balance (ours): the average speedup of the schedules that are
drawn in training, on sub-graphs of eight real graphs. Trainings of one seed have the same graphs
and temperatures, step for step. Results are rows of a CSV; an interrupted training resumes.
"""

from typing import get_args

from absl import flags

from regal_jax import flow_study, launch, study
from regal_jax.datasets import corpora, flow_corpora
from regal_jax.errors import OptionError
from regal_jax.flow_study import Corpus
from regal_jax.reporting import figures, robust_plots
from regal_jax.training.gflownet import FlowLoss

FLAGS = flags.FLAGS
LOSSES = get_args(FlowLoss)
SETTING = "losses"

flags.DEFINE_list("losses", list(LOSSES), "Of training; the first is compared with the others.")
flags.DEFINE_integer("validation_graphs", 8, "Unseen real graphs to draw schedules of.")
study.define_output("results/gflownet_loss")
flow_study.define_seeds()
flow_study.define_training()


def main(_) -> None:
    if unknown := {*FLAGS.losses} - {*LOSSES}:
        raise OptionError(f"losses: {', '.join(sorted(unknown))}: not of {', '.join(LOSSES)}")
    output = study.output_dir()
    unseen = corpora.evenly_by_size(flow_corpora.real_graphs("test"), FLAGS.validation_graphs)
    corpus = Corpus("eight real graphs", flow_corpora.real_graphs("train"), unseen)
    files = flow_study.train_variants(
        corpus, output, {name: {"loss": name} for name in FLAGS.losses}
    )
    rows = flow_study.report_variants(files, SETTING, output)
    flow_study.print_pairs(rows, SETTING, FLAGS.losses[0], ["quarter_1", "quarter_4"])
    draw = robust_plots.plot_training_speedup
    figures.drawn(draw, flow_study.curves(files), output / "figure_4.png")


if __name__ == "__main__":
    launch.run(main)
