"""Every scheduling method behind ``optimize``: (problem, Budget) -> Result, registered by name."""

from regal_jax.methods import (
    classical,
    dispatching,
    evolution,
    exact,
    noisy_rule,
    one_shot,
    ordering,
    portfolio,
    rcpsp,
    refinement,
    regal_paper,
    robust,
    sequencing,
    simple,
    warm,
)

__all__ = [
    "classical",
    "dispatching",
    "evolution",
    "exact",
    "noisy_rule",
    "one_shot",
    "ordering",
    "portfolio",
    "rcpsp",
    "refinement",
    "regal_paper",
    "robust",
    "sequencing",
    "simple",
    "warm",
]
