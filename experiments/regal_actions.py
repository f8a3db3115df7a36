"""REGAL on subsets of its actions (table 3), and what actions it chooses (section 5.1, figure 7).

  python experiments/regal_actions.py --flagfile=experiments/flags/smoke/regal_actions.flags

Trains a policy for each of --subsets. With --policy (a file, or 'shipped') nothing is trained and
only figure 7 is made, from that policy. Results are rows of CSV files; an interrupted run resumes.
"""

from pathlib import Path

from absl import flags

from regal_jax.datasets import corpora
from regal_jax.methods import pretrained
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.reporting import progress
from regal_jax.studies import flags as config_flags
from regal_jax.studies import launch
from regal_jax.studies.one_shot import ablation_tables
from regal_jax.studies.regal import actions, experiment, training_sweep
from regal_jax.training.regal import TrainingConfig

_SUBSETS = flags.DEFINE_list("subsets", list(actions.SUBSETS), "Rows of table 3.")
_XLA_GRAPHS = flags.DEFINE_integer("xla_graphs", 10_000, "Most XLA graphs.")
experiment.define_output("results/regal_actions")
experiment.define_graphs(microbatches=(1,))
experiment.define_searches(methods=["brkga", "regal"], seeds=1)
experiment.define_training()

OBJECTIVE = "peak_memory"
FIGURE_7 = "placement+scheduling"


def main(_) -> None:
    output, test, given = experiment.output_dir(), experiment.test_graphs(), flags.FLAGS.policy
    if given is None:
        policies = train(output)
        print(table_3(test, policies, output))
        policy = policies.get(FIGURE_7)
    else:
        policy = pretrained.shipped_policy(OBJECTIVE) if given == "shipped" else Path(given)
    if policy is not None:
        graphs = next(iter(test.values()))
        with progress.bar("actions", len(graphs)) as update:
            print(actions.figure_7(graphs, policy, output, OBJECTIVE, on_progress=update))


def train(output: Path) -> dict[str, Path]:
    """A policy for each subset, trained on the same graphs."""
    regal = config_flags.read(RegalConfig, flags.FLAGS)
    config = config_flags.read(TrainingConfig, flags.FLAGS)
    runs = [
        training_sweep.TrainingRun(name, actions.with_actions(regal, name), config)
        for name in _SUBSETS.value
    ]
    training_sweep.train_all(
        runs,
        corpus,
        objective=OBJECTIVE,
        directory=output,
        validate_every=flags.FLAGS.validate_every,
    )
    return {run.name: output / run.name / "best.policy" for run in runs}


def corpus() -> training_sweep.Corpus:
    """Training and validation graphs of the flags."""
    names = ("copies", "train_ops", "train_graphs", "validation_graphs")
    sizes = {name: flags.FLAGS[name].value for name in names}
    return training_sweep.load_corpus(flags.FLAGS.dataset, **sizes)


def table_3(test, policies, output: Path) -> str:
    """Each policy against BRKGA of the same budget."""
    values = flags.FLAGS
    xla = corpora.xla_graphs(values.dataset, max_ops=values.test_ops, max_graphs=_XLA_GRAPHS.value)
    sets = actions.graph_sets(corpus().validation, test, xla)
    options = {"objective": OBJECTIVE, "num_devices": values.num_devices}
    rows = []
    for run, policy in actions.runs(policies, values.test_evaluations):
        rows = experiment.compare(sets, [run], output, policies={"regal": policy}, **options)
    found = actions.improvements(rows, list(sets), list(policies))
    counts = ", ".join(f"{name} {len(graphs)}" for name, graphs in sets.items())
    title = f"improvement over brkga {values.test_evaluations}, mean and 95% interval"
    return f"{title}; graphs: {counts}\n{ablation_tables.table_3(found)}"


if __name__ == "__main__":
    launch.run(main)
