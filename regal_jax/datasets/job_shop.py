"""Job shops: the uniform random ones of one-shot priority sampling, the classic ones, their files.

Every job visits every machine once, in an order of its own. As a graph: a chain of ops a job, op
``j * machines + k`` the k-th of job j; a machine type of capacity 1 a machine; demands of 1.
"""

import json
import os
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from regal_jax.datasets.task_graphs import name_and_text, task_graph
from regal_jax.errors import GraphError, OptionError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph

NUM_TRAINING = 100
"""Of the 150 uniform job shops of a size, the first are for training, the others for testing."""

_FOLDER = resources.files("regal_jax.datasets") / "classic_job_shops"
Number = TypeVar("Number", int, float)


def job_shop_graph(
    durations: np.ndarray, machines: np.ndarray, name: str = "job shop"
) -> ComputationGraph:
    """The graph of a job shop.

    Args:
      durations: [jobs, machines], of the ops of each job in their order, in any unit.
      machines: int[jobs, machines], the machine of each, from 0 on.

    Raises:
      GraphError: for a job that doesn't visit every machine once, shapes that aren't two equal
        tables, or durations that are no durations.
    """
    durations, machines = np.asarray(durations), np.asarray(machines)
    if machines.ndim != 2 or machines.shape != durations.shape:
        shapes = f"{machines.shape}, durations {durations.shape}"
        raise GraphError("machines", f"of shape {shapes}: both must be [jobs, machines]")
    if len(wrong := _wrong_jobs(machines)):
        raise GraphError("machines", f"job {wrong[0]}: {_permutation(machines.shape[1])}")
    num_jobs, num_machines = machines.shape
    return task_graph(
        _chains(num_jobs, num_machines),
        durations.ravel(),
        machine_type=machines.ravel(),
        capacity=np.ones(num_machines, np.int64),
        name=name,
        family="job_shop",
    )


def uniform_job_shops(
    num_jobs: int, num_machines: int, count: int = 150, seed: int = 0, sets: int = 1
) -> list[ComputationGraph]:
    """The random job shops of one-shot priority sampling (appendix C.1).

    Jeon et al. 2023, "Neural DAG Scheduling via One-Shot Priority Sampling". By the generator of
    L2D (Zhang et al. 2020, "Learning to Dispatch for Job Shop Scheduling via Deep Reinforcement
    Learning"): for each instance in turn, durations uniform in 1..98, then the ranks of uniform
    numbers as each job's machines. numpy guarantees the stream of ``RandomState``, so the same
    arguments give the same graphs everywhere, and a smaller ``count`` the first of them.

    The paper gives the seed and the sizes (25 or 50 jobs, 10, 20 or 30 machines), not the range of
    durations, which is that generator's default, nor whether the seed is set anew for each size,
    which is assumed.

    With more than one of ``sets`` every job visits all machines of the first before any of the
    second, as in half of Storer et al.'s (1992) and Demirkol et al.'s (1998).

    Raises:
      OptionError: for less than one job or machine, a negative count, sets without machines, or no
        seed of RandomState.
    """
    if not 1 <= sets <= max(num_machines, 1):
        raise OptionError(f"{sets} sets of {num_machines} machines")
    if num_jobs < 1 or num_machines < 1 or count < 0:
        raise OptionError(f"{count} job shops of {num_jobs} jobs and {num_machines} machines")
    if not 0 <= seed < 2**32:
        raise OptionError(f"seed is {seed}, not in [0, 2**32)")
    stream = np.random.RandomState(seed)
    size = (num_jobs, num_machines)
    set_of = np.arange(num_machines) * sets // num_machines
    graphs = []
    for index in range(count):
        durations = stream.randint(1, 99, size, dtype=np.int64)
        machines = np.argsort(stream.random_sample(size) + set_of, axis=1)
        name = f"uniform {num_jobs}x{num_machines} {seed}-{index}"
        graphs.append(job_shop_graph(durations, machines, name))
    return graphs


def uniform_split(split: str, num_jobs: int, num_machines: int) -> list[ComputationGraph]:
    """The paper's ``train`` (100) or ``test`` (50) job shops of one size, of seed 0.

    Raises:
      OptionError: for another split.
    """
    if split not in ("train", "test"):
        raise OptionError(f"split is {split!r}: train or test")
    graphs = uniform_job_shops(num_jobs, num_machines)
    return graphs[:NUM_TRAINING] if split == "train" else graphs[NUM_TRAINING:]


def classic_bounds() -> dict[str, dict[str, Any]]:
    """What is known of each classic job shop, by name, family after family.

    Keys: family; n_jobs; n_machines; lower_bound and upper_bound, the best known; optimum, None
    where they differ; trivial_bound, the longest job or the fullest machine.
    """
    return json.loads((_FOLDER / "bounds.json").read_text())


def classic_job_shops(family: str | None = None) -> list[ComputationGraph]:
    """The 156 classic job shops that the package has, or those of one family, in their order.

    Families: abz, dmu, ft, la, orb, swv, ta, yn; their sources and licences are in
    ``classic_job_shops/README.md`` next to this file. ``source`` tells the family.

    Raises:
      OptionError: for an unknown family.
    """
    family_of = {name: known["family"] for name, known in classic_bounds().items()}
    families = sorted(set(family_of.values()))
    if family is not None and family not in families:
        raise OptionError(f"family {family!r} is none of {', '.join(families)}")
    names = [name for name, own in family_of.items() if family in (None, own)]
    with resources.as_file(_FOLDER / "instances.npz") as path, np.load(path) as arrays:
        return [
            job_shop_graph(arrays[f"{name}_d"], arrays[f"{name}_m"], name).replace(
                source=f"classic job shops/{family_of[name]}"
            )
            for name in names
        ]


def read_job_shop(path_or_text: str | os.PathLike) -> ComputationGraph:
    """The one job shop of a file or text; see ``read_job_shops``."""
    graphs = read_job_shops(path_or_text)
    if len(graphs) != 1:
        name, _ = name_and_text(path_or_text, "job shop")
        raise RegalError(f"{name}: holds {len(graphs)} job shops where one is needed")
    return graphs[0]


def read_job_shops(path_or_text: str | os.PathLike) -> list[ComputationGraph]:
    """The job shops of a file, or of a text (a string of several lines).

    In the standard format, one: the numbers of jobs and machines, then for each job a line of
    pairs of machine, from 0 on, and duration. In Taillard's, any number: a line that begins with
    the numbers of jobs and machines, "Times", a line of durations a job, "Machines", a line of
    machines, from 1 on, a job. Empty lines, and what follows a #, are skipped.

    Raises:
      RegalError: naming file and line.
    """
    where, text = name_and_text(path_or_text, "job shop")
    lines = _lines(where, text)
    starts = [index for index, line in enumerate(lines) if line.words[0].lower() == "times"]
    if not starts:
        return [_standard(where, lines)]
    names = _names(where, len(starts))
    ends = [*starts[1:], len(lines)]
    return [
        _of_taillard(lines[max(start - 1, 0) : end], name, end == len(lines))
        for start, end, name in zip(starts, ends, names, strict=True)
    ]


class _Line(NamedTuple):
    where: str
    words: list[str]


def _names(where: str, count: int) -> list[str]:
    stem = Path(where).stem
    return [stem] if count == 1 else [f"{stem}-{index}" for index in range(count)]


def _lines(where: str, text: str) -> list[_Line]:
    numbered = enumerate(text.splitlines(), 1)
    split = [
        _Line(f"{where}, line {number}", row.split("#")[0].split()) for number, row in numbered
    ]
    return [line for line in split if line.words]


def _standard(where: str, lines: Sequence[_Line]) -> ComputationGraph:
    if not lines:
        raise RegalError(f"{where}: empty where a job shop is needed")
    num_jobs, num_machines = _sizes(lines[0])
    if len(lines[0].words) != 2:
        raise RegalError(f"{lines[0].where}: has more than the numbers of jobs and machines")
    rows = lines[1:]
    if len(rows) != num_jobs:
        raise RegalError(f"{lines[0].where}: {num_jobs} jobs, but {len(rows)} lines follow")
    even = [_Line(line.where, line.words[::2]) for line in rows]
    odd = [_Line(line.where, line.words[1::2]) for line in rows]
    for line in rows:
        _check_width(line, 2 * num_machines)
    return _graph(even, odd, 0, num_machines, Path(where).stem)


def _of_taillard(lines: Sequence[_Line], name: str, is_last: bool) -> ComputationGraph:
    """``lines``: sizes, "Times", ... up to the next "Times"; the sizes of the next come before it.

    Lines of words may stand between two job shops.
    """
    if lines[0].words[0].lower() == "times":
        raise RegalError(f"{lines[0].where}: no numbers of jobs and machines in the line before it")
    num_jobs, num_machines = _sizes(lines[0])
    title = num_jobs + 2
    if len(lines) <= title + num_jobs or lines[title].words[0].lower() != "machines":
        place = lines[min(title, len(lines) - 1)].where
        raise RegalError(f"{place}: {num_jobs} lines of times, 'Machines', and as many are needed")
    times, machines = lines[2:title], lines[title + 1 : title + 1 + num_jobs]
    for line in lines[title + 1 + num_jobs : None if is_last else -1]:
        if line.words[0].isdigit():
            raise RegalError(f"{line.where}: follows the machines of all {num_jobs} jobs")
    for line in (*times, *machines):
        _check_width(line, num_machines)
    return _graph(machines, times, 1, num_machines, name)


def _sizes(line: _Line) -> tuple[int, int]:
    """The numbers of jobs and machines that a line begins with."""
    sizes = _numbers(_Line(line.where, line.words[:2]), int)
    if len(sizes) != 2 or min(sizes) < 1:
        raise RegalError(f"{line.where}: needs the numbers of jobs and machines")
    return sizes[0], sizes[1]


def _graph(
    machines: Sequence[_Line],
    times: Sequence[_Line],
    first_machine: int,
    num_machines: int,
    name: str,
) -> ComputationGraph:
    """Of lines of a job each, all of the right width."""
    machine = np.array([_numbers(line, int) for line in machines]) - first_machine
    duration = np.array([_numbers(line, float) for line in times])
    if len(wrong := _wrong_jobs(machine)):
        permutation = _permutation(num_machines, first_machine)
        raise RegalError(f"{machines[wrong[0]].where}: {permutation}")
    if len(wrong := np.flatnonzero(~np.all(np.isfinite(duration) & (duration >= 0), axis=1))):
        raise RegalError(f"{times[wrong[0]].where}: a duration is negative or not finite")
    return job_shop_graph(duration, machine, name)


def _numbers(line: _Line, kind: Callable[[str], Number]) -> list[Number]:
    numbers = []
    for word in line.words:
        try:
            numbers.append(kind(word))
        except ValueError:
            article = "an integer" if kind is int else "a number"
            raise RegalError(f"{line.where}: {word!r} is not {article}") from None
    return numbers


def _check_width(line: _Line, width: int) -> None:
    if len(line.words) != width:
        raise RegalError(f"{line.where}: has {len(line.words)} numbers where {width} are needed")


def _wrong_jobs(machines: np.ndarray) -> np.ndarray:
    """The jobs that don't visit every machine once."""
    every = np.arange(machines.shape[1])
    return np.flatnonzero(np.any(np.sort(machines, axis=1) != every, axis=1))


def _permutation(num_machines: int, first: int = 0) -> str:
    return f"must visit each of the machines {first}..{num_machines - 1 + first} once"


def _chains(num_jobs: int, num_machines: int) -> np.ndarray:
    """int[E, 2], in lexicographic order: each op of a job before the next."""
    op = np.arange(num_jobs * num_machines).reshape(num_jobs, num_machines)
    return np.stack([op[:, :-1].ravel(), op[:, 1:].ravel()], axis=1)
