"""How long an op takes: the roofline bound of its FLOPs and its bytes on a device."""

from typing import NamedTuple


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


def duration_us(flops: float, bytes_accessed: float, profile: DeviceProfile = A100) -> float:
    """The roofline time in microseconds: ``max(flops / peak flops, bytes / peak bandwidth)``.

    A lower bound: launch latency, caches, fusion and the rates of low precisions are left out.
    """
    seconds = max(flops / profile.flops_per_second, bytes_accessed / profile.bytes_per_second)
    return seconds * 1e6
