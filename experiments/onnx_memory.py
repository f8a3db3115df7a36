"""Memory of ONNX models, run in the order of their file and in ours.

  python experiments/onnx_memory.py

Results are rows of a CSV; a run resumes.
"""

from absl.flags import FLAGS

from regal_jax.reporting import tables
from regal_jax.studies import launch
from regal_jax.studies.compiler import onnx_memory
from regal_jax.studies.compiler.onnx_memory import Settings
from regal_jax.studies.compiler.tables import onnx_lines

DEFAULTS = Settings(output_dir="results/onnx_memory")


def main(settings, folder) -> None:
    rows = onnx_memory.measure(settings, folder() / "results.csv")
    print(tables.text_table(onnx_lines(rows)))


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
