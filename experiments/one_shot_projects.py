"""Ways to make a schedule of priorities, on projects whose optima or best makespans are known.

  python experiments/one_shot_projects.py --data_dir=data/psplib \\
    --flagfile=experiments/flags/smoke/one_shot_projects.flags

PSPLIB's instances in which no activity uses several resources (``project_scheduling.load_psplib``
tells the files of --data_dir). Which generation, see ``MachineProblem``, lets the best of the
priority rules, random priorities and a genetic search come closest to the best known makespan? With
--policy a policy's samples, too. Results are rows of a CSV; an interrupted run resumes.
"""

from absl import flags

from regal_jax.datasets.project_scheduling import load_psplib
from regal_jax.search.rcpsp.rules import RULES
from regal_jax.studies import launch
from regal_jax.studies.one_shot import experiment as one_shot_experiment
from regal_jax.studies.one_shot import tables
from regal_jax.studies.regal import experiment as regal_experiment

FLAGS = flags.FLAGS

flags.DEFINE_string("data_dir", "data/psplib", "Folder of the sets.")
flags.DEFINE_list("sets", ["j30", "j60", "j120"], "Files without their suffix.")
flags.DEFINE_integer("test_graphs", 1000, "Most instances of a set.")
flags.DEFINE_list("generations", ["parallel", "serial", "lookahead"], "Ways to make a schedule.")
flags.DEFINE_list("others", ["justification"], "Methods that have their own way, such as cp_sat.")
regal_experiment.define_output("results/one_shot_projects")
one_shot_experiment.define_comparison(methods=["random_search", "brkga"])
one_shot_experiment.define_policy()


def main(_) -> None:
    output = regal_experiment.output_dir()
    read = {name: load_psplib(FLAGS.data_dir, name)[: FLAGS.test_graphs] for name in FLAGS.sets}
    bounds = {graph.name: known for some in read.values() for graph, known in some}
    best_known = {name: bound.upper for name, bound in bounds.items()}
    graphs = {setting: [graph for graph, _ in some] for setting, some in read.items()}
    runs = [run for generation in FLAGS.generations for run in runs_of(generation)]
    runs += [one_shot_experiment.baseline(method) for method in FLAGS.others]
    if FLAGS.policy is not None:
        runs += one_shot_experiment.learned("one_shot", one_shot_experiment.given_policy())
    by_setting = dict.fromkeys(graphs, runs)
    rows = one_shot_experiment.compare(graphs, by_setting, output, bounds)
    for generation in FLAGS.generations:
        rules = [f"{rule} {generation}" for rule in RULES]
        rows += tables.best_of(rows, rules, f"best rule {generation}")
    labels = [f"best rule {generation}" for generation in FLAGS.generations]
    labels += [run.label for run in runs if run.method not in RULES]
    lines = {
        setting: tables.summary(rows, setting, graphs[setting], labels, best_known)
        for setting in graphs
    }
    for setting, some in lines.items():
        title = f"{setting}: makespan, gap from the best known; closed: of the first line's gap"
        print(tables.text(title, some, baseline=labels[0]) + "\n")
    one_shot_experiment.draw(lines, graphs, by_setting, output, best_known=best_known)


def runs_of(generation: str) -> list:
    """All rules, and --methods, with one generation."""
    options = {"generation": generation}
    return [one_shot_experiment.baseline(name, options) for name in [*RULES, *FLAGS.methods]]


if __name__ == "__main__":
    launch.run(main)
