"""Topoformer's encoder and others in its place (table 3 of neural_topological_ordering).

  python experiments/topoformer_encoders.py \
    --flagfile=experiments/flags/smoke/topoformer_encoders.flags

Trains each of --variants on the same layered graphs, in a folder of its own; --encoder has no
effect. Results are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from regal_jax import launch, ordering_study, study
from regal_jax.reporting.ordering_tables import PAPER_TABLE_3

ENCODERS = ("mlp", "transformer", "gat", "gat_both", "topoformer_edges", "topoformer")
VARIANTS = {name: {"encoder": name} for name in ENCODERS}
"""Rows of table 3."""

study.define_output("results/topoformer_encoders")
ordering_study.define_layered(test_nodes=(500, 1000))
ordering_study.define_comparison(methods=["approximate_dp"])
ordering_study.define_variants(VARIANTS)
ordering_study.define_training()


def main(_) -> None:
    ordering_study.compare_variants(study.output_dir(), VARIANTS, PAPER_TABLE_3)


if __name__ == "__main__":
    launch.run(main)
