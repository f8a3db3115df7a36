"""The card of a built model zoo: every graph's structure and measurements, in processes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from regal_jax import compilation_cache
from regal_jax.datasets.zoo import splits
from regal_jax.errors import RegalError
from regal_jax.graphs import files
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.studies import keys
from regal_jax.studies.flags import option
from regal_jax.studies.zoo import card, headroom
from regal_jax.studies.zoo.card import Row

_SAVE_EVERY = 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is packed, where to, and how long graphs are searched."""

    folder: str = option("results/model_zoo", "what build_model_zoo.py filled")
    output: str = option("results/model_zoo_packed", "for the shards and the card")
    evaluations: int = option(2000, "of a search, at most", least=1)
    work: int = option(2_000_000, "evaluations times ops of a search, at most")
    max_ops: int = option(6000, "larger graphs are not searched")
    workers: int = option(2, "processes", least=1)


def describe(
    graphs: Sequence[ComputationGraph],
    path: Path,
    settings: Settings,
    on_graph: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> int:
    """Writes the card of graphs; how many there are in it.

    What the card at ``path`` has measured already, with the same searches, isn't measured again.
    ``on_graph`` is called with each measured graph's name and (done, in all). Raises RegalError for
    a card without a file of the key of its searches (``.key``).
    """
    searches = keys.key(
        evaluations=settings.evaluations,
        work=settings.work,
        max_ops=settings.max_ops,
        shipped=keys.policy_content(None),
    )
    known = _measured_before(path, searches)
    files.write_atomically(
        path.with_suffix(".key"), lambda file: file.write(f"{searches}\n".encode())
    )
    rows = {
        _key(graph): headroom.structure(graph, split) | known.get(_key(graph), {})
        for graph, split in zip(graphs, splits.splits(graphs), strict=True)
    }
    missing = [graph for graph in graphs if _key(graph) not in known]
    done = {key: row for key, row in rows.items() if key in known}
    for number, (graph, columns) in enumerate(_measured(missing, settings), 1):
        done[_key(graph)] = rows[_key(graph)] | columns
        on_graph(graph.name, number, len(missing))
        if number % _SAVE_EVERY == 0:
            card.write_card(done.values(), path)
    card.write_card(done.values(), path)
    return len(done)


def _key(graph: ComputationGraph) -> str:
    """A card's column "fingerprint"."""
    return graph.fingerprint[:16]


def _measured_before(path: Path, searches: str) -> Mapping[str, Row]:
    """What was measured by searches of this key, by fingerprint; nothing without a card."""
    if not path.exists():
        return {}
    key = path.with_suffix(".key")
    if not key.exists():
        raise RegalError(
            f"{path}: has no {key.name} beside it, so what it was measured with isn't known;"
            " move the card away"
        )
    if key.read_text().strip() != searches:
        return {}
    measured = [f"{measure}_{x}" for x in headroom.SETTINGS for measure in card.MEASURES]
    return {
        row["fingerprint"]: {column: row[column] for column in measured}
        for row in card.read_card(path)
    }


def _measured(
    graphs: Sequence[ComputationGraph], settings: Settings
) -> Iterator[tuple[ComputationGraph, dict[str, Any]]]:
    """Each graph and the columns that need a search, in order."""
    budget = partial(_budget, settings.evaluations, settings.work)
    measure = partial(headroom.measure, evaluations=budget, max_ops=settings.max_ops)
    context = get_context("spawn")
    with futures.ProcessPoolExecutor(settings.workers, context, compilation_cache.enable) as pool:
        yield from zip(graphs, pool.map(measure, graphs), strict=True)


def _budget(evaluations: int, work: int, num_ops: int) -> int:
    return max(100, min(evaluations, work // num_ops))
