"""Temperatures of training and of inference (figures 3 and 5 of gflownet_robust_scheduling).

  python experiments/gflownet_temperature.py \\
    --flagfile=experiments/flags/smoke/gflownet_temperature.flags

Figure 5: GFlowNets are trained on random graphs at one temperature, or at all of a range, and draw
schedules of unseen graphs at the lowest temperature that they were trained with. Figure 3: one of
them, or --policy, draws schedules of a smaller graph at several temperatures. Results are rows of
CSVs; an interrupted training resumes.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.gflownet import temperature
from regal_jax.studies.gflownet.temperature import Settings
from regal_jax.studies.settings import policy_file

DEFAULTS = Settings(output_dir="results/gflownet_temperature")


def main(settings, folder) -> None:
    output = folder()
    files = temperature.train(settings, output)
    if files:
        temperature.report_regimes(files, output)
    if settings.policy is not None:
        temperature.report_temperatures(policy_file(settings.policy), settings, output)
    elif files:
        temperature.report_temperatures(files[settings.regimes[-1]][0], settings, output)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
