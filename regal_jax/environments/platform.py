"""The machine a graph is scheduled on: identical devices, their memory and their links."""

import dataclasses
import sys
from collections.abc import Sequence

import numpy as np

from regal_jax.errors import OptionError

MAX_DEVICES = 1024
"""More devices than this is taken for a mistake: a chromosome has (O + T) * D genes."""


@dataclasses.dataclass(frozen=True)
class Platform:
    """Identical devices joined by identical links.

    Attributes:
      num_devices: D >= 1.
      memory_capacity: bytes per device (one number for all, or D numbers); None is unlimited.
      latency: us added to every tensor that crosses devices.
      per_byte: us per byte added to every tensor that crosses devices.

    Raises:
      OptionError: for a value out of range.
    """

    num_devices: int = 2
    memory_capacity: int | Sequence[int] | None = None
    latency: float = 0.0
    per_byte: float = 0.0

    def __post_init__(self):
        if not 1 <= self.num_devices <= MAX_DEVICES:
            raise OptionError(f"num_devices must be in 1..{MAX_DEVICES}, got {self.num_devices}")
        for name in ("latency", "per_byte"):
            value = getattr(self, name)
            if not 0 <= value <= sys.float_info.max:
                raise OptionError(f"{name} must be a finite number >= 0, got {value}")
        try:
            capacities = self.capacities()
        except (OverflowError, TypeError, ValueError) as error:
            raise OptionError(f"memory_capacity must be bytes, as numbers: {error}") from None
        if len(capacities) != self.num_devices or not np.all(capacities > 0):
            raise OptionError(
                f"memory_capacity must be positive: one number or {self.num_devices},"
                f" got {self.memory_capacity}"
            )

    def capacities(self) -> np.ndarray:
        """float64[D], bytes; infinite where unlimited."""
        if self.memory_capacity is None:
            return np.full(self.num_devices, np.inf)
        capacity = np.asarray(self.memory_capacity, np.float64)
        return np.full(self.num_devices, capacity) if capacity.ndim == 0 else capacity
