"""Every scheduling method behind ``optimize``: (problem, Budget) -> Result, registered by name."""

from regal_jax.methods import (
    classical,
    evolution,
    exact,
    one_shot,
    ordering,
    portfolio,
    rcpsp,
    refinement,
    regal,
    robust,
    simple,
    warm,
)

__all__ = [
    "classical",
    "evolution",
    "exact",
    "one_shot",
    "ordering",
    "portfolio",
    "rcpsp",
    "refinement",
    "regal",
    "robust",
    "simple",
    "warm",
]
