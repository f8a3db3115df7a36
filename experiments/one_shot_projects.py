"""Ways to make a schedule of priorities, on projects whose optima or best makespans are known.

  python experiments/one_shot_projects.py --data_dir=data/psplib \\
    --flagfile=experiments/flags/smoke/one_shot_projects.flags

PSPLIB's instances in which no activity uses several resources (``project_scheduling.load_psplib``
tells the files of --data_dir). Which generation, see ``MachineProblem``, lets the best of the
priority rules, random priorities and a genetic search come closest to the best known makespan? With
--policy a policy's samples, too. Results are rows of a CSV; an interrupted run resumes.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.one_shot import projects
from regal_jax.studies.one_shot.projects import Settings

DEFAULTS = Settings(output_dir="results/one_shot_projects")


def main(settings, folder) -> None:
    projects.study(settings, folder())


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
