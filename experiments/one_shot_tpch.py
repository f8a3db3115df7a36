"""One-shot priority sampling on TPC-H (table 2 of one_shot_priority_sampling).

  python experiments/one_shot_tpch.py --data_dir=data/tpch \\
    --flagfile=experiments/flags/smoke/one_shot_tpch.flags

Plans of 50, 100 or 150 queries on 6,000 units, from the files that ``datasets.tpch`` describes: 50
graphs of each to train on, or new ones of single queries (--train_instances=fresh), and 10 to test
on. Makespans are in ms. Our copy of the paper lacks its tables of results; the published numbers
beside ours are PPO-BiHyb's (``studies/paper_numbers``). Results are rows of a CSV; an
interrupted run resumes, in its training, too.
"""

from absl.flags import FLAGS

from regal_jax.studies import launch
from regal_jax.studies.one_shot import comparison, corpora
from regal_jax.studies.one_shot.settings import METHODS, Settings
from regal_jax.studies.one_shot.tables import PUBLISHED_TPCH

NOTE = """published: PPO-BiHyb's, who count used capacity in floating-point shares, by whose
rounding ops that fit exactly may not fit; ours are exact integers (and ties go to the lower op
index, not the higher), so that rules differ, too"""

DEFAULTS = Settings(
    output_dir="results/one_shot_tpch",
    settings=("tpch 50", "tpch 100", "tpch 150"),
    methods=(*METHODS, "tetris"),
)


def main(settings, folder) -> None:
    output, graphs = folder(), corpora.test_graphs(settings)
    corpus = corpora.corpora(settings)
    comparison.run(graphs, corpus, output, settings, published=PUBLISHED_TPCH)
    print(NOTE)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
