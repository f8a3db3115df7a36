"""The sizes that a user gives a model's unknown dimensions."""

import dataclasses
import operator
from collections.abc import Mapping

from regal_jax.errors import ImporterError, OptionError

REST = "*"
"""The key whose size is that of every unknown dimension without one of its own."""


@dataclasses.dataclass
class Dimensions:
    """Sizes of unknown dimensions, and which of them were asked for.

    A dimension is called by its symbol (``batch``) or, if it has none, by its place (``x[0]``); the
    unknown length of a sequence or map is called ``x[length]``.

    Attributes:
      given: sizes by name.
      rest: the size of those that aren't named; None leaves them ``missing``.
      assumed: dimensions that ``rest`` gave their size.
      missing: dimensions without a size, and the first value that has them. They count 1.
      used: the names that something asked for.
    """

    given: Mapping[str, int]
    rest: int | None = None
    assumed: dict[str, int] = dataclasses.field(default_factory=dict)
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    used: set[str] = dataclasses.field(default_factory=set)

    def size(self, symbol: str, value: str, axis: int | str) -> int:
        """The size of a dimension of ``value``, by its place if that is given, or its symbol."""
        place = f"{value}[{axis}]"
        for name in (place, symbol):
            if name in self.given:
                self.used.add(name)
                return self.given[name]
        if self.rest is None:
            self.missing.setdefault(symbol or place, value)
            return 1
        return self.assumed.setdefault(symbol or place, self.rest)

    def inside_bodies(self) -> "Dimensions":
        """Where a dimension that depends on data counts 1, and is ``assumed`` to."""
        return dataclasses.replace(self, rest=1 if self.rest is None else self.rest)

    def check_complete(self) -> None:
        """Raises ImporterError, naming all that is ``missing``."""
        if not self.missing:
            return
        places = ", ".join(f"{name!r} of {value!r}" for name, value in self.missing.items())
        example = dict.fromkeys(self.missing, 8)
        flag = ",".join(f"{name}={size}" for name, size in example.items())
        unused = "".join(f"; it has no {name!r}" for name in self._unused())
        raise ImporterError(
            f"unknown dimensions: {places}{unused}; "
            f"give their sizes, such as dimensions={example} or --dimensions='{flag}'"
        )

    def check_used(self) -> None:
        """Raises ImporterError for a given name that no dimension has."""
        for name in self._unused():
            known = ", ".join(map(repr, sorted({*self.used, *self.assumed}))) or "none"
            raise ImporterError(f"dimensions: {name!r} is none of the model's, which are {known}")

    def _unused(self) -> list[str]:
        return [name for name in self.given if name not in self.used]


def read_dimensions(given: Mapping[str, int] | None) -> Dimensions:
    """What a caller gave. Raises OptionError for a size below 1."""
    sizes = {}
    for name, size in (given or {}).items():
        try:
            sizes[name] = operator.index(size)
        except TypeError:
            sizes[name] = 0
        if sizes[name] < 1:
            raise OptionError(f"dimensions: {name!r} must be a whole number >= 1, got {size!r}")
    rest = sizes.pop(REST, None)
    return Dimensions(sizes, rest)
