"""Topoformer's encoder and others in its place (table 3 of neural_topological_ordering).

  python experiments/topoformer_encoders.py \
    --flagfile=experiments/flags/smoke/topoformer_encoders.flags

Trains each of --variants on the same layered graphs, in a folder of its own; --encoder has no
effect. Results are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.topoformer import comparison
from regal_jax.studies.topoformer.settings import Variants
from regal_jax.studies.topoformer.tables import PAPER_TABLE_3

ENCODERS = ("mlp", "transformer", "gat", "gat_both", "topoformer_edges", "topoformer")
VARIANTS = {name: {"encoder": name} for name in ENCODERS}
"""Rows of table 3."""

DEFAULTS = Variants(output_dir="results/topoformer_encoders", variants=tuple(VARIANTS))


def main(settings, folder) -> None:
    output = folder()
    comparison.compare_variants(output, VARIANTS, settings, PAPER_TABLE_3)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
