"""Temporary memory of real JAX programs: XLA's orders against ours, in XLA itself.

  python experiments/xla_memory.py --flagfile=experiments/flags/smoke/xla_memory.flags

Every program is compiled as XLA orders it, by its default and by its memory-optimised scheduler,
and by rj.jit; with --pairs, both run, side by side. Results are rows of a CSV; a run resumes.
"""

import jax
from absl import flags

from regal_jax.compiler.xla.candidates import METHODS, Search
from regal_jax.compiler.xla.reschedule import Options
from regal_jax.datasets import jax_train_steps
from regal_jax.reporting import figures, progress, tables
from regal_jax.studies import launch
from regal_jax.studies.compiler import xla_memory
from regal_jax.studies.regal import experiment, ratio_plots

FLAGS = flags.FLAGS

flags.DEFINE_list("programs", None, "family/mode; all, unless given.")
flags.DEFINE_list("methods", list(METHODS), "Methods of one device that orders are found by.")
flags.DEFINE_integer("evaluations", Search().evaluations, "Of auto, on each computation.")
flags.DEFINE_float("time_limit", None, "Seconds of the search of a program.")
flags.DEFINE_integer("top_k", Options().top_k, "Orders of a program that are compiled.")
flags.DEFINE_integer("seed", 0, "Of the search.")
flags.DEFINE_integer("pairs", 5, "Runs of every program in both orders; 0 runs none.")
flags.DEFINE_bool("resident", True, "Measure resident memory, in processes of their own (Linux).")
experiment.define_output("results/xla_memory")


def main(_) -> None:
    jax.config.update("jax_enable_compilation_cache", False)  # compile times are measured
    output = experiment.output_dir()
    search = Search(tuple(FLAGS.methods), FLAGS.evaluations, FLAGS.time_limit, FLAGS.seed)
    with progress.bar("programs", 1) as update:
        rows = xla_memory.measure(
            FLAGS.programs or jax_train_steps.program_names(),
            Options(search, FLAGS.top_k, output / "orders"),
            pairs=FLAGS.pairs,
            resident=FLAGS.resident,
            path=output / "results.csv",
            on_progress=update,
        )
    print(tables.text_table(xla_memory.table(rows)))
    for metric, title in (("temp_ratio", "Temporaries"), ("ratio", "Temporaries and results")):
        print(f"\n{title} over those of XLA's better order")
        print(tables.text_table(xla_memory.summary(rows, metric)))
    figures.drawn(ratio_plots.plot_ratios, xla_memory.ratios(rows), output / "ratios.png")


if __name__ == "__main__":
    launch.run(main)
