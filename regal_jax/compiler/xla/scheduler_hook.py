"""Compiles a program in a given order of instructions, by a hook behind XLA's own scheduler.

XLA calls what ``jax.extend.xla.register_hlo_module_transformation`` registers for every module that
any thread compiles, on threads of its own, and goes on as if nothing were there when it raises. So
the hook is there for the length of one compilation only, changes no module but the one that it is
meant for, and keeps its errors for the thread that registered it.

The keys of JAX's compilation caches don't see hooks. ``_TAG`` makes them see the order: an option
that CPUs never look at. Where a cache holds what was compiled while the hook failed, another tag
gets past it.
"""

import hashlib
import importlib
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax

from regal_jax.compiler.xla.module_orders import ModuleOrder, order_of
from regal_jax.errors import CompilerError
from regal_jax.graphs.importers.xla.text import parse_module

PLATFORM = "cpu"
"""Where XLA's scheduler hook is known to work."""

_TAG = "xla_gpu_algorithm_denylist_path"
_ONE_AT_A_TIME = threading.Lock()
"""Two compilations of the same module under different orders would see each other's hooks."""


def check_supported() -> None:
    """Raises CompilerError where this JAX has no hook behind the scheduler."""
    _hook()


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
    tag = f"regal_jax-{digest(order)}"
    for salt in ("", f"-{uuid.uuid4().hex}"):
        with _ONE_AT_A_TIME, _transforming(module, order) as outcomes:
            compiled = lowered.compile({**(options or {}), _TAG: tag + salt})
        errors = [error for error in outcomes if error is not None]
        if errors:
            raise CompilerError(f"XLA refused an order of {module}: {errors[0]}") from errors[0]
        kept = order_of(parse_module(str(compiled.as_text())))
        if all(kept.get(name) == tuple(sequence) for name, sequence in order.items()):
            return compiled
        if outcomes:
            break
    raise CompilerError(f"XLA didn't take an order of {module}: it isn't of this program")


def digest(order: ModuleOrder) -> str:
    """A short hash of an order."""
    lines = (f"{name}: {' '.join(order[name])}" for name in sorted(order))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


@contextmanager
def _transforming(module: str, order: ModuleOrder) -> Iterator[list[BaseException | None]]:
    """The hook is registered inside; in the list is what it raised, or None, whenever it ran."""
    xla, hlo = _hook()
    outcomes: list[BaseException | None] = []

    def transform(serialized: bytes) -> bytes | None:
        try:
            found = hlo.HloModule.from_serialized_hlo_module_proto(serialized)
            changed = _reordered(found, order) if _is_meant(found, module, order) else None
        except BaseException as error:
            outcomes.append(error)
            return None
        outcomes.append(None)
        return changed

    where = {"stage": xla.PipelineStage.POST_SCHEDULER, "platforms": PLATFORM}
    name = f"regal_jax-{uuid.uuid4().hex}"
    xla.register_hlo_module_transformation(transform, name=name, **where)
    try:
        yield outcomes
    finally:
        xla.clear_hlo_module_transformation(name, **where)


def _is_meant(found: Any, module: str, order: ModuleOrder) -> bool:
    """Whether a module has this name and, in the computations to reorder, these instructions."""
    if found.name != module:
        return False
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
