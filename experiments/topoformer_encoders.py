"""Topoformer's encoder and others in its place (table 3 of neural_topological_ordering).

  python experiments/topoformer_encoders.py \
    --flagfile=experiments/flags/smoke/topoformer_encoders.flags

Trains each of --variants on the same layered graphs, in a folder of its own; --encoder has no
effect. Results are rows of a CSV; an interrupted run resumes, in its training, too.
"""

from regal_jax.studies import launch
from regal_jax.studies.regal import experiment as regal_experiment
from regal_jax.studies.topoformer import experiment as topoformer_experiment
from regal_jax.studies.topoformer.tables import PAPER_TABLE_3

ENCODERS = ("mlp", "transformer", "gat", "gat_both", "topoformer_edges", "topoformer")
VARIANTS = {name: {"encoder": name} for name in ENCODERS}
"""Rows of table 3."""

regal_experiment.define_output("results/topoformer_encoders")
topoformer_experiment.define_layered(test_nodes=(500, 1000))
topoformer_experiment.define_comparison(methods=["approximate_dp"])
topoformer_experiment.define_variants(VARIANTS)
topoformer_experiment.define_training()


def main(_) -> None:
    topoformer_experiment.compare_variants(regal_experiment.output_dir(), VARIANTS, PAPER_TABLE_3)


if __name__ == "__main__":
    launch.run(main)
