"""REGAL's use of graph structure (section 5.2, figure 8): rounds of message passing, seed by seed.

  python experiments/regal_propagation.py --flagfile=experiments/flags/smoke/regal_propagation.flags

Trains a policy for every number of rounds T, weight of the baseline's loss and seed, and keeps the
best validation improvement of each run, which is that of searches with the training budget. An
interrupted sweep resumes, an interrupted run, too.
"""

from absl import flags

from regal_jax.errors import MissingDependencyError
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.reporting import progress
from regal_jax.studies import flags as config_flags
from regal_jax.studies import launch
from regal_jax.studies.one_shot import ablation_plots, ablation_tables
from regal_jax.studies.regal import experiment, training_sweep
from regal_jax.training.regal import TrainingConfig

_ROUNDS = flags.DEFINE_list("sweep_rounds", ["0", "2", "4", "8", "16", "32"], "T.")
_WEIGHTS = flags.DEFINE_list("sweep_baseline_weights", ["1e-3", "1e-4"], "lambda.")
_SEEDS = flags.DEFINE_integer("sweep_seeds", 20, "Seeds 0, 1, ... of training.", lower_bound=1)
_DATASET = flags.DEFINE_string("dataset", "model_zoo", "model_zoo, synthetic, or a folder.")
_COPIES = flags.DEFINE_integer("copies", 3, "Training graphs with other sizes, of each graph.")
_TRAIN_GRAPHS = flags.DEFINE_integer("train_graphs", 10_000, "Most real ones, before copying.")
_TRAIN_OPS = flags.DEFINE_integer("train_ops", 300, "Largest training graph, in ops.")
_VALIDATION_GRAPHS = flags.DEFINE_integer("validation_graphs", 40, "Most validation graphs.")
_VALIDATE_EVERY = flags.DEFINE_integer("validate_every", 500, "Steps between validations.")
experiment.define_output("results/regal_propagation")
config_flags.define(RegalConfig)
config_flags.define(TrainingConfig)


def main(_) -> None:
    output = experiment.output_dir()
    runs = training_sweep.propagation_runs(
        [int(rounds) for rounds in _ROUNDS.value],
        [float(weight) for weight in _WEIGHTS.value],
        _SEEDS.value,
        regal=config_flags.read(RegalConfig, flags.FLAGS),
        config=config_flags.read(TrainingConfig, flags.FLAGS),
    )
    with progress.bar("runs", len(runs)) as update:
        improvements = training_sweep.train_all(
            runs,
            corpus,
            objective="peak_memory",
            directory=output,
            validate_every=_VALIDATE_EVERY.value,
            on_progress=lambda done, total: update(done),
        )
    by_rounds = training_sweep.values_by_rounds(improvements, runs)
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


def corpus() -> training_sweep.Corpus:
    """What every run trains and validates on."""
    return training_sweep.load_corpus(
        _DATASET.value,
        copies=_COPIES.value,
        train_ops=_TRAIN_OPS.value,
        train_graphs=_TRAIN_GRAPHS.value,
        validation_graphs=_VALIDATION_GRAPHS.value,
    )


if __name__ == "__main__":
    launch.run(main)
