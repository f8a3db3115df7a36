"""Times as whole numbers, for a solver that knows no others.

Times are counted in units of ``2**-bits`` us where they are such numbers for few enough bits (whole
microseconds are), or in a common divisor (times in tenths have one): then nothing is rounded, but
for what floating-point numbers leave out. Elsewhere they are rounded down, so that the least
makespan of a model is at most that of the graph: what the solver proves holds.
"""

from typing import NamedTuple

import numpy as np

TIME_BITS = 36
"""The longest schedule is less than ``2**TIME_BITS`` units, so that rounding loses little."""

MOST_BITS = 1023
"""A power of two beyond is no floating-point number."""

PARTS = 100
"""Of the least time, the most that a common divisor is looked for in."""

NEAR = 2.0**-50
"""How far a product of floating-point numbers is from a whole one, relatively, if it should be."""


class TimeUnit(NamedTuple):
    """What times are counted in.

    Attributes:
      per_us: units in a us.
      exact: whether times are whole numbers of units.
      divides: whether they are, but for floating-point errors.
    """

    per_us: float
    exact: bool
    divides: bool

    def whole(self, times: np.ndarray) -> list[int]:
        """Times in us, in units, rounded down if the unit doesn't divide them."""
        units = times * self.per_us
        return [int(unit) for unit in (np.rint if self.divides else np.floor)(units).tolist()]

    def bound(self, units: float, num_ops: int) -> float:
        """us: a bound on sums of up to ``num_ops`` floating-point times from a bound in units.

        Sums of floating-point times differ from the exact ones by so much at most, relatively.
        """
        slack = 0.0 if self.exact else (num_ops + 4) * NEAR
        return units / self.per_us * (1 - slack)


def time_unit(times: np.ndarray, longest: float) -> TimeUnit | None:
    """The unit for times (us) of schedules of at most ``longest`` us; None for an infinite one."""
    if not np.isfinite(longest):
        return None
    most = min(TIME_BITS - int(np.frexp(longest)[1]), MOST_BITS)
    bits = _bits(times, most)
    if np.all(np.ldexp(times, bits) % 1 == 0):
        return TimeUnit(2.0**bits, True, True)
    if (divisor := _per_us(times, 2.0**most)) is not None:
        return TimeUnit(divisor, False, True)
    return TimeUnit(2.0**bits, False, False)


def _bits(times: np.ndarray, most: int) -> int:
    """The fewest bits, 0 at least and ``most`` at most, that make all times whole numbers."""
    for bits in range(most):
        if np.all(np.ldexp(times, bits) % 1 == 0):
            return bits
    return most


def _per_us(times: np.ndarray, most: float) -> float | None:
    """Units in a us, ``most`` at most, of a unit that is a part of the least time and divides all;
    None without one."""
    least = np.min(times[times > 0])
    for parts in range(1, PARTS + 1):
        per_us = parts / least
        if not per_us <= most:
            return None
        units = times * per_us
        if np.all(np.abs(units - np.rint(units)) <= NEAR * units):
            return float(per_us)
    return None
