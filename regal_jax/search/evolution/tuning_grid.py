"""The grid that "Tuned BRKGA" is chosen from (REGAL section 4.2), and successive halving over it.

The paper tunes the elite bias, two scalars of a Beta distribution, and the numbers of chromosomes,
elites, mutants and populations over 648 settings. Deviation: it doesn't list them; ours are as
many, around the recommendations of Goncalves and Resende (elites 10 to 25 % of a population,
mutants 10 to 30 %, bias 0.5 to 0.8), with the default among them.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from regal_jax.errors import OptionError
from regal_jax.search.evolution.brkga import BRKGAConfig

POPULATION = (100, 50, 200)
ELITES = (10, 20)
MUTANTS = (10, 30)
"""Elites and mutants in percent of a population."""
POPULATIONS = (1, 2)
ELITE_BIAS = (0.7, 0.6, 0.8)
BETA = (1.0, 0.5, 2.0)
"""Values of alpha, and of beta."""
EXCHANGE_EVERY = 10
"""Generations between exchanges, where there are two populations: 5,000 evaluations are over after
14 to 57 generations, so that ``BRKGAConfig``'s 50 would hardly ever exchange anything."""

KEPT = 3
"""One in so many settings goes on to the next rung."""


class Setting(NamedTuple):
    """A point of the grid: parameters of the search, and the Beta distribution of every gene."""

    config: BRKGAConfig = BRKGAConfig()
    alpha: float = 1.0
    beta: float = 1.0

    @property
    def label(self) -> str:
        """Unique on the grid: ``100/10/80 x1, rho 0.7, Beta(1, 1)``."""
        c = self.config
        sizes = f"{c.population}/{c.elites}/{c.children} x{c.populations}"
        return f"{sizes}, rho {c.elite_bias:g}, Beta({self.alpha:g}, {self.beta:g})"


DEFAULT = Setting()


def grid() -> list[Setting]:
    """All 648 settings, the default first; elite bias and Beta vary fastest."""
    sizes = itertools.product(POPULATION, ELITES, MUTANTS, POPULATIONS)
    scalars = list(itertools.product(ELITE_BIAS, BETA, BETA))
    return [
        Setting(_config(*size, bias), alpha, beta)
        for size in sizes
        for bias, alpha, beta in scalars
    ]


def distinct(settings: Sequence[Setting]) -> list[Setting]:
    """The first of all settings that find the same: of the grid, 72.

    Settings that differ in the Beta distribution only find the same schedules with the same seed.
    Genes are only ever compared with genes, crossover copies them, and quantile functions increase:
    drawing all genes from one distribution rather than another changes no comparison (but for ties
    of rounded numbers). The paper's two scalars can't have mattered either, if they were those of
    every gene.
    """
    found: dict[BRKGAConfig, Setting] = {}
    for setting in settings:
        found.setdefault(setting.config, setting)
    return list(found.values())


def survivors(gains: Mapping[Setting, float]) -> list[Setting]:
    """The best third (rounded up) by gain, best first, and the default, which all are compared
    with."""
    ranked = sorted(gains, key=lambda setting: -gains[setting])
    best = ranked[: -(-len(ranked) // KEPT)]
    return best if DEFAULT in best else [*best, DEFAULT]


def check_rungs(rungs: Sequence[int], num_graphs: int) -> None:
    """Raises OptionError unless rungs, in graphs, increase from 1 to at most ``num_graphs``."""
    if not rungs or rungs[0] < 1 or any(b <= a for a, b in itertools.pairwise(rungs)):
        raise OptionError(f"rungs must be increasing numbers of graphs, got {list(rungs)}")
    if rungs[-1] > num_graphs:
        raise OptionError(
            f"the last rung wants {rungs[-1]} graphs, of which there are {num_graphs}"
        )


def _config(
    population: int, elites: int, mutants: int, populations: int, bias: float
) -> BRKGAConfig:
    """``elites`` and ``mutants`` in percent."""
    counts = [population * percent // 100 for percent in (elites, mutants)]
    config = BRKGAConfig(population, counts[0], population - sum(counts), bias, populations)
    return config if populations == 1 else config._replace(exchange_every=EXCHANGE_EVERY)
