"""What more evaluations bring: REGAL and BRKGA up to 50,000 (figures 5 and 6, section 4.4).

  python experiments/regal_evaluations.py --flagfile=experiments/flags/smoke/regal_evaluations.flags

The last setting is of XLA's own graphs, which are larger than those that policies are trained on.
"""

from absl import flags

from regal_jax.datasets import corpora
from regal_jax.errors import MissingDependencyError
from regal_jax.reporting import tables
from regal_jax.studies import launch
from regal_jax.studies.regal import evaluation_limits, experiment

_LONG_EVALUATIONS = flags.DEFINE_integer("long_evaluations", 50_000, "Budget of each search.")
_XLA_GRAPHS = flags.DEFINE_integer("xla_graphs", 32, "Most XLA graphs; the paper has 32.")
flags.DEFINE_enum("objective", "peak_memory", ["peak_memory", "makespan"], "What to minimise.")
experiment.define_output("results/regal_evaluations")
experiment.define_graphs()
experiment.define_searches(methods=["brkga", "regal"])
experiment.define_training()


def main(_) -> None:
    values, output = flags.FLAGS, experiment.output_dir()
    policy = experiment.policy(values.objective, output)
    graphs = experiment.test_graphs()
    graphs["XLA"] = corpora.xla_graphs(
        values.dataset, max_ops=values.test_ops, max_graphs=_XLA_GRAPHS.value
    )
    rows = experiment.compare(
        graphs,
        evaluation_limits.long_runs(values.methods, _LONG_EVALUATIONS.value),
        output,
        objective=values.objective,
        policies={"regal": policy},
        num_devices=values.num_devices,
    )
    for setting in dict.fromkeys(row["setting"] for row in rows):
        report(rows, setting, output)


def report(rows, setting: str, output) -> None:
    """Prints a setting's curve and its answers; draws figure 5 or 6 where matplotlib is there."""
    longest = _LONG_EVALUATIONS.value
    limits = [limit for limit in evaluation_limits.LIMITS if limit <= longest]
    reference = min(evaluation_limits.REFERENCE, longest)
    points = evaluation_limits.curve(rows, setting, limits, reference)
    table = [
        point | {key: f"{point[key]:.2f}" for key in ("mean", "low", "high")} for point in points
    ]
    print(f"{setting}: improvement over BRKGA with {reference} evaluations, %")
    print(tables.text_table(table))
    mean = {(point["method"], point["evaluations"]): point["mean"] for point in points}
    if ("regal", reference) in mean and longest > reference:
        short, long = mean["regal", reference], mean["brkga", limits[-1]]
        print(
            f"REGAL with {reference}: {short:.2f} %, BRKGA with {limits[-1]}: {long:.2f} %"
            f" (the paper's claim {'holds' if short >= long else 'does not hold'} here)"
        )
    if "regal" in flags.FLAGS.methods:
        fewer, share = evaluation_limits.fewer_evaluations(rows, setting, "regal", reference)
        print(
            f"REGAL has BRKGA's value after {fewer:.1f} % fewer evaluations, in {share:.1f} % of"
            f" searches (paper: {evaluation_limits.PAPER_FEWER_GENERATIONS} % fewer generations)\n"
        )
    try:
        from regal_jax.reporting import plots

        name = f"limits_{setting.replace(' ', '_')}.png"
        plots.plot_evaluation_limits(points, output / name, reference=f"BRKGA {reference}")
    except MissingDependencyError as error:
        print(f"no picture: {error}")


if __name__ == "__main__":
    launch.run(main)
