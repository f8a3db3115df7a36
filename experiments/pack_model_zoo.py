"""Packs a built model zoo: one graph of every topology in shards, and a card of what is in them.

    python experiments/pack_model_zoo.py --flagfile=experiments/flags/small/pack_model_zoo.flags

Measuring (bounds, simple orders, a search on one and two devices) takes a second or two a graph.
What the card in ``--output`` has already isn't measured again.
"""

from collections.abc import Iterator, Sequence
from concurrent import futures
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from absl import flags
from rich.console import Console

from regal_jax import compilation_cache
from regal_jax.datasets.zoo import load, pack
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.studies import launch
from regal_jax.studies.zoo import card, headroom

_FOLDER = flags.DEFINE_string("folder", "results/model_zoo", "what build_model_zoo.py filled")
_OUTPUT = flags.DEFINE_string("output", "results/model_zoo_packed", "for the shards and the card")
_EVALUATIONS = flags.DEFINE_integer("evaluations", 2000, "of a search, at most", lower_bound=1)
_WORK = flags.DEFINE_integer("work", 2_000_000, "evaluations times ops of a search, at most")
_MAX_OPS = flags.DEFINE_integer("max_ops", 6000, "larger graphs are not searched")
_WORKERS = flags.DEFINE_integer("workers", 2, "processes", lower_bound=1)

_SAVE_EVERY = 20


def main(_) -> None:
    console, output = Console(), Path(_OUTPUT.value)
    output.mkdir(parents=True, exist_ok=True)
    graphs = pack.distinct(load.model_zoo(folder=_FOLDER.value))
    for path in pack.save(graphs, output):
        console.print(f"wrote {path}: {path.stat().st_size / 2**20:.1f} MiB")
    path = output / "model_zoo.csv"
    known = _columns_of(path)
    rows = {
        graph.fingerprint[:16]: headroom.structure(graph, split)
        | known.get(graph.fingerprint[:16], {})
        for graph, split in zip(graphs, load.splits(graphs), strict=True)
    }
    missing = [graph for graph in graphs if graph.fingerprint[:16] not in known]
    done = {key: row for key, row in rows.items() if key in known}
    for number, (graph, columns) in enumerate(_measured(missing), 1):
        key = graph.fingerprint[:16]
        done[key] = rows[key] | columns
        console.print(f"{number}/{len(missing)} {graph.name}", soft_wrap=True)
        if number % _SAVE_EVERY == 0:
            card.write_card(done.values(), path)
    card.write_card(done.values(), path)
    console.print(f"{len(done)} graphs, described in {path}")


def _columns_of(path: Path) -> dict[str, dict[str, Any]]:
    """What was measured before, by fingerprint; nothing without a card."""
    if not path.exists():
        return {}
    measured = [f"{measure}_{x}" for x in headroom.SETTINGS for measure in card.MEASURES]
    return {
        row["fingerprint"]: {column: row[column] for column in measured}
        for row in card.read_card(path)
    }


def _measured(
    graphs: Sequence[ComputationGraph],
) -> Iterator[tuple[ComputationGraph, dict[str, Any]]]:
    """Each graph and the columns that need a search, in order."""
    budget = partial(_budget, _EVALUATIONS.value, _WORK.value)
    measure = partial(headroom.measure, evaluations=budget, max_ops=_MAX_OPS.value)
    context = get_context("spawn")
    with futures.ProcessPoolExecutor(_WORKERS.value, context, compilation_cache.enable) as pool:
        yield from zip(graphs, pool.map(measure, graphs), strict=True)


def _budget(evaluations: int, work: int, num_ops: int) -> int:
    return max(100, min(evaluations, work // num_ops))


if __name__ == "__main__":
    launch.run(main)
