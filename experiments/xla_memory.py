"""Temporary memory of real JAX programs: XLA's orders against ours, in XLA itself.

  python experiments/xla_memory.py --flagfile=experiments/flags/smoke/xla_memory.flags

Every program is compiled as XLA orders it, by its default and by its memory-optimised scheduler,
and by rj.jit; with --pairs, both run, side by side. With --accelerator it is compiled for a GPU or
TPU that needn't be there, plainly and in --top_k other ways. Results are rows of a CSV; a run
resumes.
"""

import jax
from absl.flags import FLAGS

from regal_jax.compiler.accelerators.accelerator import accelerator
from regal_jax.datasets import jax_train_steps
from regal_jax.reporting import tables
from regal_jax.studies import launch
from regal_jax.studies.compiler import accelerator_memory, xla_memory
from regal_jax.studies.compiler.xla_memory import Settings

DEFAULTS = Settings(output_dir="results/xla_memory")


def main(settings, folder) -> None:
    jax.config.update("jax_enable_compilation_cache", False)  # compile times are measured
    output = folder()
    if settings.accelerator:
        accelerators(settings, output)
        return
    rows = xla_memory.measure(
        settings.programs or jax_train_steps.program_names(),
        settings.options(output / "orders"),
        pairs=settings.pairs,
        resident=settings.resident,
        path=output / "results.csv",
    )
    print(tables.text_table(xla_memory.table(rows)))
    print("\nrj.jit over XLA")
    print(tables.text_table(xla_memory.summary(rows)))


def accelerators(settings, output) -> None:
    rows = accelerator_memory.measure(
        settings.programs or jax_train_steps.program_names(),
        accelerator(settings.accelerator),
        shardings=settings.shardings,
        compilations=settings.top_k,
        evaluations=settings.evaluations,
        seed=settings.seed,
        path=output / "results.csv",
    )
    print(tables.text_table(accelerator_memory.table(rows)))
    print(f"\nOver XLA's own choice, compiled for {settings.accelerator}")
    print(tables.text_table(accelerator_memory.summary(rows)))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
