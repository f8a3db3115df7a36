"""The training loop of every learned system: updates, validation, metrics, checkpoints.

A system is a ``Learner``, pure functions, and a stream of batches that is a function of where a run
stands. Updates run on the device, a chunk of batches of one shape at a time.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from regal_jax.errors import OptionError
from regal_jax.graphs import batching
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.training import checkpoints, hosts, settings
from regal_jax.training.metrics_log import MetricsLog

CHUNK = 8
"""Most updates between two looks of the host at what they report."""

MOST_SHAPES = 24
"""Shapes of batches whose programs are kept. A program of XLA on a CPU takes some 2,000 of the
65,530 memory mappings that Linux gives a process; without room for another one the process dies."""

Item = TypeVar("Item")
Metrics = Mapping[str, Any]


@chex.dataclass(frozen=True)
class TrainState:
    """Everything that training changes.

    Attributes:
      params, opt_state: what an update changes, with the state of optax.
      best_params: parameters of least validation cost so far, those of the start before; None for
        a system that selects nothing by validation.
      best_cost: float32[], their cost.
      key: uint32[...], the data of the run's key; that of an update is folded with its step.
      step, epoch: int32[], updates, and validations after updates, so far.
    """

    params: Any
    opt_state: Any
    best_params: Any
    best_cost: chex.Array
    key: chex.Array
    step: chex.Array
    epoch: chex.Array


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Static:
    """A hashable part of a batch that programs are compiled for, such as a cost model."""

    value: Any


class Batch(NamedTuple):
    """What an update sees; after the last one of an epoch come validation and a checkpoint."""

    data: Any
    ends_epoch: bool = False


class Learner(NamedTuple):
    """A way to train.

    Attributes:
      name: of the system.
      init: (key, data of a batch, or what stands for it) -> TrainState.
      update: (key, state, data) -> (state, metrics). One step; the state's ``key`` is left alone.
      validate: (params) -> (cost to select by or None, metrics).
      metrics, validation: names of what ``update`` and ``validate`` report.
      traceable: whether ``update`` can be compiled; else it is called step by step, on the host.
      validates_first: whether the parameters of step 0 are candidates, too.
      mesh: devices that share the first axis of each array of a batch; one device without.
    """

    name: str
    init: Callable[[Any, Any], TrainState]
    update: Callable[[Any, TrainState, Any], tuple[TrainState, Metrics]]
    validate: Callable[[Any], tuple[float | None, Metrics]]
    metrics: tuple[str, ...]
    validation: tuple[str, ...] = ()
    traceable: bool = True
    validates_first: bool = False
    mesh: Mesh | None = None


class PolicyFile(NamedTuple):
    """The file that training leaves: of the best parameters where the learner selects, else of the
    last.

    Attributes:
      path: where. config: of the policy. about: goes into the file.
      part: (params) -> those of the policy.
    """

    path: Path
    config: Any
    about: Mapping[str, Any]
    part: Callable[[Any], Any] = lambda params: params

    def write(self, state: TrainState, found: Metrics) -> None:
        """Writes the parameters of a state, with its step and what validation found, if this is the
        first host."""
        if not hosts.is_first():
            return
        about = {**self.about, "steps": int(state.step), **found}
        checkpoints.save_policy(self.path, self.part(state.params), self.config, about=about)


EpochGraphs = Callable[[int], Sequence[ComputationGraph]]
"""The training graphs of an epoch, a function of its number alone."""

Batches = Callable[[int, int], Iterator[Batch]]
"""(step, epoch) -> the batches from there on: a function of these two alone. It is iterated in a
background thread."""


def fit(
    learner: Learner,
    batches: Batches,
    run_dir: str | os.PathLike,
    *,
    example: Any,
    seed: int,
    policy: PolicyFile,
    hyperparameters: Mapping[str, Any],
    may_grow: Sequence[str] = (),
    chunk: int = CHUNK,
    on_step: Callable[[int, dict[str, float]], None] = lambda step, metrics: None,
) -> TrainState:
    """The state at the end of training. A stopped run goes on from its last checkpoint, to the same
    parameters, bit for bit; chunks of any length do the same arithmetic. Of several hosts the first
    one writes, and calls ``on_step``.

    Args:
      learner, batches: what to train, and on what.
      run_dir: gets ``checkpoints/``, ``metrics.csv`` and ``config.json``.
      example: what ``learner.init`` gets the shapes from.
      seed: of the parameters and all updates.
      policy: the file of the trained policy.
      hyperparameters: dataclasses and other values, by name, that a run must go on with; numbers
        named in ``may_grow``, as in "training.steps", may be larger than it began with.
      chunk: most updates at a time.
      on_step: called with (step, metrics) for each step.

    Raises:
      OptionError: if training diverges, for changed hyperparameters, for checkpoints that have
        none, of older versions, and for several hosts and a learner that runs on one.
    """
    if jax.process_count() > 1 and not (learner.mesh and learner.traceable):
        raise OptionError(f"hosts: {learner.name} is trained on one")
    directory = Path(run_dir).absolute()
    stored = settings.stored({"system": learner.name, **hyperparameters})
    with checkpoints.checkpoint_manager(directory / "checkpoints") as manager:
        earlier = checkpoints.latest_settings(manager)
        settings.check(directory, earlier, stored, may_grow)
        state = checkpoints.restore_latest(manager, _first_state(learner, example, seed))
        log = MetricsLog(directory / "metrics.csv", (*learner.metrics, *learner.validation))
        if hosts.is_first():
            settings.write(directory / "config.json", stored)
            log.start_at(int(state.step))
        if learner.validates_first and int(state.step) == 0:
            state, _ = _validated(learner, state, policy)
        stream = batches(int(state.step), int(state.epoch))
        with _updates(learner, chunk) as advance:
            for group in ahead(groups(stream, chunk if learner.traceable else 1)):
                state, rows = advance(state, group.data)
                if group.ends_epoch:
                    state, found = _validated(learner, state, policy)
                    rows[-1] |= found
                for step, row in enumerate(rows, int(state.step) - len(rows) + 1):
                    if hosts.is_first():
                        log.write(step, row)
                        on_step(step, row)
                if group.ends_epoch:
                    state = _end_epoch(state, policy)
                    checkpoints.save_checkpoint(manager, int(state.step), state, stored)
    return state


def new_state(
    params: Any, optimizer: optax.GradientTransformation, *, selects: bool = True
) -> TrainState:
    """A TrainState of step 0, with the best parameters so far if there are to be any; ``fit`` gives
    it the key of the run."""
    return TrainState(
        params=params,
        opt_state=optimizer.init(params),
        best_params=params if selects else None,
        best_cost=jnp.float32(jnp.inf),
        key=jax.random.key_data(jax.random.key(0)),
        step=jnp.int32(0),
        epoch=jnp.int32(0),
    )


def clipped_adam(clip_norm: float, rate: optax.ScalarOrSchedule) -> optax.GradientTransformation:
    """Adam (0.9, 0.999, 1e-8) behind a clip of the gradient's L2 norm."""
    return optax.chain(optax.clip_by_global_norm(clip_norm), optax.adam(rate))


def stepwise(
    data: Callable[[int], Any], first: int, steps: int, epoch_steps: int
) -> Iterator[Batch]:
    """Batches of the steps from the first on, ``data`` a function of the step; the last of all, and
    every ``epoch_steps``, ends an epoch."""
    for step in range(first, steps):
        yield Batch(data(step), (step + 1) % epoch_steps == 0 or step + 1 == steps)


def changed(state: Any, **changes: Any) -> Any:
    """A state with some fields changed."""
    return dataclasses.replace(state, **changes)


def descend(
    state: TrainState, gradient: Any, optimizer: optax.GradientTransformation
) -> TrainState:
    """The state after a step of the optimizer along a gradient."""
    updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    return changed(state, params=params, opt_state=opt_state, step=state.step + 1)


def device_mesh(batch_size: int) -> Mesh:
    """All devices, to share the graphs of a batch. OptionError if they can't do so evenly."""
    mesh = Mesh(np.array(jax.devices()), ("graphs",))
    if batch_size % mesh.size:
        raise OptionError(
            f"batch_size ({batch_size}) must be a multiple of the {mesh.size} devices"
        )
    return mesh


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items, the next one made in the background."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        end = object()
        waiting = pool.submit(next, items, end)
        while (item := waiting.result()) is not end:
            waiting = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


class Group(NamedTuple):
    """Data of batches that follow each other; the last may end an epoch."""

    data: list[Any]
    ends_epoch: bool


def groups(batches: Iterator[Batch], most: int) -> Iterator[Group]:
    """The batches in groups of one shape, ``most`` at most, none across the end of an epoch."""
    data: list[Any] = []
    for batch in batches:
        if data and _shape(batch.data) != _shape(data[0]):
            yield Group(data, False)
            data = []
        data.append(batch.data)
        if batch.ends_epoch or len(data) == most:
            yield Group(data, batch.ends_epoch)
            data = []
    if data:
        yield Group(data, False)


def _shape(data: Any) -> Any:
    """What a program is compiled for."""
    leaves, structure = jax.tree.flatten(data)
    return structure, tuple((np.shape(leaf), np.result_type(leaf)) for leaf in leaves)


def _first_state(learner: Learner, example: Any, seed: int) -> TrainState:
    init_key, key = jax.random.split(jax.random.key(seed))
    state = learner.init(init_key, example)
    state = changed(state, key=jax.random.key_data(key))
    return jax.device_put(state, NamedSharding(_mesh(learner), P()))


def _mesh(learner: Learner) -> Mesh:
    return learner.mesh or Mesh(np.array(jax.local_devices()[:1]), ("graphs",))


def _validated(
    learner: Learner, state: TrainState, policy: PolicyFile
) -> tuple[TrainState, Metrics]:
    """The state with its parameters as the best ones, if they are, and what validation found."""
    if not checkpoints.are_finite(state.params):
        raise OptionError(
            "parameters are not finite: training has diverged; a lower learning_rate?"
        )
    cost, found = learner.validate(_here(state.params))
    if cost is None or not np.float32(cost) < state.best_cost:
        return state, found
    policy.write(state, found)
    best = jax.device_put(np.float32(cost), state.best_cost.sharding)
    return changed(state, best_params=state.params, best_cost=best), found


def _here(params: Any) -> Any:
    """Parameters that are on several hosts, as arrays of this one."""
    return params if jax.process_count() == 1 else jax.device_get(params)


def _end_epoch(state: TrainState, policy: PolicyFile) -> TrainState:
    """The state of a new epoch; writes the policy if nothing is selected by validation."""
    if state.best_params is None:
        policy.write(state, {})
    return changed(state, epoch=state.epoch + 1)


Advance = Callable[[TrainState, list[Any]], tuple[TrainState, list[dict[str, Any]]]]
"""(state, data of batches) -> (the state after their updates, what each reported)."""


@contextlib.contextmanager
def _updates(learner: Learner, chunk: int) -> Iterator[Advance]:
    """The updates of a learner; programs are dropped in the end, and beyond ``MOST_SHAPES``."""
    if not learner.traceable:
        yield functools.partial(_on_host, learner)
        return
    mesh, shapes = _mesh(learner), set[Any]()
    own = P(None, *mesh.axis_names) if learner.mesh else P()
    placed = NamedSharding(mesh, P())
    steps: Any = jax.jit(functools.partial(_steps, learner), out_shardings=placed)

    def advance(state, data):
        if len(shapes | {_shape(data[0])}) > MOST_SHAPES:
            steps.clear_cache()
            shapes.clear()
        shapes.add(_shape(data[0]))
        filled = data + data[-1:] * (chunk - len(data))
        stacked = batching.stacked(filled)
        state, table = steps(state, len(data), jax.device_put(stacked, NamedSharding(mesh, own)))
        rows = np.asarray(table)[: len(data)].tolist()
        return state, [dict(zip(learner.metrics, row, strict=True)) for row in rows]

    try:
        yield advance
    finally:
        steps.clear_cache()


def _steps(learner: Learner, state: TrainState, count, data):
    """(the state after ``count`` updates, their metrics float32[C, M]), of C batches, stacked.

    The number of updates is not compiled in, so that it can't change how they are computed.
    """

    def step(index, carry):
        state, table = carry
        one = jax.tree.map(lambda leaf: leaf[index], data)
        state, found = learner.update(_step_key(state), state, one)
        row = jnp.stack([jnp.float32(found[name]) for name in learner.metrics])
        return state, table.at[index].set(row)

    table = jnp.zeros((len(jax.tree.leaves(data)[0]), len(learner.metrics)), jnp.float32)
    return jax.lax.fori_loop(0, count, step, (state, table))


def _on_host(learner: Learner, state: TrainState, data: list[Any]):
    """(the state after the updates, one after the other, their metrics)."""
    rows = []
    for one in data:
        state, found = learner.update(_step_key(state), state, one)
        rows.append({name: float(found[name]) for name in learner.metrics})
    return state, rows


def _step_key(state: TrainState) -> chex.PRNGKey:
    return jax.random.fold_in(jax.random.wrap_key_data(state.key), state.step)
