"""Losses of GFlowNets (figure 4 of gflownet_robust_scheduling).

  python experiments/gflownet_loss.py --flagfile=experiments/flags/smoke/gflownet_loss.flags

The paper's log-partition variance against trajectory balance, whose log-partition function is a
Topoformer of its own, and detailed balance (ours): the average speedup of the schedules that are
drawn in training, on sub-graphs of eight real graphs. Trainings of one seed have the same graphs
and temperatures, step for step. Results are rows of a CSV; an interrupted training resumes.
"""

from typing import get_args

from absl import flags

from regal_jax.datasets import corpora, flow_corpora
from regal_jax.errors import OptionError
from regal_jax.reporting import figures
from regal_jax.studies import launch
from regal_jax.studies.gflownet import experiment as gflownet_experiment
from regal_jax.studies.gflownet import plots
from regal_jax.studies.gflownet.experiment import Corpus
from regal_jax.studies.regal import experiment as regal_experiment
from regal_jax.training.gflownet import FlowLoss

FLAGS = flags.FLAGS
LOSSES = get_args(FlowLoss)
SETTING = "losses"

flags.DEFINE_list("losses", list(LOSSES), "Of training; the first is compared with the others.")
flags.DEFINE_integer("validation_graphs", 8, "Unseen real graphs to draw schedules of.")
regal_experiment.define_output("results/gflownet_loss")
gflownet_experiment.define_seeds()
gflownet_experiment.define_training()


def main(_) -> None:
    if unknown := {*FLAGS.losses} - {*LOSSES}:
        raise OptionError(f"losses: {', '.join(sorted(unknown))}: not of {', '.join(LOSSES)}")
    output = regal_experiment.output_dir()
    unseen = corpora.evenly_by_size(flow_corpora.real_graphs("test"), FLAGS.validation_graphs)
    corpus = Corpus("eight real graphs", flow_corpora.real_graphs("train"), unseen)
    files = gflownet_experiment.train_variants(
        corpus, output, {name: {"loss": name} for name in FLAGS.losses}
    )
    rows = gflownet_experiment.report_variants(files, SETTING, output)
    gflownet_experiment.print_pairs(rows, SETTING, FLAGS.losses[0], ["quarter_1", "quarter_4"])
    draw = plots.plot_training_speedup
    figures.drawn(draw, gflownet_experiment.curves(files), output / "figure_4.png")


if __name__ == "__main__":
    launch.run(main)
