"""Programs on the GPU or TPU that is here: bytes in use and time, by rj.jit over XLA's own choice.

  python experiments/device_runs.py --flagfile=experiments/flags/smoke/device_runs.flags

Every program is compiled both ways, and both run, in turns, in a process of their own. With
--accelerator only decisions are made (--orders), on a machine that needs no such device. Results
are rows of a CSV; a run resumes.
"""

import jax
from absl.flags import FLAGS

from regal_jax.reporting import tables
from regal_jax.studies import launch
from regal_jax.studies.compiler import device_runs, device_tables
from regal_jax.studies.compiler.device_runs import Settings

DEFAULTS = Settings(output_dir="results/device_runs")


def main(settings, folder) -> None:
    if settings.accelerator:
        jax.config.update("jax_enable_compilation_cache", False)  # programs are compiled, not run
        for line in device_runs.decide(settings, folder()):
            print(line, flush=True)
        return
    rows = device_runs.measure(settings, folder())
    for table in filter(None, (device_tables.table(rows), device_tables.budgets(rows))):
        print(tables.text_table(table))
    print(f"\nOver XLA's own choice, on {device_tables.devices(rows)[0]}")
    print(tables.text_table(device_tables.summary(rows)))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
