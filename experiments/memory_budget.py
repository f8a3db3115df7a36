"""Train steps within memory budgets, against jax.checkpoint's policies, by XLA's own compilers.

  python experiments/memory_budget.py --flagfile=experiments/flags/smoke/memory_budget.flags

Each program is fitted by rj.fit and by rj.jit, which orders what the compiler makes of it, too,
into 80, 60, 50 and 40 % of the bytes that it needs beyond its arguments, and into what each policy
needs. Nothing runs; results are rows of a CSV; a run resumes.
"""

import jax
from absl.flags import FLAGS

from regal_jax.compiler.accelerators.accelerator import accelerator
from regal_jax.reporting import tables
from regal_jax.studies import launch
from regal_jax.studies.compiler import memory_budget
from regal_jax.studies.compiler.memory_budget import Settings

DEFAULTS = Settings(output_dir="results/memory_budget")


def main(settings, folder) -> None:
    jax.config.update("jax_enable_compilation_cache", False)  # programs are compiled, not run
    target = accelerator(settings.accelerator) if settings.accelerator else None
    rows = memory_budget.measure(settings, target, folder() / "results.csv")
    for ours, label in memory_budget.LABELS.items():
        for title, make in (
            ("Bytes beyond the arguments and FLOPs, over XLA's own choice", memory_budget.table),
            ("Budgets", memory_budget.budgets),
            ("Against policies", memory_budget.against),
        ):
            print(f"{title}, {label}\n{tables.text_table(make(rows, ours))}\n")
    print(f"Run beside the plain program\n{tables.text_table(memory_budget.runs(rows))}\n")


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
