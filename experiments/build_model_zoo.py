"""Builds the model zoo: traces the models of installed packages into computation graphs.

    python experiments/build_model_zoo.py --flagfile=experiments/flags/small/build_model_zoo.flags

Resumable: what is in ``--output`` is not made again; what failed is in its ``failures.csv``.
"""

import collections

from absl import flags
from rich.console import Console

from regal_jax.datasets.zoo import build
from regal_jax.datasets.zoo.recipes.recipe import MODES
from regal_jax.studies import launch

_OUTPUT = flags.DEFINE_string("output", "results/model_zoo", "folder to fill")
_SOURCES = flags.DEFINE_list("sources", list(build.SOURCES), "kinds of packages")
_MODES = flags.DEFINE_list("modes", list(MODES), "what to trace of each model")
_MODELS = flags.DEFINE_string("models", "", "regular expression of model names; all if empty")
_SECONDS = flags.DEFINE_float("seconds_per_model", 120.0, "time limit of one model, all modes")
_WORKERS = flags.DEFINE_integer("workers", 2, "processes", lower_bound=1)
_MAX_OPS = flags.DEFINE_integer("max_ops", 20_000, "larger graphs are left out")


def main(_) -> None:
    counts: collections.Counter[str] = collections.Counter()
    console = Console()

    def show(outcome: build.Outcome, done: int, total: int) -> None:
        counts["failed" if outcome.reason else "made"] += 1
        text = outcome.reason or f"{outcome.seconds:.1f} s"
        console.print(f"{done}/{total} {outcome.name}:{outcome.mode}: {text}", soft_wrap=True)

    build.build(
        _OUTPUT.value,
        _SOURCES.value,
        modes=_MODES.value,
        seconds_per_model=_SECONDS.value,
        workers=_WORKERS.value,
        max_ops=_MAX_OPS.value,
        models=_MODELS.value,
        on_outcome=show,
    )
    console.print(f"{counts['made']} graphs made, {counts['failed']} failed, in {_OUTPUT.value}")


if __name__ == "__main__":
    launch.run(main)
