"""How a program is rescheduled: no more than ``rj.jit`` needs before anything is compiled."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

METHODS = ("xla_list", "xla_dfs", "lpmf", "breadth_first", "depth_first", "dp", "auto")
"""The portfolio: orders of one device, the cheap ones first."""


TIME_PRICE = 2.0
"""Percents of bytes that a percent of time is worth, unless told otherwise."""


class Search(NamedTuple):
    """How orders are searched for.

    Attributes:
      methods: names of methods for one device.
      evaluations: of "auto" on one computation; the other methods take their own number.
      time_limit: seconds for everything, or None; with a limit results depend on the machine.
      seed: of everything random.
    """

    methods: Sequence[str] = METHODS
    evaluations: int = 200_000
    time_limit: float | None = None
    seed: int = 0


class Options(NamedTuple):
    """How a program is rescheduled.

    Attributes:
      search: of the orders.
      top_k: how many ways are compiled, at most, besides XLA's; None: 2 on CPUs, 8 on accelerators.
      cache: the folder of decisions; None keeps none.
      time_price: on accelerators, percents of bytes that a percent of time is worth.
      overlap: on accelerators, whether a program may take 2 % longer at most.
      memory_budget: bytes of one device that the program may need; None for as few as an order can.
      slices: within a budget, whether parts of a batch may run one after another.
    """

    search: Search = Search()
    top_k: int | None = None
    cache: Path | None = None
    time_price: float = TIME_PRICE
    overlap: bool = False
    memory_budget: int | None = None
    slices: bool = True
