"""Priorities in one pass or autoregressive decoding (table 4 of neural_topological_ordering).

  python experiments/topoformer_decoders.py \
    --flagfile=experiments/flags/smoke/topoformer_decoders.flags

Trains each of --variants on the same layered graphs, in a folder of its own; --encoder and
--decoder have no effect. Unlike in the paper, there are as many samples, and beams as wide, at 1000
nodes as at 500. Results are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from regal_jax.studies import launch
from regal_jax.studies.regal import experiment as regal_experiment
from regal_jax.studies.topoformer import experiment as topoformer_experiment
from regal_jax.studies.topoformer.tables import PAPER_TABLE_4

VARIANTS = {
    "gnn_ar": {"encoder": "topoformer_edges", "decoder": "ar"},
    "topoformer_ar": {"encoder": "topoformer", "decoder": "ar"},
    "topoformer_nar": {"encoder": "topoformer", "decoder": "nar"},
}
"""Rows of table 4; for the first see ``OrderingConfig``."""

regal_experiment.define_output("results/topoformer_decoders")
topoformer_experiment.define_layered(test_nodes=(500, 1000))
topoformer_experiment.define_comparison(methods=["approximate_dp"])
topoformer_experiment.define_variants(VARIANTS)
topoformer_experiment.define_training()


def main(_) -> None:
    topoformer_experiment.compare_variants(regal_experiment.output_dir(), VARIANTS, PAPER_TABLE_4)


if __name__ == "__main__":
    launch.run(main)
