"""When diverse candidates pay where transfers are dear (ours; on table 1 of
gflownet_robust_scheduling).

  python experiments/gflownet_sizes.py --flagfile=experiments/flags/smoke/gflownet_sizes.flags

Candidates are tried on the targets with tensors of other sizes, log-normal of several spreads, new
ones for each seed; the proxy doesn't see sizes. The further they are spread, the fewer tensors take
most of the time of transfers, and the more it matters that some candidate, by chance, has these on
one device. Graphs are that of table 1, or those of table 3 that training hasn't seen. Results are
rows of a CSV; an interrupted run resumes.
"""

import numpy as np
from absl import flags

from regal_jax.datasets import flow_corpora
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import tables
from regal_jax.search.placements import candidates
from regal_jax.search.placements.candidates import Candidates
from regal_jax.studies import launch
from regal_jax.studies.comparison import candidates as comparison_candidates
from regal_jax.studies.gflownet import experiment as gflownet_experiment
from regal_jax.studies.gflownet import tables as gflownet_tables
from regal_jax.studies.gflownet.experiment import Corpus
from regal_jax.studies.regal import experiment as regal_experiment

FLAGS = flags.FLAGS
LARGEST = 5
"""The share of so many tensors tells how unequal sizes are."""

flags.DEFINE_list("spreads", ["0", "1", "2", "3"], "Standard deviations of the sizes' logarithm.")
flags.DEFINE_boolean("unseen", False, "Take the test graphs of table 3.")
regal_experiment.define_output("results/gflownet_sizes")
gflownet_experiment.define_comparison(targets=["experiments/targets/bandwidth.toml"])
gflownet_experiment.define_policies(retrain=False)


def main(_) -> None:
    output, spreads = regal_experiment.output_dir(), [_number(spread) for spread in FLAGS.spreads]
    single = flow_corpora.single_graph()
    graphs = flow_corpora.real_graphs("test") if FLAGS.unseen else [single]
    setting = "unseen graphs" if FLAGS.unseen else "one graph"
    print_shares(graphs, spreads)  # checks the spreads, before any training
    policies = gflownet_experiment.policies(Corpus(single.name, [single], [single]), output)
    trial = gflownet_experiment.trial(policies)

    def measure(graph: ComputationGraph, sampled: Candidates, seed: int) -> dict[str, float]:
        problem = comparison_candidates.proxy(graph, trial.num_devices)
        best = candidates.best_schedules(problem, sampled, trial.candidates)
        found = {}
        for spread in spreads:
            other = flow_corpora.with_sizes(graph, spread, seed)
            speedups = comparison_candidates.on_targets(other, best, trial.targets)
            found |= {f"{name} {spread:g}": value for name, value in speedups.items()}
        return found

    rows = gflownet_experiment.compare({setting: graphs}, policies, output, measure)
    summary = gflownet_tables.over_graphs if FLAGS.unseen else gflownet_tables.over_seeds
    gflownet_experiment.report(gflownet_experiment.chosen(rows, [setting]), setting, summary)


def print_shares(graphs: list[ComputationGraph], spreads: list[float]) -> None:
    """Prints how much of all bytes the largest tensors have, as traced and by spread."""
    drawn = {
        f"{spread:g}": [
            flow_corpora.with_sizes(g, spread, s) for g in graphs for s in range(FLAGS.seeds)
        ]
        for spread in spreads
    }
    rows = [
        {"spread": name, "share %": float(np.mean([100 * largest_share(g) for g in some]))}
        for name, some in ({"as traced": graphs} | drawn).items()
    ]
    print(f"bytes of the {LARGEST} largest of the tensors that ops exchange, of all of theirs")
    print(tables.text_table(rows) + "\n")


def largest_share(graph: ComputationGraph) -> float:
    """The share that the ``LARGEST`` have in the bytes of all tensors that ops exchange."""
    exchanged = np.sort(graph.size[np.unique(graph.edges[:, 1])])
    return float(exchanged[-LARGEST:].sum() / max(exchanged.sum(), 1))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"spreads: {text!r} is no number") from None


if __name__ == "__main__":
    launch.run(main)
