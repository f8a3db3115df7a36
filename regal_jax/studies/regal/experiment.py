"""What the launchers of REGAL's experiments share: flags, test graphs, a policy, a comparison.

A launcher calls the ``define_*`` functions it needs at import, and the others in its main.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from absl import flags

from regal_jax.datasets import corpora
from regal_jax.environments.schedule import Objective
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.reporting import progress
from regal_jax.studies import flags as config_flags
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import Run
from regal_jax.training.regal import TrainingConfig, train_regal

FLAGS = flags.FLAGS


def define_output(default: str) -> None:
    """--output_dir."""
    flags.DEFINE_string("output_dir", default, "Where results go.")


def define_graphs(*, microbatches: Sequence[int] = (1, 4)) -> None:
    """Which graphs to test on."""
    flags.DEFINE_string("dataset", "model_zoo", "model_zoo, synthetic, or a folder.")
    flags.DEFINE_integer("test_ops", 100_000, "Largest test graph in ops, after splitting.")
    flags.DEFINE_integer("test_graphs", 10_000, "Most test graphs, evenly over sizes.")
    flags.DEFINE_list("microbatches", [str(k) for k in microbatches], "Splits of the test graphs.")


def define_searches(*, methods: Sequence[str], seeds: int = 5) -> None:
    """What to run on them, on which platform."""
    flags.DEFINE_list("methods", list(methods), "What to run.")
    flags.DEFINE_integer("test_evaluations", 5000, "Budget of each search.")
    flags.DEFINE_integer("seeds", seeds, "Seeds of each search.")
    flags.DEFINE_float("time_limit", None, "Seconds of a search, for methods without evaluations.")
    flags.DEFINE_float("latency", 0.0, "us of a tensor that crosses devices.")
    flags.DEFINE_float("per_byte", 0.0, "us per byte that crosses devices.")
    flags.DEFINE_float(
        "memory_share",
        None,
        "Memory of a device, as a share of the best simple peak on one device.",
    )


def define_training() -> None:
    """How a policy is made, if none is given."""
    flags.DEFINE_string("policy", None, "Policy file to load, or 'shipped'; else one is trained.")
    flags.DEFINE_string("initial_policy", None, "Policy file to train on from.")
    flags.DEFINE_integer("imitation_steps", 0, "Steps of imitation before REINFORCE.")
    flags.DEFINE_integer("copies", 3, "Training graphs with other sizes, of each graph.")
    flags.DEFINE_integer("train_graphs", 10_000, "Most real training graphs, before copying.")
    flags.DEFINE_integer("train_ops", 300, "Largest training graph, in ops.")
    flags.DEFINE_integer("validation_graphs", 40, "Most validation graphs.")
    flags.DEFINE_integer("validate_every", 500, "Steps between validations.")
    config_flags.define(RegalConfig)
    config_flags.define(TrainingConfig)


def output_dir() -> Path:
    """--output_dir, made if need be, with the flags of this run in ``config.flags``."""
    folder = Path(FLAGS.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.flags").write_text(FLAGS.flags_into_string())
    return folder


def policy(
    objective: Objective, folder: Path, *, regal: RegalConfig | None = None
) -> str | Path | None:
    """The policy file to test: --policy, the shipped one (None), or one trained in ``folder``."""
    if FLAGS.policy is not None:
        return None if FLAGS.policy == "shipped" else FLAGS.policy
    return train_regal(
        corpora.training_graphs(
            FLAGS.dataset, FLAGS.copies, FLAGS.train_ops, max_graphs=FLAGS.train_graphs
        ),
        corpora.validation_graphs(
            FLAGS.dataset, FLAGS.train_ops, max_graphs=FLAGS.validation_graphs
        ),
        objective=objective,
        regal=regal or config_flags.read(RegalConfig, FLAGS),
        config=config_flags.read(TrainingConfig, FLAGS),
        directory=folder / "training",
        validate_every=FLAGS.validate_every,
        imitation_steps=FLAGS.imitation_steps,
        initial_policy=FLAGS.initial_policy,
    )


def test_graphs() -> dict[str, list[ComputationGraph]]:
    """Test graphs by setting: "as traced", "4 microbatches" and so on."""
    return corpora.test_settings(
        FLAGS.dataset,
        microbatches=[int(k) for k in FLAGS.microbatches],
        max_ops=FLAGS.test_ops,
        max_graphs=FLAGS.test_graphs,
    )


def compare(
    graphs: Mapping[str, Sequence[ComputationGraph]],
    runs: Sequence[Run],
    folder: Path,
    *,
    objective: Objective,
    policies: Mapping[str, str | Path | None],
    num_devices: int = 2,
) -> list[dict]:
    """Rows of ``searches.compare`` with the flags of ``define_searches``.

    ``policies`` are files by name of the method (None: the shipped one).
    """
    with progress.bar("searches", 1) as update:
        return searches.compare(
            graphs,
            runs,
            seeds=FLAGS.seeds,
            path=folder / "results.csv",
            platform=searches.PlatformRule(
                num_devices, FLAGS.latency, FLAGS.per_byte, FLAGS.memory_share
            ),
            objective=objective,
            policies=policies,
            time_limit=FLAGS.time_limit,
            on_progress=update,
        )
