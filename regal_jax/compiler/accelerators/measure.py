"""``rj.measure``: what a function needs on an accelerator, by that accelerator's own compiler.

Nothing runs, and this machine needs no such device. GPU programs are compiled without autotuning,
which looks at a device; every number is "compiled for", not "seen on".
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import jax
from jax._src.config import enable_compilation_cache
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.accelerator import accelerator as find
from regal_jax.compiler.accelerators.module_costs import ModuleCosts, module_costs
from regal_jax.compiler.accelerators.timing import is_full
from regal_jax.errors import CompilerError, DeviceMemoryError, OptionError
from regal_jax.graphs.importers.xla.text import parse_module
from regal_jax.reporting.tables import human_bytes


@dataclass(frozen=True, kw_only=True)
class Measurement(ModuleCosts):
    """A compiled program on one of an accelerator's devices: what it does, and what it needs.

    Attributes:
      accelerator: its name.
      temporaries, arguments, outputs: bytes; donated: of the outputs, in the memory of arguments.
      generated_code: bytes.
      capacity: bytes of a device.
    """

    accelerator: str
    temporaries: int
    arguments: int
    outputs: int
    donated: int
    generated_code: int
    capacity: int

    @property
    def peak(self) -> int:
        """Bytes that the program needs at once: arguments, results, temporaries and code."""
        return self.arguments + self.beyond_arguments + self.generated_code

    @property
    def beyond_arguments(self) -> int:
        """Bytes of temporaries and results."""
        return self.temporaries + self.outputs - self.donated

    @property
    def fits(self) -> bool:
        """Whether a device has that much."""
        return self.peak <= self.capacity

    def __str__(self) -> str:
        beside = f", {self.overlapped} of {self.collectives} collectives overlapped"
        return (
            f"compiled for {self.accelerator}: {human_bytes(self.peak)} of"
            f" {human_bytes(self.capacity)} ({human_bytes(self.temporaries)} of temporaries,"
            f" {human_bytes(self.arguments)} of arguments), {self.kernels} kernels, about"
            f" {1e3 * self.seconds:.3g} ms{beside if self.collectives else ''}"
        )


def measure(
    fn: Any,
    *args: Any,
    accelerator: str | Accelerator,
    in_shardings: Any = None,
    compiler_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Measurement:
    """Compiles a function for an accelerator, and says what it needs of one device.

    Args:
      fn: traceable by JAX; may be jitted (donated arguments count), or be one of ``rj.jit``, which
        is measured in the form that it chooses for the accelerator.
      *args, **kwargs: pytrees of arrays or ``jax.ShapeDtypeStruct``; nothing runs.
      accelerator: such as "h100", "h100:8", "v5e:4x4", or what ``rj.accelerator`` returns.
      in_shardings: of ``args``, a tree prefix: PartitionSpecs over the axis "devices", or
        NamedShardings of ``rj.accelerator(...).mesh(...)``; by default each device has all.
      compiler_options: XLA's.

    Raises:
      OptionError: no such accelerator, an argument that is no array, or shardings that don't fit.
        CompilerError: no compiler for it on this machine, or it
        can't compile the function (a program larger than the device is one of these on TPUs).
        What the function raises when it is traced passes.
    """
    target = find(accelerator)
    args, kwargs = placed(target, args, kwargs, in_shardings)
    jitted = fn if hasattr(fn, "lower") else jax.jit(fn)
    return measured(compile_for(jitted.lower(*args, **kwargs), target, compiler_options), target)


def placed(
    target: Accelerator, args: tuple, kwargs: Mapping[str, Any], in_shardings: Any = None
) -> tuple[tuple, dict[str, Any]]:
    """The shapes of arguments that lie on an accelerator; see ``measure``."""
    shardings = _of_leaves(args, target, in_shardings)
    leaves, tree = jax.tree.flatten(args)
    shapes = [_shape(leaf, where) for leaf, where in zip(leaves, shardings, strict=True)]
    named = jax.tree.map(lambda leaf: _shape(leaf, target.replicated()), dict(kwargs))
    return jax.tree.unflatten(tree, shapes), named


def compile_for(
    lowered: Any, target: Accelerator | None, compiler_options: Mapping[str, Any] | None = None
) -> Any:
    """The compiled program; for CPUs without target. Raises CompilerError where the accelerator's
    compiler refuses it, a DeviceMemoryError where that is for its size."""
    if target is None:
        return lowered.compile(compiler_options=dict(compiler_options or {}) or None)
    options = {**target.options, **(compiler_options or {})}
    try:
        with enable_compilation_cache(target.is_there):  # else it couldn't be read back
            return lowered.compile(compiler_options=options or None)
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        kind = DeviceMemoryError if is_full(error) else CompilerError
        raise kind(f"{target.name}: its compiler refuses the program: {reason}") from error


def measured(compiled: Any, target: Accelerator) -> Measurement:
    """What a program that was compiled for an accelerator needs."""
    memory = compiled.memory_analysis()
    costs = module_costs(parse_module(compiled.as_text()), target.specification)
    return Measurement(
        accelerator=target.name,
        temporaries=int(memory.temp_size_in_bytes),
        arguments=int(memory.argument_size_in_bytes),
        outputs=int(memory.output_size_in_bytes),
        donated=int(memory.alias_size_in_bytes),
        generated_code=int(memory.generated_code_size_in_bytes),
        capacity=target.specification.memory_bytes,
        **asdict(costs),
    )


def _of_leaves(args: Any, target: Accelerator, in_shardings: Any) -> list[Sharding]:
    if in_shardings is None:
        return [target.replicated()] * len(jax.tree.leaves(args))
    mesh = target.mesh()

    def named(spec: Any) -> NamedSharding:
        if isinstance(spec, PartitionSpec):
            return NamedSharding(mesh, spec)
        if not isinstance(spec, NamedSharding):
            raise OptionError(f"in_shardings: {spec!r} is no PartitionSpec or NamedSharding")
        return spec

    is_one = lambda spec: isinstance(spec, PartitionSpec | NamedSharding)  # noqa: E731
    try:
        full = jax.tree.broadcast(in_shardings, args, is_leaf=is_one)
    except ValueError as error:
        raise OptionError(f"in_shardings: no tree prefix of the arguments: {error}") from error
    return [named(spec) for spec in jax.tree.leaves(full, is_leaf=is_one)]


def _shape(leaf: Any, where: Sharding) -> Any:
    """The shape of an argument, on the accelerator. Raises OptionError for what is no array."""
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        if not isinstance(leaf, bool | int | float | complex):
            kind = type(leaf).__name__
            raise OptionError(f"argument of type {kind} is no array: bind it by functools.partial")
        leaf = jax.eval_shape(lambda: jax.numpy.asarray(leaf))
    weak = getattr(leaf, "weak_type", False)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where, weak_type=weak)
