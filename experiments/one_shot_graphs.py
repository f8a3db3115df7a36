"""One-shot priority sampling on computation graphs (tables 3, 4, 7 of one_shot_priority_sampling).

  python experiments/one_shot_graphs.py --flagfile=experiments/flags/smoke/one_shot_graphs.flags

Random graphs of three families on three machine types, and with --real those of the model zoo,
whose machine types are ours (``machine_graphs.zoo_machine_graph``), by their number of ops. Speedup
is the sum of all durations over the makespan. The paper's real graphs aren't public, and our copy
of it lacks its tables of results. Results are rows of a CSV; an interrupted run resumes, in its
training, too.
"""

from absl import flags

from regal_jax.datasets.machine_graphs import FAMILIES, zoo_machine_graph
from regal_jax.studies import launch
from regal_jax.studies.one_shot import experiment as one_shot_experiment
from regal_jax.studies.one_shot.experiment import Corpus
from regal_jax.studies.regal import experiment as regal_experiment
from regal_jax.studies.topoformer import experiment as topoformer_experiment

FLAGS = flags.FLAGS

flags.DEFINE_boolean("real", True, "Also real graphs, with a policy of their own.")
regal_experiment.define_output("results/one_shot_graphs")
one_shot_experiment.define_settings([f"{family} {n}" for n in (1000, 500) for family in FAMILIES])
topoformer_experiment.define_real()
one_shot_experiment.define_comparison()
one_shot_experiment.define_policy()
one_shot_experiment.define_training()


def main(_) -> None:
    output = regal_experiment.output_dir()
    graphs = one_shot_experiment.test_graphs(FLAGS.settings)
    corpora = one_shot_experiment.corpora(FLAGS.settings) if FLAGS.settings else {}
    if FLAGS.real:
        real, corpus = real_graphs()
        graphs, corpora = graphs | real, corpora | dict.fromkeys(real, corpus)
    policies = one_shot_experiment.policies(corpora, output)
    runs = {setting: one_shot_experiment.runs(policies.get(setting)) for setting in graphs}
    rows = one_shot_experiment.compare(graphs, runs, output)
    lines = one_shot_experiment.report(rows, graphs, runs, speedup=True)
    one_shot_experiment.draw(lines, graphs, runs, output)


def real_graphs() -> tuple[dict, Corpus]:
    """Test graphs by stratum, and what a policy for real graphs is trained on."""
    found = topoformer_experiment.real_graphs()
    chosen = [
        topoformer_experiment.between(found[split], 2, FLAGS.train_ops + 1, most)
        for split, most in (("train", FLAGS.train_graphs), ("valid", FLAGS.validation_graphs))
    ]
    training, validation = ([zoo_machine_graph(graph) for graph in some] for some in chosen)
    tests = topoformer_experiment.real_tests(found["test"])
    return (
        {f"real {s}": [zoo_machine_graph(graph) for graph in some] for s, some in tests.items()},
        Corpus("real", training, validation),
    )


if __name__ == "__main__":
    launch.run(main)
