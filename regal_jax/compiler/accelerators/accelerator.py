"""Accelerators as JAX sees them, on a machine that has none."""

import functools
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src import xla_bridge
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from regal_jax.compiler.accelerators.specifications import (
    SPECIFICATIONS,
    Specification,
    specification_of,
    target_config,
)
from regal_jax.errors import CompilerError, OptionError

AXIS = "devices"
"""The name of the axis of an accelerator's mesh."""

MOST_DEVICES = 16384
"""More than any slice has; JAX makes an object of each."""

ROOM = 2**28
"""Bytes: far more than the kernels of a process take while a new copy of them is written."""


class Accelerator(NamedTuple):
    """Devices to compile for.

    Attributes:
      name: such as "h100:8" or "v5e:4x4".
      specification: of one device.
      devices: JAX's.
      is_there: whether they are; else they can be compiled for, and nothing else.
    """

    name: str
    specification: Specification
    devices: tuple[Any, ...]
    is_there: bool = False

    @property
    def options(self) -> dict[str, str]:
        """XLA's compiler options: autotuning needs a GPU, and kernels that an earlier program of
        this process had aren't generated again."""
        if self.is_there or self.specification.gpu is None:
            return {}
        return {"xla_gpu_autotune_level": "0"} | _kernel_cache()

    def mesh(self, shape: tuple[int, ...] | None = None, axes: tuple[str, ...] = (AXIS,)) -> Mesh:
        """The devices in a mesh; by default all along one axis, "devices".

        Raises OptionError: a shape of another number of devices.
        """
        shape = (len(self.devices),) if shape is None else shape
        if np.prod(shape) != len(self.devices) or len(shape) != len(axes):
            raise OptionError(
                f"mesh: {shape} with axes {axes} isn't a mesh of {len(self.devices)} devices"
            )
        return Mesh(np.array(self.devices).reshape(shape), axes)

    def replicated(self) -> Sharding:
        """Each device has all; one device as where arrays lie by default, so that programs are the
        same text."""
        if len(self.devices) == 1:
            return SingleDeviceSharding(self.devices[0])
        return NamedSharding(self.mesh(), PartitionSpec())


def accelerator(name: str | Accelerator) -> Accelerator:
    """Devices to compile for, which this machine need not have.

    Args:
      name: a device ("a100", "h100", "h200", "b200", "v5e", "v5p", "v6e"), with how many of it
        after a colon: "h100:8", or the shape of a slice of TPUs, "v5e:4x4", "v5p:2x2x1".

    Raises:
      OptionError: no such accelerator, or not a number of devices.
      CompilerError: this JAX has no compiler for it; the text says what to install.
    """
    if isinstance(name, Accelerator):
        return name
    kind, colon, count = name.partition(":")
    if kind not in SPECIFICATIONS:
        raise OptionError(f"accelerator: no {kind!r}; there are {', '.join(SPECIFICATIONS)}")
    is_shape = re.fullmatch(r"[1-9]\d{0,4}(x[1-9]\d{0,4}){0,2}", count)
    if colon and not (is_shape and _product(count) <= MOST_DEVICES):
        raise OptionError(
            f"accelerator {name!r}: {count!r} is no number of devices, such as 8 or 4x4, up to"
            f" {MOST_DEVICES}"
        )
    specification = SPECIFICATIONS[kind]
    _without_devices()
    found = _gpus(specification, count or "1") if specification.gpu else _tpus(kind, count or "1")
    return Accelerator(name, specification, tuple(found.devices))


def target_of(lowered: jax.stages.Lowered) -> Accelerator | None:
    """What a lowered function is for: devices that are there or not; None for CPUs.

    None, too, where JAX doesn't tell.
    """
    # JAX has no public way to ask
    arguments = getattr(getattr(lowered, "_lowering", None), "compile_args", {})
    client = arguments.get("backend")
    if client is None or client.platform == "cpu":
        return None
    placed = [one.device_set for one in arguments["in_shardings"] if hasattr(one, "device_set")]
    devices = tuple(placed[0] if placed else client.local_devices()[:1])
    specification = specification_of(devices[0].device_kind, client.platform)
    is_there = "CompileOnly" not in type(client).__name__
    return Accelerator(specification.name, specification, devices, is_there)


def _kernel_cache() -> dict[str, str]:
    """Nothing where there is no folder, or little room in it: XLA would refuse the program."""
    try:
        folder = _kernel_folder().name
        room = shutil.disk_usage(folder).free
    except OSError:  # none could be made, or it was lost
        return {}
    return {"xla_gpu_kernel_cache_file": os.path.join(folder, "kernels")} if room > ROOM else {}


@functools.cache
def _kernel_folder() -> tempfile.TemporaryDirectory:
    """Of this process; removed at its end."""
    return tempfile.TemporaryDirectory(prefix="regal_jax-")


def _gpus(specification: Specification, count: str) -> Any:
    """GPUs of one host."""
    with _explained(specification.name, "cuda12"):
        return topologies.get_topology_desc(
            "gpu",
            "cuda",
            target_config=target_config(specification),
            topology=f"1x1x{_product(count)}",
        )


def _product(count: str) -> int:
    return math.prod(int(part) for part in count.split("x"))


def _tpus(kind: str, count: str) -> Any:
    """A slice of TPUs; a number of them is a slice of one row."""
    dimensions = 3 if kind == "v5p" else 2
    parts = count.split("x")
    shape = (*parts, *["1"] * (dimensions - len(parts)))
    of_host = [2 if int(part) % 2 == 0 else 1 for part in shape[:2]]
    with _explained(f"{kind}:{count}", "tpu"):
        return topologies.get_topology_desc(
            platform="tpu",
            topology_name=f"{kind}:{'x'.join(shape)}",
            chips_per_host_bounds=(*of_host, 1),
        )


@contextmanager
def _explained(name: str, extra: str) -> Iterator[None]:
    """JAX's errors as CompilerError."""
    try:
        yield
    except Exception as error:  # of plugins that are missing, or that don't know the shape
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CompilerError(
            f"accelerator {name}: no compiler for it: {reason}; it needs"
            f" pip install 'jax[{extra}]' and, where there is no such device, JAX_PLATFORMS=cpu"
        ) from error


def _without_devices() -> None:
    """Keeps the TPU and CUDA plugins from looking for devices that aren't there.

    What is set already stays, and so does JAX where it runs on an accelerator.
    """
    for key, value in _TPU_ENVIRONMENT.items():
        os.environ.setdefault(key, value)
    config: Any = jax.config
    if not config.jax_platforms and not xla_bridge.backends_are_initialized():
        jax.config.update("jax_platforms", "cpu")


_TPU_ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
