"""Builds the model zoo: traces the models of installed packages into computation graphs.

    python experiments/build_model_zoo.py --flagfile=experiments/flags/small/build_model_zoo.flags

Resumable: what is in ``--output`` is not made again; what failed is in its ``failures.csv``.
"""

import collections
import dataclasses
from dataclasses import dataclass

from absl.flags import FLAGS
from rich.console import Console

from regal_jax.datasets.zoo import build
from regal_jax.datasets.zoo.recipes.recipe import MODES
from regal_jax.studies import flags, launch


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is traced, where to, and how long."""

    output: str = flags.option("results/model_zoo", "folder to fill")
    sources: tuple[str, ...] = flags.option(tuple(build.SOURCES), "kinds of packages")
    modes: tuple[str, ...] = flags.option(tuple(MODES), "what to trace of each model")
    models: str = flags.option("", "regular expression of model names; all if empty")
    seconds_per_model: float = flags.option(120.0, "time limit of one model, all modes")
    workers: int = flags.option(2, "processes", least=1)
    max_ops: int = flags.option(20_000, "larger graphs are left out")


DEFAULTS = Settings()


def main(settings, folder) -> None:
    console = Console()
    counts: collections.Counter[str] = collections.Counter()

    def show(outcome: build.Outcome, done: int, total: int) -> None:
        counts["failed" if outcome.reason else "made"] += 1
        text = outcome.reason or f"{outcome.seconds:.1f} s"
        console.print(f"{done}/{total} {outcome.name}:{outcome.mode}: {text}", soft_wrap=True)

    options = dataclasses.asdict(settings)
    build.build(options.pop("output"), options.pop("sources"), **options, on_outcome=show)
    console.print(f"{counts['made']} graphs made, {counts['failed']} failed, in {settings.output}")


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
