"""Packs a built model zoo: one graph of every topology in shards, and a card of what is in them.

    python experiments/pack_model_zoo.py --flagfile=experiments/flags/small/pack_model_zoo.flags

Measuring (bounds, simple orders, a search on one and two devices) takes a second or two a graph.
What the card in ``--output`` has already isn't measured again.
"""

from pathlib import Path

from absl.flags import FLAGS
from rich.console import Console

from regal_jax.datasets.zoo import load, pack
from regal_jax.studies import launch
from regal_jax.studies.zoo import packing
from regal_jax.studies.zoo.packing import Settings

DEFAULTS = Settings()


def main(settings, folder) -> None:
    console = Console()
    output = Path(settings.output)
    output.mkdir(parents=True, exist_ok=True)
    graphs = pack.distinct(load.model_zoo(folder=settings.folder))
    for path in pack.save(graphs, output):
        console.print(f"wrote {path}: {path.stat().st_size / 2**20:.1f} MiB")

    def show(name: str, done: int, total: int) -> None:
        console.print(f"{done}/{total} {name}", soft_wrap=True)

    path = output / "model_zoo.csv"
    count = packing.describe(graphs, path, settings, show)
    console.print(f"{count} graphs, described in {path}")


if __name__ == "__main__":
    launch.run(main, DEFAULTS, FLAGS)
