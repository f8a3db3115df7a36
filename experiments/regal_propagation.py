"""REGAL's use of graph structure (section 5.2, figure 8): rounds of message passing, seed by seed.

  python experiments/regal_propagation.py --flagfile=experiments/flags/smoke/regal_propagation.flags

Trains a policy for every number of rounds T, weight of the baseline's loss and seed, and keeps the
best validation improvement of each run, which is that of searches with the training budget. An
interrupted sweep resumes, an interrupted run, too.
"""

from absl import flags

from regal_jax import flags as config_flags
from regal_jax import launch, propagation, study
from regal_jax.datasets import corpora
from regal_jax.errors import MissingDependencyError
from regal_jax.policies.regal import RegalConfig
from regal_jax.reporting import ablation_plots, ablation_tables, progress
from regal_jax.training.regal import TrainingConfig

_ROUNDS = flags.DEFINE_list("sweep_rounds", ["0", "2", "4", "8", "16", "32"], "T.")
_WEIGHTS = flags.DEFINE_list("sweep_baseline_weights", ["1e-3", "1e-4"], "lambda.")
_SEEDS = flags.DEFINE_integer("sweep_seeds", 20, "Seeds 0, 1, ... of training.")
_DATASET = flags.DEFINE_string("dataset", "model_zoo", "model_zoo, synthetic, or a folder.")
study.define_output("results/regal_propagation")
study.define_training()

OBJECTIVE = "peak_memory"


def main(_) -> None:
    output, values = study.output_dir(), flags.FLAGS
    runs = propagation.sweep(
        [int(rounds) for rounds in _ROUNDS.value],
        [float(weight) for weight in _WEIGHTS.value],
        _SEEDS.value,
    )
    with progress.bar("runs", len(runs)) as update:
        rows = propagation.train_all(
            runs,
            lambda: training_and_validation_graphs(values),
            objective=OBJECTIVE,
            regal=config_flags.read(RegalConfig, values),
            config=config_flags.read(TrainingConfig, values),
            directory=output,
            validate_every=values.validate_every,
            on_progress=lambda done, total: update(done),
        )
    by_rounds = propagation.values_by_rounds(rows, runs)
    print("best validation improvement over brkga of the training budget, percent")
    print(ablation_tables.spread_table(by_rounds, "T"))
    try:
        ablation_plots.plot_spread(
            by_rounds,
            output / "figure_8.png",
            x_label="rounds of message passing T",
            y_label="best validation improvement [%]",
            title="Rounds of message passing",
        )
    except MissingDependencyError as error:
        print(f"no picture: {error}")


def training_and_validation_graphs(values):
    """What every run trains and validates on."""
    return (
        corpora.training_graphs(
            values.dataset, values.copies, values.train_ops, max_graphs=values.train_graphs
        ),
        corpora.validation_graphs(
            values.dataset, values.train_ops, max_graphs=values.validation_graphs
        ),
    )


if __name__ == "__main__":
    launch.run(main)
