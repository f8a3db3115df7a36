"""Schedules built op by op: partial schedules as states, (op, device) pairs as actions.

gflownet_robust_scheduling, section 2.3. An op may be added to a device once all ops it reads from
have been; it starts when its device is free and its inputs have arrived (eq. 2; with a latency or
time per byte they arrive later on other devices, as in ``environments.makespan``). The last op of
a device may be taken away again if none that reads from it is there.

Functions are of one state; padding of a graph is never schedulable. Steps and start times are in
JAX's precision.

Device symmetry: devices are identical, so renaming them makes another state that is as good, D! of
each complete schedule that uses all D devices. With ``symmetric`` only the first of the empty
devices may be opened: states then stand for their sets of chains, whose number the factor leaves.
For such a state, an action that opens a device and one that empties it are unique, whatever the
names, so the probabilities of a policy that does not look at names (forward over the ops and
opened devices and one new one, backward over the last ops) are those of a flow on sets of chains.
The paper's network sees names; it then needs ``symmetric=False``, where all empty devices are
different actions.
"""

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph


@chex.dataclass(frozen=True)
class ConstructionProblem:
    """A graph as construction sees it, padded to O ops.

    Attributes:
      duration: float32[O], us; 0 for padding.
      before: bool[O, O], whether op v reads an output of op u, at [u, v].
      delay: float32[O, O], us from the end of u until all that v reads has arrived elsewhere.
      num_ops: int32[], without padding.
    """

    duration: chex.Array
    before: chex.Array
    delay: chex.Array
    num_ops: chex.Array


@chex.dataclass(frozen=True)
class PartialSchedule:
    """Chains of ops on D devices, and what follows from them.

    Attributes:
      device: int32[O], -1 for ops that aren't in the schedule.
      start: float[O], us; -1 for ops that aren't in the schedule.
      last: int32[D], the last op of each device, -1 for an empty one.
      missing: int32[O], of the ops it reads from, how many aren't in the schedule.
      readers: int32[O], of the ops that read from it, how many are in the schedule.
      arrival: float[O, D], us, when what is in the schedule of its inputs has arrived on a device.
    """

    device: chex.Array
    start: chex.Array
    last: chex.Array
    missing: chex.Array
    readers: chex.Array
    arrival: chex.Array


def construction_problem(
    graph: ComputationGraph, platform: Platform, num_ops: int | None = None
) -> ConstructionProblem:
    """The problem of a graph, padded if a number of ops is given; OptionError if it is too low."""
    size = graph.num_ops if num_ops is None else num_ops
    if size < graph.num_ops:
        raise OptionError(f"{graph} does not fit {size} ops")
    duration = np.zeros(size, np.float32)
    duration[: graph.num_ops] = graph.duration
    producer, tensor, consumer = graph.edges.T
    before = np.zeros((size, size), bool)
    before[producer, consumer] = True
    delay = np.zeros((size, size), np.float32)
    moved = platform.latency + graph.size[tensor] * platform.per_byte
    np.maximum.at(delay, (producer, consumer), moved.astype(np.float32))
    return ConstructionProblem(
        duration=duration, before=before, delay=delay, num_ops=np.int32(graph.num_ops)
    )


def empty(problem: ConstructionProblem, num_devices: int) -> PartialSchedule:
    """The first state: nothing is scheduled."""
    size = len(problem.duration)
    return PartialSchedule(
        device=jnp.full(size, -1, jnp.int32),
        start=jnp.full(size, -1.0, problem.duration.dtype),
        last=jnp.full(num_devices, -1, jnp.int32),
        missing=jnp.sum(problem.before, axis=0, dtype=jnp.int32),
        readers=jnp.zeros(size, jnp.int32),
        arrival=jnp.zeros((size, num_devices), problem.duration.dtype),
    )


def step(
    problem: ConstructionProblem, state: PartialSchedule, op: jax.Array, device: jax.Array
) -> PartialSchedule:
    """The state with an op added to the end of a device. Any op beyond the padding changes nothing.

    The action must be valid (``ready``).
    """
    size, num_devices = state.arrival.shape
    at_op, at_device = jnp.arange(size) == op, jnp.arange(num_devices) == device
    on = at_device & (op < size)
    arrival = jnp.sum(jnp.where(at_op[:, None] & at_device, state.arrival, 0.0))
    start = jnp.maximum(arrival, jnp.sum(jnp.where(at_device, free(problem, state), 0.0)))
    finish = start + _row(problem.duration, op)
    reads, delay = _row(problem.before, op), _row(problem.delay, op)
    when = finish + jnp.where(at_device, 0.0, delay[:, None])
    return PartialSchedule(
        device=jnp.where(at_op, device, state.device),
        start=jnp.where(at_op, start, state.start),
        last=jnp.where(on, op, state.last),
        missing=state.missing - reads,
        readers=state.readers + _row(problem.before.T, op),
        arrival=jnp.where(reads[:, None], jnp.maximum(state.arrival, when), state.arrival),
    )


def ready(problem: ConstructionProblem, state: PartialSchedule) -> jax.Array:
    """bool[O]: the ops that can be added, since all that they read from has been."""
    real = jnp.arange(len(state.device)) < problem.num_ops
    return (state.missing == 0) & (state.device < 0) & real


def openable(state: PartialSchedule, *, symmetric: bool) -> jax.Array:
    """bool[D]: the devices that an op can be added to; see the module on ``symmetric``."""
    unused = state.last < 0
    if not symmetric:
        return jnp.ones_like(unused)
    return ~unused | (jnp.cumsum(unused) == 1)


def removable(state: PartialSchedule) -> jax.Array:
    """bool[D]: the devices whose last op can be taken away, since nothing there reads from it."""
    return (state.last >= 0) & (state.readers[state.last] == 0)


def free(problem: ConstructionProblem, state: PartialSchedule) -> jax.Array:
    """float[D], us: when the last op of each device ends, 0 for an empty one."""
    finish = (state.start + problem.duration)[state.last]
    return jnp.where(state.last >= 0, finish, 0.0)


def makespan(problem: ConstructionProblem, state: PartialSchedule) -> jax.Array:
    """float[], us: when the last op ends (eq. 3; the first one starts at 0)."""
    return jnp.max(free(problem, state))


def _row(table: jax.Array, index: jax.Array) -> jax.Array:
    """A row of a table, zeros beyond its end."""
    return jnp.asarray(table).at[index].get(mode="fill", fill_value=0)
