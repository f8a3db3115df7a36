"""Where a study's searches run: in this process, in several, on a Ray cluster, or as Slurm jobs.

Every place but this process is a ``concurrent.futures.Executor``. Tasks are functions of modules,
and arguments that can be pickled; what they return comes back to the driver, which alone writes
files.
"""

import multiprocessing
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any, TypeVar

from regal_jax import compilation_cache
from regal_jax.errors import MissingDependencyError, OptionError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph

T = TypeVar("T")

HERE = "here"
KINDS = f"{HERE}, processes[:N], ray, ray://HOST:PORT, submitit:CLUSTER[,NAME=VALUE...]"
ATTEMPTS = 3
"""Times in a row that workers die before anything is done, until it is given up."""
POLL = 0.5
"""Seconds between two looks at a cluster's jobs."""


class WorkerLost(Exception):
    """A worker died, with its task not done."""


def completed(
    where: str, function: Callable[..., T], tasks: Sequence[tuple]
) -> Iterator[tuple[int, T]]:
    """(number of the task, ``function(*task)``), as they are done; here, in their order.

    The tasks of a worker that died are done again by another.

    Args:
      where: one of ``KINDS``; see docs/many_machines.md.
      function: of a module. tasks: its arguments.

    Raises:
      OptionError, MissingDependencyError: for a place that is unknown, or isn't installed.
      RegalError: if workers keep dying. Also whatever a task raises.
    """
    if where == HERE:
        yield from ((number, function(*task)) for number, task in enumerate(tasks))
        return
    left, deaths = dict(enumerate(tasks)), 0
    while left:
        before, executor = len(left), make(where)
        try:
            number_of = {executor.submit(_work, function, *left[n]): n for n in left}
            for future in futures.as_completed(number_of):
                if not isinstance(future.exception(), futures.BrokenExecutor | WorkerLost):
                    del left[number_of[future]]
                    yield number_of[future], future.result()
        finally:
            executor.shutdown(cancel_futures=True)
        deaths = deaths + 1 if len(left) == before else 0
        if deaths == ATTEMPTS:
            raise RegalError(
                f"executor {where}: workers died {ATTEMPTS} times over, {len(left)} tasks are left;"
                " what is done is kept. If it is for want of memory, take fewer workers"
            )


def _work(function: Callable[..., T], *task: Any) -> T:
    """A task on a worker, which keeps its compiled programs for the others of its machine."""
    compilation_cache.enable()
    return function(*task)


def make(where: str) -> futures.Executor:
    """The executor of a place. Raises OptionError and MissingDependencyError."""
    kind, _, rest = where.partition(":")
    if kind == "processes" and (not rest or (rest.isdecimal() and int(rest) > 0)):
        context = multiprocessing.get_context("spawn")  # JAX has threads: forks hang
        return futures.ProcessPoolExecutor(int(rest) if rest else None, context)
    if where == "ray" or where.startswith("ray://"):
        return Ray(where if rest else None)
    if kind == "submitit":
        cluster, *options = rest.split(",")
        if cluster and all("=" in option for option in options):
            return Submitit(cluster, dict(option.split("=", 1) for option in options))
    raise OptionError(f"executor: must be one of {KINDS}, got {where!r}")


class Ray(futures.Executor):
    """Tasks on a Ray cluster; a graph goes to each node once.

    ``address`` None is the cluster of ``RAY_ADDRESS``, the one running here, or a new one.
    """

    def __init__(self, address: str | None):
        try:
            import ray
        except ImportError:
            raise MissingDependencyError("ray", "ray") from None
        self._ray, self._kept = ray, dict[int, tuple]()
        ray.init(address, ignore_reinit_error=True, log_to_driver=False)

    def submit(self, function: Callable, /, *args: Any, **kwargs: Any) -> futures.Future:
        remote = self._ray.remote(function).remote(*map(self._shared, args), **kwargs)
        result: futures.Future = futures.Future()
        remote.future().add_done_callback(lambda done: self._finish(result, done))
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._ray.shutdown()

    def _shared(self, argument: Any) -> Any:
        """A graph as a reference into the object store."""
        if not isinstance(argument, ComputationGraph):
            return argument
        if id(argument) not in self._kept:
            self._kept[id(argument)] = argument, self._ray.put(argument)
        return self._kept[id(argument)][1]

    def _finish(self, result: futures.Future, done: futures.Future) -> None:
        errors, error = self._ray.exceptions, done.exception()
        if error is None:
            result.set_result(done.result())
        elif isinstance(error, errors.RayTaskError) or not isinstance(error, errors.RayError):
            result.set_exception(error)
        else:
            result.set_exception(WorkerLost(str(error)))


class Submitit(futures.Executor):
    """Tasks as jobs of a cluster: "slurm", or "local" for trying it out.

    Options are submitit's parameters, and ``jobs``, how many there are at once (100), and
    ``folder``, where its logs are ("submitit").
    """

    def __init__(self, cluster: str, options: dict[str, str]):
        try:
            import submitit
        except ImportError:
            raise MissingDependencyError("submitit", "submitit") from None
        self._utils, self._most = submitit.core.utils, int(options.pop("jobs", 100))
        folder = options.pop("folder", "submitit")
        known = {name: int(v) if v.isdecimal() else v for name, v in options.items()}
        try:
            self._cluster = submitit.AutoExecutor(folder, cluster)
            self._cluster.update_parameters(**{"timeout_min": 60} | known)
        except (RuntimeError, NameError, TypeError, ValueError) as error:
            raise OptionError(f"executor: submitit:{cluster}: {error}") from None
        self._waiting: deque[tuple[futures.Future, tuple]] = deque()
        self._running: list[tuple[futures.Future, Any]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def submit(self, function: Callable, /, *args: Any, **kwargs: Any) -> futures.Future:
        assert not kwargs
        result: futures.Future = futures.Future()
        self._waiting.append((result, (function, *args)))
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._stop.set()
        self._thread.join()
        for _, job in self._running:
            job.cancel()

    def _watch(self) -> None:
        """Starts jobs and hands out their results, in a thread of its own."""
        while not self._stop.wait(POLL):
            while self._waiting and len(self._running) < self._most:
                result, task = self._waiting.popleft()
                self._running.append((result, self._cluster.submit(*task)))
            for result, job in [one for one in self._running if one[1].done()]:
                self._running.remove((result, job))
                self._finish(result, job)

    def _finish(self, result: futures.Future, job: Any) -> None:
        error = job.exception()
        if error is None:
            result.set_result(job.result())
        elif isinstance(error, self._utils.FailedJobError):  # the task's own
            result.set_exception(error)
        else:
            result.set_exception(WorkerLost(str(error)))
