"""Memory of ONNX models, run in the order of their file and in ours.

  python experiments/onnx_memory.py

Results are rows of a CSV; a run resumes.
"""

from absl.flags import FLAGS

from regal_jax.reporting import tables
from regal_jax.studies import flags, launch
from regal_jax.studies.compiler import onnx_memory
from regal_jax.studies.compiler.onnx_memory import Settings
from regal_jax.studies.compiler.tables import onnx_lines

DEFAULTS = Settings(output_dir="results/onnx_memory")
flags.define(DEFAULTS, FLAGS)


def main(_) -> None:
    settings = flags.read(DEFAULTS, FLAGS)
    output = launch.folder(settings, FLAGS)
    print(tables.text_table(onnx_lines(onnx_memory.measure(settings, output / "results.csv"))))


if __name__ == "__main__":
    launch.run(main, FLAGS)
