"""Temperatures of training and of inference (figures 3 and 5 of gflownet_robust_scheduling).

  python experiments/gflownet_temperature.py \\
    --flagfile=experiments/flags/smoke/gflownet_temperature.flags

Figure 5: GFlowNets are trained on random graphs at one temperature, or at all of a range, and draw
schedules of unseen graphs at the lowest temperature that they were trained with. Figure 3: one of
them, or --policy, draws schedules of a smaller graph at several temperatures. Results are rows of
CSVs; an interrupted training resumes.
"""

from pathlib import Path

from absl import flags

from regal_jax.datasets.makespan_graphs import makespan_graph, makespan_graphs
from regal_jax.reporting import figures, results, tables
from regal_jax.studies import launch
from regal_jax.studies.comparison import candidates
from regal_jax.studies.gflownet import experiment as gflownet_experiment
from regal_jax.studies.gflownet import plots
from regal_jax.studies.gflownet.experiment import Corpus
from regal_jax.studies.regal import experiment as regal_experiment

FLAGS = flags.FLAGS

flags.DEFINE_list("regimes", ["0.01", "0.03", "0.01:1"], "Of training, in figure 5: T or LOW:HIGH.")
flags.DEFINE_list("temperatures", ["1", "0.3", "0.1", "0.03", "0.01", "0.005"], "Of figure 3.")
flags.DEFINE_string("policy", None, "Of figure 3, or 'shipped'; else the last regime's.")
flags.DEFINE_integer("samples", 1000, "Schedules of figure 3 at each temperature.")
flags.DEFINE_integer("train_graphs", 1000, "Training graphs.")
flags.DEFINE_integer("test_graphs", 50, "Unseen graphs of figure 5, in turns of five families.")
flags.DEFINE_integer("graph_ops", 50, "Ops of each of these graphs.")
flags.DEFINE_integer("small_graph_ops", 25, "Ops of the Erdos-Renyi graph of figure 3.")
regal_experiment.define_output("results/gflownet_temperature")
gflownet_experiment.define_seeds()
gflownet_experiment.define_training()


def main(_) -> None:
    output, regimes = (
        regal_experiment.output_dir(),
        {r: gflownet_experiment.regime(r) for r in FLAGS.regimes},
    )
    counts = (("train", FLAGS.train_graphs), ("test", FLAGS.test_graphs))
    train, test = (list(makespan_graphs(*split, FLAGS.graph_ops)) for split in counts)
    files = gflownet_experiment.train_variants(
        Corpus("random graphs", train, test), output, regimes
    )
    if files:
        rows = gflownet_experiment.report_variants(files, "training temperatures", output)
        last = FLAGS.regimes[-1]
        gflownet_experiment.print_pairs(rows, "training temperatures", last, ["validation_top_1"])
        found = gflownet_experiment.curves(files, "validation_top_1")
        figures.drawn(plots.plot_generalisation, found, output / "figure_5.png")
    if FLAGS.policy is not None:
        draw_temperatures(gflownet_experiment.given_policy(FLAGS.policy), output)
    elif files:
        draw_temperatures(files[FLAGS.regimes[-1]][0], output)


def draw_temperatures(policy: Path | None, output: Path) -> None:
    """Figure 3, its numbers as rows, and their means."""
    graph = makespan_graph("erdos_renyi", 0, FLAGS.small_graph_ops)
    found = gflownet_experiment.sampled(graph, policy, FLAGS.temperatures, FLAGS.samples)
    rows, table, by_temperature = [], [], {}
    for name, some in found.items():
        speedups = candidates.speedups(graph, some, FLAGS.num_devices)
        common = {"graph": graph.name, "method": name, "metric": "speedup"}
        rows += [common | {"seed": i, "value": value} for i, value in enumerate(speedups.tolist())]
        numbers = {"mean": speedups.mean(), "deviation": speedups.std(), "best": speedups.max()}
        table.append({"temperature": name} | numbers)
        by_temperature[float(name)] = speedups
    results.write_results(output / "samples.csv", rows)
    print(f"{graph.name}: speedups of {FLAGS.samples} schedules at each temperature")
    print(tables.text_table(table))
    figures.drawn(plots.plot_speedups_by_temperature, by_temperature, output / "figure_3.png")


if __name__ == "__main__":
    launch.run(main)
