"""Compiles a program in another order of instructions, by a hook behind XLA's own scheduler.

It is there on CPUs (JAX 0.10.2 or newer) and for GPUs (0.11 or newer), whether there is one or not.

XLA calls what ``jax.extend.xla.register_hlo_module_transformation`` registers for every module that
any thread compiles, on threads of its own, and goes on as if nothing were there when it raises. So
the hook is there for the length of one compilation only, changes no module but the one that it is
meant for, and keeps its errors for the thread that registered it.

The keys of JAX's compilation caches don't see hooks. A tag makes them see the order: an option
that the platform never looks at. Where a cache holds what was compiled while the hook failed,
another tag gets past it.
"""

import hashlib
import importlib
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.measure import compile_for
from regal_jax.compiler.xla.module_orders import ModuleOrder, order_of
from regal_jax.errors import CompilerError
from regal_jax.graphs.importers.xla.text import Module, parse_module

_CPU_TAG = "xla_gpu_algorithm_denylist_path"
_GPU_TAG = "xla_cpu_parallel_codegen_split_count"
_FOR_GPUS = (0, 11)
"""The JAX from which on the hook is called for GPUs."""

_ONE_AT_A_TIME = threading.Lock()
"""Two compilations of the same module under different orders would see each other's hooks."""


def check_supported(target: Accelerator | None = None) -> None:
    """Raises CompilerError where there is no hook behind the scheduler; without target, of CPUs."""
    _hook()
    if target is not None and target.specification.gpu is None:
        raise CompilerError(f"no order is given behind the scheduler of {target.name}")
    if target is not None and jax.__version_info__ < _FOR_GPUS:
        raise CompilerError(
            f"JAX {jax.__version__} has no hook behind XLA's scheduler for GPUs: pip install"
            " 'jax>=0.11'"
        )


def compile_in_order(
    lowered: jax.stages.Lowered,
    module: str,
    order: ModuleOrder,
    options: Mapping[str, Any] | None = None,
) -> jax.stages.Compiled:
    """Compiles a lowered function so that its instructions run in this order.

    Args:
      lowered: what to compile, on CPUs.
      module: the name of the module in XLA (``Module.name``).
      order: the new order of some computations; others keep XLA's.
      options: XLA's compiler options.

    Raises:
      CompilerError: this JAX has no hook, or the order isn't one of this module. XLA's own errors
        pass.
    """

    def given(found: Any) -> ModuleOrder:
        return order if _is_meant(found, order) else {}

    tag = f"regal_jax-{digest(order)}"
    for salt in ("", f"-{uuid.uuid4().hex}"):
        with _ONE_AT_A_TIME, _transforming(module, given, "cpu") as outcomes:
            compiled = lowered.compile({**(options or {}), _CPU_TAG: tag + salt})
        _raise_of(module, outcomes)
        kept = order_of(parse_module(str(compiled.as_text())))
        if all(kept.get(name) == tuple(sequence) for name, sequence in order.items()):
            return compiled
        if outcomes:
            break
    raise CompilerError(f"XLA didn't take an order of {module}: it isn't of this program")


def compile_choosing(
    lowered: jax.stages.Lowered,
    module: str,
    choose: Callable[[Module], ModuleOrder],
    target: Accelerator | None,
    options: Mapping[str, Any] | None = None,
    *,
    tag: str = "",
) -> tuple[jax.stages.Compiled, ModuleOrder]:
    """Compiles a lowered function in an order that is chosen meanwhile.

    What XLA has scheduled for a GPU has instructions that its last passes drop, so the order is
    looked for where it is taken, and autotuning needn't do the same twice.

    Args:
      lowered: what to compile.
      module: the name of the module in XLA.
      choose: takes the scheduled module, returns the new order of some computations.
      target: a GPU; None for CPUs.
      options: XLA's compiler options.
      tag: hexadecimal, a name of ``choose`` that always chooses the same: JAX's caches may have the
        program then, and nothing is chosen.

    Returns:
      The program, and what was chosen.

    Raises:
      CompilerError: this JAX has no hook for it, ``choose`` raised, XLA refused the order.
    """
    check_supported(target)
    chosen: list[ModuleOrder] = []

    def given(found: Any) -> ModuleOrder:
        chosen.append(choose(parse_module(found.to_string())))
        return chosen[-1]

    mark = tag or uuid.uuid4().hex
    tagged = {**(options or {}), **({_GPU_TAG: int(mark[:7], 16)} if target else {_CPU_TAG: mark})}
    with _ONE_AT_A_TIME, _transforming(module, given, "cuda" if target else "cpu") as outcomes:
        compiled = compile_for(lowered, target, tagged)
    _raise_of(module, outcomes)
    if not chosen and not tag:
        raise CompilerError(f"XLA never called the hook behind its scheduler for {module}")
    return compiled, chosen[-1] if chosen else {}


def digest(order: ModuleOrder) -> str:
    """A short hash of an order."""
    lines = (f"{name}: {' '.join(order[name])}" for name in sorted(order))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _raise_of(module: str, outcomes: list[BaseException | None]) -> None:
    """CompilerError of the first error."""
    errors = [error for error in outcomes if error is not None]
    if errors:
        raise CompilerError(f"XLA refused an order of {module}: {errors[0]}") from errors[0]


@contextmanager
def _transforming(
    module: str, given: Callable[[Any], ModuleOrder], platform: str
) -> Iterator[list[BaseException | None]]:
    """The hook is registered inside; in the list is what it raised, or None, whenever it ran.

    ``given`` says the order of modules with this name.
    """
    xla, hlo = _hook()
    outcomes: list[BaseException | None] = []

    def transform(serialized: bytes) -> bytes | None:
        try:
            found = hlo.HloModule.from_serialized_hlo_module_proto(serialized)
            order = given(found) if found.name == module else {}
            changed = _reordered(found, order) if order else None
        except BaseException as error:
            outcomes.append(error)
            return None
        outcomes.append(None)
        return changed

    where = {"stage": xla.PipelineStage.POST_SCHEDULER, "platforms": platform}
    name = f"regal_jax-{uuid.uuid4().hex}"
    xla.register_hlo_module_transformation(transform, name=name, **where)
    try:
        yield outcomes
    finally:
        xla.clear_hlo_module_transformation(name, **where)


def _is_meant(found: Any, order: ModuleOrder) -> bool:
    """Whether a module has, in the computations to reorder, these instructions."""
    names = {one.name: {i.name for i in one.instructions()} for one in found.computations()}
    return all(names.get(name) == set(sequence) for name, sequence in order.items())


def _reordered(found: Any, order: ModuleOrder) -> bytes:
    """The serialized module with a new schedule. XLA raises where it is none."""
    schedule = found.schedule()
    if schedule is None:
        raise CompilerError("the module has no schedule")
    for computation in found.make_nonfusion_computations():
        if computation.name in order:
            by_name = {one.name: one for one in computation.instructions()}
            schedule.set_sequence(computation, [by_name[name] for name in order[computation.name]])
    schedule.verify()
    found.set_schedule(schedule)
    return found.as_serialized_hlo_module_proto()


def _hook() -> tuple[Any, Any]:
    try:
        xla, hlo = importlib.import_module("jax.extend.xla"), importlib.import_module("jaxlib._hlo")
        _ = xla.register_hlo_module_transformation, xla.PipelineStage.POST_SCHEDULER
        _ = hlo.HloSchedule.set_sequence
    except (ImportError, AttributeError):
        raise CompilerError(
            f"JAX {jax.__version__} has no hook behind XLA's scheduler: pip install 'jax>=0.10.2'"
        ) from None
    return xla, hlo
