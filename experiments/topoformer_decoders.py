"""Priorities in one pass or autoregressive decoding (table 4 of neural_topological_ordering).

  python experiments/topoformer_decoders.py \
    --flagfile=experiments/flags/smoke/topoformer_decoders.flags

Trains each of --variants on the same layered graphs, in a folder of its own; --encoder and
--decoder have no effect. Unlike in the paper, there are as many samples, and beams as wide, at 1000
nodes as at 500. Results are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.topoformer import comparison
from regal_jax.studies.topoformer.settings import Variants
from regal_jax.studies.topoformer.tables import PAPER_TABLE_4

VARIANTS = {
    "gnn_ar": {"encoder": "topoformer_edges", "decoder": "ar"},
    "topoformer_ar": {"encoder": "topoformer", "decoder": "ar"},
    "topoformer_nar": {"encoder": "topoformer", "decoder": "nar"},
}
"""Rows of table 4; for the first see ``OrderingConfig``."""

DEFAULTS = Variants(output_dir="results/topoformer_decoders", variants=tuple(VARIANTS))


def main(settings, folder) -> None:
    output = folder()
    comparison.compare_variants(output, VARIANTS, settings, PAPER_TABLE_4)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
