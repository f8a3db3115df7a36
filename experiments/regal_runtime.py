"""REGAL on running time: train or load a policy, compare it on unseen graphs (workshop, table 1).

  python experiments/regal_runtime.py --flagfile=experiments/flags/smoke/regal_runtime.flags

--dataset is model_zoo (the package's real graphs, split by architecture family), synthetic (REGAL's
recipe) or a folder of graph files. Results are rows of a CSV; an interrupted run resumes.
"""

from absl import flags

from regal_jax.studies import launch
from regal_jax.studies.regal import experiment, tables

experiment.define_output("results/regal_runtime")
experiment.define_graphs()
experiment.define_searches(
    methods=["brkga", "regal", "random_search", "partition_dfs", "etf", "heft"]
)
experiment.define_training()

OBJECTIVE = "makespan"


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
