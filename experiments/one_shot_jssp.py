"""One-shot priority sampling on job shops (tables 1, 5 and 6 of one_shot_priority_sampling).

  python experiments/one_shot_jssp.py --flagfile=experiments/flags/smoke/one_shot_jssp.flags

Uniform job shops of 25 or 50 jobs on 10, 20 or 30 machines: 100 of each size to train on, or new
ones (--train_instances=fresh), and 50 to test on. With --classic the tests are the literature's
instances, by family, and gaps are from the best known makespans; policies are trained on fresh
job shops of --train_settings. Our copy of the paper lacks its tables of results, so that none of
its numbers stand beside ours. Results are rows of a CSV; an interrupted run resumes, in its
training, too.
"""

from dataclasses import dataclass

from absl.flags import FLAGS

from regal_jax.studies import flags, launch
from regal_jax.studies.one_shot import comparison, corpora
from regal_jax.studies.one_shot.settings import Settings

SIZES = ("25x10", "25x20", "25x30", "50x10", "50x20", "50x30")
FAMILIES = ("ft", "la", "abz", "orb", "yn", "swv", "ta", "dmu")


@dataclass(frozen=True, kw_only=True)
class JobShops(Settings):
    """Policies for job shops."""

    classic: bool = flags.option(False, "Test on the literature's job shops.")
    families: tuple[str, ...] = flags.option(FAMILIES, "Of them.", least=1)


DEFAULTS = JobShops(
    output_dir="results/one_shot_jssp", settings=tuple(f"job_shop {size}" for size in SIZES)
)


def main(settings, folder) -> None:
    output = folder()
    if not settings.classic:
        graphs = corpora.test_graphs(settings)
        comparison.run(graphs, corpora.corpora(settings), output, settings)
        return
    graphs, bounds = corpora.classic_job_shops(settings.families, settings.test_graphs)
    corpus = dict.fromkeys(graphs, corpora.fresh_corpus(settings))
    comparison.run(graphs, corpus, output, settings, bounds=bounds)


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
