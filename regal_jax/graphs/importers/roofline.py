"""How long an op takes: the roofline bound of its FLOPs and its bytes on a device."""

from typing import NamedTuple

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph


class DeviceProfile(NamedTuple):
    """What a device can do at best; the default is an A100 40 GB in float32.

    Attributes:
      name: shown in reports and kept in imported graphs.
      flops_per_second: peak arithmetic rate.
      bytes_per_second: peak memory bandwidth.
    """

    name: str = "a100-40gb-float32"
    flops_per_second: float = 19.5e12
    bytes_per_second: float = 1555e9


A100 = DeviceProfile()


def with_profile(graph: ComputationGraph, profile: DeviceProfile) -> ComputationGraph:
    """The graph with its durations [us] by the roofline of ``profile``; its name is kept in extra.

    Raises OptionError for a graph that doesn't say its FLOPs and bytes.
    """
    if graph.flops is None or graph.bytes_accessed is None:
        raise OptionError(f"graph {graph.name!r}: FLOPs and bytes of its ops aren't known")
    document = {**graph.extra.get("", {}), "device_profile": profile.name}
    duration = durations_us(graph.flops, graph.bytes_accessed, profile)
    return graph.replace(duration=duration, extra={**graph.extra, "": document})


def durations_us(
    flops: np.ndarray, bytes_accessed: np.ndarray, profile: DeviceProfile = A100
) -> np.ndarray:
    """The roofline times in microseconds: ``max(flops / peak flops, bytes / peak bandwidth)``.

    A lower bound: launch latency, caches, fusion and the rates of low precisions are left out.
    """
    return 1e6 * np.maximum(
        flops / profile.flops_per_second, bytes_accessed / profile.bytes_per_second
    )
