"""REGAL on subsets of its actions (table 3), and what actions it chooses (section 5.1, figure 7).

  python experiments/regal_actions.py --flagfile=experiments/flags/smoke/regal_actions.flags

Trains a policy for each of --subsets. With --policy (a file, or 'shipped') nothing is trained and
only figure 7 is made, from that policy. Results are rows of CSV files; an interrupted run resumes.
"""

from pathlib import Path

from absl import flags

from regal_jax import action_study, launch, study
from regal_jax import flags as config_flags
from regal_jax.datasets import corpora
from regal_jax.errors import MissingDependencyError
from regal_jax.evaluation import Run
from regal_jax.methods import learned
from regal_jax.policies.regal import RegalConfig
from regal_jax.reporting import ablation_plots, ablation_tables, progress, tables
from regal_jax.training import checkpoints

_SUBSETS = flags.DEFINE_list("subsets", list(action_study.SUBSETS), "Rows of table 3.")
_XLA_GRAPHS = flags.DEFINE_integer("xla_graphs", 10_000, "Most XLA graphs.")
study.define_output("results/regal_actions")
study.define_graphs(microbatches=(1,))
study.define_searches(methods=["brkga"], seeds=1)
study.define_training()

OBJECTIVE = "peak_memory"
FIGURE_7 = "placement+scheduling"


def main(_) -> None:
    output = study.output_dir()
    test = study.test_graphs()
    policy = learned.shipped_policy(OBJECTIVE) if flags.FLAGS.policy == "shipped" else None
    policy = policy or flags.FLAGS.policy
    if policy is None:
        config = config_flags.read(RegalConfig, flags.FLAGS)
        policies = {
            subset: study.policy(
                OBJECTIVE, output / subset, regal=action_study.with_actions(config, subset)
            )
            for subset in _SUBSETS.value
        }
        print(table_3(test, policies, output))
        policy = policies.get(FIGURE_7)
    if policy is not None:
        print(figure_7(next(iter(test.values())), Path(policy), output))


def table_3(test, policies, output) -> str:
    """Each policy against BRKGA of the same budget."""
    values = flags.FLAGS
    sets = action_study.graph_sets(
        corpora.validation_graphs(
            values.dataset, values.train_ops, max_graphs=values.validation_graphs
        ),
        test,
        action_study.xla_graphs(
            values.dataset, max_ops=values.test_ops, max_graphs=_XLA_GRAPHS.value
        ),
    )
    budget = values.test_evaluations
    options = {"objective": OBJECTIVE, "num_devices": values.num_devices}
    study.compare(sets, [Run("brkga", "brkga", budget)], output, policies={}, **options)
    for subset, policy in policies.items():
        run = Run(subset, "regal", budget)
        rows = study.compare(sets, [run], output, policies={"regal": policy}, **options)
    counts = ", ".join(f"{name}: {len(graphs)}" for name, graphs in sets.items())
    found = action_study.improvements(rows, list(sets), list(policies), "brkga")
    title = f"improvement over brkga {budget}, mean and 95% interval (graphs in {counts})"
    return f"{title}\n{ablation_tables.table_3(found)}"


def figure_7(graphs, policy, output) -> str:
    """The groups of actions as a table, and as a picture where matplotlib is there."""
    params, config, _ = checkpoints.load_policy(policy)
    with progress.bar("actions", len(graphs)) as update:
        rows = action_study.measure_usage(
            graphs,
            params,
            config,
            objective=OBJECTIVE,
            path=output / f"actions_{policy.stem}.csv",
            on_progress=lambda done, total: update(done),
        )
    groups = ablation_tables.usage_by_group(rows)
    try:
        ablation_plots.plot_action_usage(groups, output / "figure_7.png")
    except MissingDependencyError as error:
        print(f"no picture: {error}")
    return f"actions on {len(graphs)} graphs\n{tables.text_table(groups)}"


if __name__ == "__main__":
    launch.run(main)
