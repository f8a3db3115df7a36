"""REGAL on peak memory: train or load a policy, compare it on unseen graphs (table 1, fig. 4, 5).

  python experiments/regal_memory.py --flagfile=experiments/flags/smoke/regal_memory.flags

--dataset is model_zoo (the package's real graphs, split by architecture family), synthetic (REGAL's
recipe) or a folder of graph files. Results are rows of a CSV; an interrupted run resumes.
"""

from pathlib import Path

from absl import flags

from regal_jax import evaluation, launch
from regal_jax import flags as config_flags
from regal_jax.datasets import corpora
from regal_jax.policies.regal import RegalConfig
from regal_jax.reporting import paper_tables, progress
from regal_jax.training.pipeline import train_regal
from regal_jax.training.regal import TrainingConfig

_DATASET = flags.DEFINE_string("dataset", "model_zoo", "model_zoo, synthetic, or a folder.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "results/regal_memory", "Where results go.")
_POLICY = flags.DEFINE_string("policy", None, "Policy file to load; trains one if not given.")
_INITIAL_POLICY = flags.DEFINE_string("initial_policy", None, "Policy file to train on from.")
_COPIES = flags.DEFINE_integer("copies", 3, "Training graphs with other sizes, of each graph.")
_TRAIN_OPS = flags.DEFINE_integer("train_ops", 300, "Largest training graph, in ops.")
_TEST_OPS = flags.DEFINE_integer("test_ops", 100_000, "Largest test graph in ops, after splitting.")
_TEST_GRAPHS = flags.DEFINE_integer("test_graphs", 1000, "Most test graphs.")
_MICROBATCHES = flags.DEFINE_list("microbatches", ["1", "4"], "Splits of the test graphs.")
_VALIDATE_EVERY = flags.DEFINE_integer("validate_every", 500, "Steps between validations.")
_TEST_EVALUATIONS = flags.DEFINE_integer("test_evaluations", 5000, "Budget of each search.")
_LONG_EVALUATIONS = flags.DEFINE_integer("long_evaluations", 0, "Budget of long BRKGA; 0 for none.")
_SEEDS = flags.DEFINE_integer("seeds", 5, "Seeds of each search.")
_METHODS = flags.DEFINE_list(
    "methods", ["brkga", "regal", "random_search", "depth_first", "breadth_first"], "What to run."
)
config_flags.define(RegalConfig)
config_flags.define(TrainingConfig)


def main(_) -> None:
    output = Path(_OUTPUT_DIR.value)
    regal = config_flags.read(RegalConfig, flags.FLAGS)
    training = config_flags.read(TrainingConfig, flags.FLAGS)
    output.mkdir(parents=True, exist_ok=True)
    (output / "config.flags").write_text(flags.FLAGS.flags_into_string())
    policy = _POLICY.value
    if policy is None:
        policy = train_regal(
            corpora.training_graphs(_DATASET.value, _COPIES.value, _TRAIN_OPS.value),
            corpora.validation_graphs(_DATASET.value, _TRAIN_OPS.value),
            objective="peak_memory",
            regal=regal,
            config=training,
            directory=output / "training",
            validate_every=_VALIDATE_EVERY.value,
            initial_policy=_INITIAL_POLICY.value,
        )
    settings = corpora.test_settings(
        _DATASET.value,
        microbatches=[int(k) for k in _MICROBATCHES.value],
        max_ops=_TEST_OPS.value,
        max_graphs=_TEST_GRAPHS.value,
    )
    runs = paper_tables.regal_runs(_METHODS.value, _TEST_EVALUATIONS.value, _LONG_EVALUATIONS.value)
    with progress.bar("searches", 1) as update:
        rows = evaluation.compare(
            settings,
            runs,
            seeds=_SEEDS.value,
            path=output / "results.csv",
            num_devices=regal.num_devices,
            policy=policy,
            on_progress=update,
        )
    print(paper_tables.regal_report(rows, runs, output))


if __name__ == "__main__":
    launch.run(main)
