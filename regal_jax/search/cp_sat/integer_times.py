"""Times as whole numbers, for a solver that knows no others.

Times are counted in units of ``2**-bits`` us. Where they are such numbers for few enough bits
(whole microseconds are), nothing is rounded. Elsewhere they are rounded down, so that the least
makespan of a model is at most that of the graph: what the solver proves holds.
"""

import math
from typing import NamedTuple

import numpy as np

TIME_BITS = 36
"""The longest schedule is less than ``2**TIME_BITS`` units, so that rounding loses little."""


class TimeUnit(NamedTuple):
    """What times are counted in.

    Attributes:
      bits: a unit is ``2**-bits`` us.
      exact: whether nothing is rounded.
    """

    bits: int
    exact: bool

    def whole(self, times: np.ndarray) -> list[int]:
        """Times in us, in units, rounded down."""
        return [int(time) for time in np.floor(np.ldexp(times, self.bits)).tolist()]

    def bound(self, units: float, num_ops: int) -> float:
        """us: a bound on sums of up to ``num_ops`` floating-point times from a bound in units.

        Sums of floating-point times differ from the exact ones by so much at most, relatively.
        """
        slack = 0.0 if self.exact else num_ops * 2.0**-50
        return math.ldexp(units, -self.bits) * (1 - slack)


def time_unit(times: np.ndarray, longest: float) -> TimeUnit | None:
    """The unit for times (us) of schedules of at most ``longest`` us; None for an infinite one."""
    if not np.isfinite(longest):
        return None
    bits = _bits(times, TIME_BITS - int(np.frexp(longest)[1]))
    return TimeUnit(bits, bool(np.all(np.ldexp(times, bits) % 1 == 0)))


def _bits(times: np.ndarray, most: int) -> int:
    """The fewest bits, 0 at least and ``most`` at most, that make all times whole numbers."""
    for bits in range(most):
        if np.all(np.ldexp(times, bits) % 1 == 0):
            return bits
    return most
