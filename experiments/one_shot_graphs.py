"""One-shot priority sampling on computation graphs (tables 3, 4, 7 of one_shot_priority_sampling).

  python experiments/one_shot_graphs.py --flagfile=experiments/flags/smoke/one_shot_graphs.flags

Random graphs of three families on three machine types, and with --real those of the model zoo,
whose machine types are ours (``machine_graphs.zoo_machine_graph``), by their number of ops. Speedup
is the sum of all durations over the makespan. The paper's real graphs aren't public, and our copy
of it lacks its tables of results. Results are rows of a CSV; an interrupted run resumes, in its
training, too.
"""

from absl import flags

from regal_jax import launch, one_shot_study, ordering_study, study
from regal_jax.datasets.machine_graphs import FAMILIES, zoo_machine_graph
from regal_jax.one_shot_study import Corpus

FLAGS = flags.FLAGS

flags.DEFINE_boolean("real", True, "Also real graphs, with a policy of their own.")
study.define_output("results/one_shot_graphs")
one_shot_study.define_settings([f"{family} {n}" for n in (1000, 500) for family in FAMILIES])
ordering_study.define_real()
one_shot_study.define_comparison()
one_shot_study.define_policy()
one_shot_study.define_training()


def main(_) -> None:
    output = study.output_dir()
    graphs = one_shot_study.test_graphs(FLAGS.settings)
    corpora = one_shot_study.corpora(FLAGS.settings) if FLAGS.settings else {}
    if FLAGS.real:
        real, corpus = real_graphs()
        graphs, corpora = graphs | real, corpora | dict.fromkeys(real, corpus)
    policies = one_shot_study.policies(corpora, output)
    runs = {setting: one_shot_study.runs(policies.get(setting)) for setting in graphs}
    rows = one_shot_study.compare(graphs, runs, output)
    lines = one_shot_study.report(rows, graphs, runs, speedup=True)
    one_shot_study.draw(lines, graphs, runs, output)


def real_graphs() -> tuple[dict, Corpus]:
    """Test graphs by stratum, and what a policy for real graphs is trained on."""
    found = ordering_study.real_graphs()
    chosen = [
        ordering_study.between(found[split], 2, FLAGS.train_ops + 1, most)
        for split, most in (("train", FLAGS.train_graphs), ("valid", FLAGS.validation_graphs))
    ]
    training, validation = ([zoo_machine_graph(graph) for graph in some] for some in chosen)
    tests = ordering_study.real_tests(found["test"])
    return (
        {f"real {s}": [zoo_machine_graph(graph) for graph in some] for s, some in tests.items()},
        Corpus("real", training, validation),
    )


if __name__ == "__main__":
    launch.run(main)
