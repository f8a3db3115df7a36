"""The target that measures: what a schedule of a JAX function takes on real devices.

Zhang et al. 2023, "Robust Scheduling with GFlowNets", section 2.2: candidates are found on a proxy,
whose durations were "estimated directly on the hardware in a profiling stage that precedes
scheduling", and a few of them are evaluated on the target itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from regal_jax.environments.execution.jax_executor import Execution, JaxExecutor
from regal_jax.environments.execution.targets import Target
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph


def measured(
    fn: Callable[..., Any],
    *args: Any,
    repeats: int = 5,
    warm_up: int = 1,
    devices: Sequence[jax.Device] | None = None,
    **kwargs: Any,
) -> Target:
    """Schedules of ``from_jax(fn, *args, **kwargs)``, timed on devices: median us of a run.

    A run starts with all arguments in place and ends with the last op (see ``jax_executor``). It
    includes what a proxy leaves out: copies between devices, what the devices share (the cores and
    caches behind several CPU devices), and the dispatch of each op from Python, tens of us in
    which other devices may have to wait: only ops that take much longer run side by side. XLA
    can't fuse ops, so that a run takes longer than ``jax.jit(fn)``.

    CPU devices are made by XLA_FLAGS=--xla_force_host_platform_device_count=D; with
    --xla_cpu_multi_thread_eigen=false an op doesn't spread over the cores of the others.

    Args:
      fn: traceable by JAX. Its effects happen in every run.
      *args, **kwargs: pytrees of arrays.
      repeats: runs that count. warm_up: runs before; programs are compiled before these.
      devices: those that schedules number 0, 1, ...; by default ``jax.devices()``.

    Returns:
      A function of a Schedule. It raises ScheduleError for one that isn't a valid schedule of the
      graph, OptionError for one of more devices than there are.

    Raises:
      ImporterError: JAX can't trace the function. OptionError: for other arguments out of range.
    """
    _check_runs(repeats, warm_up)
    executor = JaxExecutor(fn, args, kwargs, devices=devices)

    def target(schedule: Schedule) -> float:
        runs = _runs(executor, schedule, repeats, warm_up)
        return float(np.median([run.makespan for run in runs]))

    return target


def profiled_graph(
    fn: Callable[..., Any],
    *args: Any,
    repeats: int = 5,
    warm_up: int = 1,
    device: jax.Device | None = None,
    **kwargs: Any,
) -> ComputationGraph:
    """``from_jax(fn, *args, **kwargs)`` with the durations that its ops take on one device.

    The duration of an op is the median over runs of the whole program in its own order, from when
    its inputs are there to when its outputs are, with its dispatch: what ``measured`` adds up.
    The graph's ``device_profile`` is the device's kind. Raises as ``measured``.
    """
    _check_runs(repeats, warm_up)
    device = device or jax.devices()[0]
    executor = JaxExecutor(fn, args, kwargs, devices=[device])
    graph = executor.graph
    runs = _runs(executor, _program_order(graph), repeats, warm_up)
    duration = np.median([run.finish - run.start for run in runs], axis=0)
    document = {**graph.extra.get("", {}), "device_profile": f"measured on {device.device_kind}"}
    return graph.replace(duration=duration, extra={**graph.extra, "": document})


def _runs(executor: JaxExecutor, schedule: Schedule, repeats: int, warm_up: int) -> list[Execution]:
    run = executor.prepare(schedule)
    return [run() for _ in range(warm_up + repeats)][warm_up:]


def _program_order(graph: ComputationGraph) -> Schedule:
    return Schedule(
        graph=graph.name,
        objective="makespan",
        num_devices=1,
        placement=np.zeros(graph.num_ops, np.int32),
        steps=np.arange(graph.num_ops),
    )


def _check_runs(repeats: int, warm_up: int) -> None:
    if repeats < 1 or warm_up < 0:
        raise OptionError(f"need repeats >= 1 and warm_up >= 0, got {repeats} and {warm_up}")
