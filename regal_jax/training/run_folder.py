"""What the loops of policies share: a folder that a stopped run goes on from, and work ahead."""

import concurrent.futures
import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.training import checkpoints
from regal_jax.training.metrics_log import MetricsLog

EpochGraphs = Callable[[int], Sequence[ComputationGraph]]
"""The training graphs of an epoch, a function of its number alone."""

Item = TypeVar("Item")
State = TypeVar("State")


class RunFolder:
    """``checkpoints/``, ``metrics.csv`` and ``best.policy`` of one training run.

    States are dataclasses with params, baseline (the best params so far), best (their validation
    cost) and step.
    """

    def __init__(self, directory: Path, metrics: Sequence[str], manager: Any):
        self.best_policy = directory / "best.policy"
        self.log = MetricsLog(directory / "metrics.csv", metrics)
        self._manager = manager

    def restored(self, state: State) -> State:
        """The state of the latest checkpoint, ``state`` without one; the log goes on from there."""
        state = checkpoints.restore_latest(self._manager, state)
        self.log.start_at(int(state.step))  # type: ignore[attr-defined]
        return state

    def save(self, state: Any) -> None:
        """Writes a checkpoint."""
        checkpoints.save_checkpoint(self._manager, int(state.step), state)

    def keep_better(self, state: Any, cost: float, config: Any, about: dict[str, Any]) -> Any:
        """The state with its params as the baseline, and ``best.policy``, if ``cost`` is lower."""
        if cost >= float(state.best):
            return state
        facts = {**about, "steps": int(state.step), "validation_cost": cost}
        checkpoints.save_policy(self.best_policy, state.params, config, about=facts)
        best = jax.device_put(jnp.float32(cost), state.best.sharding)
        return dataclasses.replace(state, baseline=state.params, best=best)


@contextlib.contextmanager
def open_run(directory: str | os.PathLike, metrics: Sequence[str]) -> Iterator[RunFolder]:
    """The folder of a run, made if it isn't there, with the columns of its log."""
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    with checkpoints.checkpoint_manager(path / "checkpoints") as manager:
        yield RunFolder(path, metrics, manager)


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items, the next one made in the background."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        end = object()
        waiting = pool.submit(next, items, end)
        while (item := waiting.result()) is not end:
            waiting = pool.submit(next, items, end)
            yield item  # type: ignore[misc]
