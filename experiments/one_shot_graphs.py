"""One-shot priority sampling on computation graphs (tables 3, 4, 7 of one_shot_priority_sampling).

  python experiments/one_shot_graphs.py --flagfile=experiments/flags/smoke/one_shot_graphs.flags

Random graphs of three families on three machine types, and with --real those of the model zoo,
whose machine types are ours (``machine_graphs.zoo_machine_graph``), by their number of ops. Speedup
is the sum of all durations over the makespan. The paper's real graphs aren't public, and our copy
of it lacks its tables of results. Results are rows of a CSV; an interrupted run resumes, in its
training, too.
"""

from dataclasses import dataclass

from absl.flags import FLAGS

from regal_jax.datasets.machine_graphs import FAMILIES
from regal_jax.studies import flags, launch
from regal_jax.studies.one_shot import comparison, corpora
from regal_jax.studies.one_shot.settings import Settings
from regal_jax.studies.topoformer.settings import RealGraphs


@dataclass(frozen=True, kw_only=True)
class GraphSettings(RealGraphs, Settings):
    """Policies for random graphs, and one for real ones."""

    real: bool = flags.option(True, "Also real graphs, with a policy of their own.")


DEFAULTS = GraphSettings(
    output_dir="results/one_shot_graphs",
    settings=tuple(f"{family} {n}" for n in (1000, 500) for family in FAMILIES),
)


def main(settings, folder) -> None:
    output, graphs = folder(), corpora.test_graphs(settings)
    corpus = corpora.corpora(settings)
    if settings.real:
        real, its_corpus = corpora.real_graphs(settings, settings.validation_graphs)
        graphs, corpus = graphs | real, corpus | dict.fromkeys(real, its_corpus)
    comparison.run(graphs, corpus, output, settings, speedup=True)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
