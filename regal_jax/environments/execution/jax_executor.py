"""Runs a JAX function op by op on real devices, by a schedule of its graph.

One thread per device runs the device's ops in the schedule's order. Each op is a compiled program
of its own and is waited for, so its time is spent on its device and in its turn. When an op has
ended, its thread starts the copies to the devices that read its outputs and goes on; the first
reader there waits for them. Where a schedule puts its transfer steps therefore doesn't matter, as
in the proxy (BUILD_NOTES.md, section 3, makespan).
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from regal_jax.environments.execution.device_plans import DevicePlan, DeviceStep, device_plans
from regal_jax.environments.placement import checker
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import ImporterError, OptionError, ScheduleError
from regal_jax.graphs.importers.jax.flat_program import FlatOp, flat_program, signature
from regal_jax.graphs.importers.jax.program import from_jax


class Execution(NamedTuple):
    """One run. Times in us since all devices began.

    Attributes:
      start: float64[O], when the op's inputs were there and its device was free.
      finish: float64[O], when its outputs were there.
      kept: what the function's results are made of, by value.
    """

    start: np.ndarray
    finish: np.ndarray
    kept: Mapping[int, Any]

    @property
    def makespan(self) -> float:
        """us until the last op has ended."""
        return float(np.max(self.finish, initial=0.0))


class JaxExecutor:
    """A function with its arguments, ready to run by any schedule of its graph.

    Compiled programs are kept for the schedules to come, one for each device and ``signature``.
    Arguments and constants are copied to the devices that read them before a run, once, and stay.

    Args:
      fn: as for ``from_jax``. Its effects happen in every run.
      args, kwargs: its arguments: arrays, not shapes. They are never donated.
      devices: those that schedules number 0, 1, ...; by default ``jax.devices()``.

    Attributes:
      graph: ``from_jax(fn, *args, **kwargs)``.
      program: what its ops run.

    Raises:
      ImporterError: JAX can't trace the function. OptionError: an argument is only a shape.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        devices: Sequence[jax.Device] | None = None,
    ):
        args, kwargs = tuple(args), dict(kwargs or {})
        leaves = jax.tree_util.tree_leaves((args, kwargs))
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
            raise OptionError("a function that runs needs arrays as arguments, got a shape")
        self.graph = from_jax(fn, *args, **kwargs)
        self._devices = tuple(jax.devices() if devices is None else devices)
        self.program = flat_program(fn, *args, **kwargs)
        self._signatures = [signature(self.program, op) for op in self.program.ops]
        self._sources = {**dict(enumerate(leaves)), **self.program.constants}
        self._placed: dict[tuple[int, jax.Device], Any] = {}
        self._compiled: dict[tuple[tuple, jax.Device], Callable] = {}

    def prepare(self, schedule: Schedule) -> "PreparedRun":
        """Compiles what the schedule needs and copies arguments to where they are read.

        Raises:
          ScheduleError: this is not a valid schedule of the function's graph.
          OptionError: it is for more devices than there are.
          ImporterError: JAX can't compile an op by itself.
        """
        self._check(schedule)
        devices = self._devices[: schedule.num_devices]
        plans = device_plans(self.program, schedule)
        return PreparedRun(
            ops=self.program.ops,
            programs=[
                self._compile(op, devices[number]) for op, number in enumerate(schedule.placement)
            ],
            devices=devices,
            plans=plans,
            sources=[
                {value: self._place(value, device) for value in plan.sources}
                for plan, device in zip(plans, devices, strict=True)
            ],
        )

    def outputs(self, execution: Execution) -> Any:
        """What the function returned in a run."""
        given = [value for value in self.program.bases() if value in self._sources]
        sources = {value: self._place(value, self._devices[0]) for value in given}
        return self.program.outputs({**execution.kept, **sources})

    def _check(self, schedule: Schedule) -> None:
        count, available = len(schedule.placement), len(self._devices)
        if count != self.graph.num_ops:
            raise ScheduleError(
                f"placement: the schedule has {count} ops,"
                f" {self.graph.name} has {self.graph.num_ops}"
            )
        if schedule.num_devices > available:
            raise OptionError(
                f"the schedule is for {schedule.num_devices} devices, there are {available};"
                " for CPU devices set XLA_FLAGS=--xla_force_host_platform_device_count="
                f"{schedule.num_devices} before JAX starts"
            )
        checker.evaluate(self.graph, schedule)

    def _place(self, value: int, device: jax.Device) -> Any:
        if (value, device) not in self._placed:
            copy = jax.device_put(self._sources[value], device)
            self._placed[value, device] = jax.block_until_ready(copy)
        return self._placed[value, device]

    def _compile(self, index: int, device: jax.Device) -> Callable:
        key = self._signatures[index], device
        if key not in self._compiled:
            op, sharding = self.program.ops[index], SingleDeviceSharding(device)
            inputs = [_input(self.program.avals[value], sharding) for value in op.reads]
            try:
                jitted = jax.jit(lambda *values: op(*values), out_shardings=sharding)
                self._compiled[key] = jitted.lower(*inputs).compile()
            except Exception as error:  # whatever JAX raises for a primitive out of its context
                label = self.graph.op_label(index)
                lines = str(error).strip().splitlines() or [""]
                reason = f"{type(error).__name__}: {lines[0]}"
                raise ImporterError(f"{label}: JAX can't compile it by itself: {reason}") from error
        return self._compiled[key]


class PreparedRun(NamedTuple):
    """A schedule with everything compiled and in place.

    ``ops`` and ``programs`` by op; ``devices``, ``plans`` and ``sources`` (the arguments and
    constants there, by value) by device.
    """

    ops: Sequence[FlatOp]
    programs: Sequence[Callable]
    devices: Sequence[jax.Device]
    plans: Sequence[DevicePlan]
    sources: Sequence[Mapping[int, Any]]

    def __call__(self) -> Execution:
        """Runs it once. Errors of the ops themselves are raised as they are."""
        busy = [device for device, plan in enumerate(self.plans) if plan.steps]
        run = _Run(self, len(busy))
        with ThreadPoolExecutor(max(len(busy), 1)) as pool:
            for worker in [pool.submit(run.work, device) for device in busy]:
                worker.result()
        return Execution(run.start / 1e3, run.finish / 1e3, run.kept)


class _Run:
    """One run in progress. Times in ns; ``mail`` has what crosses, by value and device."""

    def __init__(self, prepared: PreparedRun, workers: int):
        self.prepared = prepared
        self.start = np.zeros(len(prepared.ops))
        self.finish = np.zeros(len(prepared.ops))
        self.kept: dict[int, Any] = {}
        self.mail: dict[tuple[int, int], Future] = {
            key: Future() for plan in prepared.plans for step in plan.steps for key in step.sends
        }
        self.zero = 0
        self.gate = threading.Barrier(max(workers, 1), self._begin)

    def work(self, device: int) -> None:
        """All steps of one device, in its own thread."""
        plan, values = self.prepared.plans[device], dict(self.prepared.sources[device])
        self.gate.wait()
        try:
            for step in plan.steps:
                self._do(step, device, values)
        except BaseException as error:
            self._give_up(plan, error)
            raise
        self.kept.update(values)

    def _begin(self) -> None:
        self.zero = time.perf_counter_ns()

    def _do(self, step: DeviceStep, device: int, values: dict[int, Any]) -> None:
        op = self.prepared.ops[step.op]
        for value in step.receives:
            values[value] = jax.block_until_ready(self.mail[value, device].result())
            del self.mail[value, device]  # or the copy would live as long as the run
        self.start[step.op] = time.perf_counter_ns() - self.zero
        inputs = [values[value] for value in op.reads]
        outputs = jax.block_until_ready(self.prepared.programs[step.op](*inputs))
        if op.has_effects:
            jax.effects_barrier()  # waits for those of this thread
        self.finish[step.op] = time.perf_counter_ns() - self.zero
        values.update(zip(op.writes, outputs, strict=True))
        for value, target in step.sends:
            copy = jax.device_put(values[value], self.prepared.devices[target])
            self.mail[value, target].set_result(copy)
        for value in step.frees:
            del values[value]

    def _give_up(self, plan: DevicePlan, error: BaseException) -> None:
        """Lets no other device wait for what will never come."""
        for step in plan.steps:
            for key in step.sends:
                future = self.mail.get(key)  # gone where it has been received
                if future is not None and not future.done():
                    future.set_exception(error)


def _input(aval: Any, sharding: SingleDeviceSharding) -> jax.ShapeDtypeStruct | None:
    """What an op is compiled for; the value of an effect is None."""
    if aval is None:
        return None
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)
