"""What one-shot priority sampling is trained and tested on, by the name of a setting.

| setting | graphs | module |
|---|---|---|
| job_shop 25x10 | uniform job shops of so many jobs and machines | ``job_shop`` |
| two_sets 20x15 | job shops that visit one half of machines first; no published ones | same |
| tpch 50 | TPC-H plans of so many queries, from a folder of files | ``tpch`` |
| layered 1000, erdos_renyi 1000, ... | random graphs of so many ops | ``machine_graphs`` |
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from regal_jax.datasets import job_shop, machine_graphs, tpch
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph

Folder = str | os.PathLike | None
"""Where the files of TPC-H are; the other settings need none."""

KINDS = ("job_shop", "two_sets", "tpch", *machine_graphs.FAMILIES)
VALIDATION, TRAINING = 3, 4
"""First numbers of seeds of fresh graphs; 0, 1 and 2 are those of ``machine_graphs``' splits."""


def published_graphs(
    setting: str, split: str, count: int, folder: Folder = None
) -> list[ComputationGraph]:
    """The first ``count`` graphs, at most, of the paper's "train" or "test" split of a setting.

    Raises OptionError for a setting that there is none of; RegalError as ``tpch.load_tpch``.
    """
    kind, size = parse(setting)
    if kind == "job_shop":
        return job_shop.uniform_split(split, *_jobs_and_machines(size))[:count]
    if kind == "tpch":
        return tpch.load_tpch(_given(folder), int(size), split)[:count]
    if kind == "two_sets":
        raise OptionError(f"{setting}: the paper has none of them")
    most = min(count, machine_graphs.COUNTS[split])
    return list(machine_graphs.machine_graphs(kind, split, int(size), most))


def fresh_graphs(
    settings: Sequence[str], count: int, seed: Sequence[int], folder: Folder = None
) -> list[ComputationGraph]:
    """New graphs, of the settings in turns; other seeds, other graphs, and none of the published
    ones. RegalError as ``tpch.load_queries``."""
    parsed = [parse(setting) for setting in settings]
    make = dict(_MAKERS)
    if any(kind == "tpch" for kind, _ in parsed):
        records = tpch.load_queries(Path(_given(folder)) / "queries.jsonl.gz")
        make["tpch"] = lambda size, seed: tpch.random_tpch(records, int(size), seed)
    turns = (parsed[index % len(parsed)] for index in range(count))
    return [make[kind](size, (*seed, index)) for index, (kind, size) in enumerate(turns)]


def parse(setting: str) -> tuple[str, str]:
    """(kind, size) of a setting. OptionError if it is none."""
    kind, _, size = setting.partition(" ")
    tables = kind in ("job_shop", "two_sets")
    numbers = size.split("x") if tables else [size]
    right = len(numbers) == (2 if tables else 1)
    if kind not in KINDS or not right or not all(number.isdecimal() for number in numbers):
        raise OptionError(
            f"setting {setting!r} is not KIND SIZE, such as 'job_shop 25x10' or 'layered 500';"
            f" kinds are {', '.join(KINDS)}"
        )
    return kind, size


def _fresh_job_shop(sets: int) -> Callable[[str, Sequence[int]], ComputationGraph]:
    def make(size: str, seed: Sequence[int]) -> ComputationGraph:
        stream = int(np.random.default_rng(seed).integers(1, 2**32))  # 0 is the published ones'
        return job_shop.uniform_job_shops(*_jobs_and_machines(size), 1, stream, sets)[0]

    return make


def _fresh_machine_graph(family: str) -> Callable[[str, Sequence[int]], ComputationGraph]:
    return lambda size, seed: machine_graphs.machine_graph(family, seed, int(size))


_MAKERS: dict[str, Callable[[str, Sequence[int]], ComputationGraph]] = {
    "job_shop": _fresh_job_shop(sets=1),
    "two_sets": _fresh_job_shop(sets=2),
    **{family: _fresh_machine_graph(family) for family in machine_graphs.FAMILIES},
}


def _jobs_and_machines(size: str) -> tuple[int, int]:
    jobs, machines = size.split("x")
    return int(jobs), int(machines)


def _given(folder: Folder) -> str | os.PathLike:
    if folder is None:
        raise OptionError("TPC-H graphs need the folder of their files, --data_dir")
    return folder
