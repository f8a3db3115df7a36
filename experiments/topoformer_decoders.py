"""Priorities in one pass or autoregressive decoding (table 4 of neural_topological_ordering).

  python experiments/topoformer_decoders.py \
    --flagfile=experiments/flags/smoke/topoformer_decoders.flags

Trains each of --variants on the same layered graphs, in a folder of its own; --encoder and
--decoder have no effect. Unlike in the paper, there are as many samples, and beams as wide, at 1000
nodes as at 500. Results are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from regal_jax import launch, ordering_study, study
from regal_jax.reporting.ordering_tables import PAPER_TABLE_4

VARIANTS = {
    "gnn_ar": {"encoder": "topoformer_edges", "decoder": "ar"},
    "topoformer_ar": {"encoder": "topoformer", "decoder": "ar"},
    "topoformer_nar": {"encoder": "topoformer", "decoder": "nar"},
}
"""Rows of table 4; for the first see ``OrderingConfig``."""

study.define_output("results/topoformer_decoders")
ordering_study.define_layered(test_nodes=(500, 1000))
ordering_study.define_comparison(methods=["approximate_dp"])
ordering_study.define_variants(VARIANTS)
ordering_study.define_training()


def main(_) -> None:
    ordering_study.compare_variants(study.output_dir(), VARIANTS, PAPER_TABLE_4)


if __name__ == "__main__":
    launch.run(main)
