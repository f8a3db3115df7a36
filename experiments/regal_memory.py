"""REGAL on peak memory: train or load a policy, compare it on unseen graphs (table 1, figure 4).

  python experiments/regal_memory.py --flagfile=experiments/flags/smoke/regal_memory.flags

--dataset is model_zoo (the package's real graphs, split by architecture family), synthetic (REGAL's
recipe) or a folder of graph files. Results are rows of a CSV; an interrupted run resumes.
"""

from absl import flags

from regal_jax.studies import launch
from regal_jax.studies.regal import experiment, tables

experiment.define_output("results/regal_memory")
experiment.define_graphs()
experiment.define_searches(
    methods=["brkga", "regal", "random_search", "depth_first", "breadth_first"]
)
experiment.define_training()

OBJECTIVE = "peak_memory"


def main(_) -> None:
    output = experiment.output_dir()
    policy = experiment.policy(OBJECTIVE, output)
    runs = tables.regal_runs(flags.FLAGS.methods, flags.FLAGS.test_evaluations)
    rows = experiment.compare(
        experiment.test_graphs(),
        runs,
        output,
        objective=OBJECTIVE,
        policies=dict.fromkeys(("regal", "idrs"), policy),
        num_devices=flags.FLAGS.num_devices,
    )
    print(tables.regal_report(rows, runs, output, OBJECTIVE))


if __name__ == "__main__":
    launch.run(main)
