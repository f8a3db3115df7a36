"""Every scheduling method behind ``optimize``, by name: problem and budget in, best found out."""

import functools

from regal_jax.errors import OptionError
from regal_jax.methods import classical, evolution, learned, simple
from regal_jax.methods.auto import run_auto
from regal_jax.methods.base import Budget, Found, History, Method, OnProgress
from regal_jax.methods.simple import best_simple_schedule

__all__ = [
    "LATER",
    "METHODS",
    "Budget",
    "Found",
    "History",
    "Method",
    "OnProgress",
    "best_simple_schedule",
    "find_method",
]

METHODS: dict[str, Method] = {
    "auto": run_auto,
    "regal": learned.run_regal,
    "gas": learned.run_gas,
    "idrs": learned.run_idrs,
    "brkga": evolution.run_brkga,
    "random_search": evolution.run_random_search,
    "depth_first": functools.partial(simple.run_rule, order="depth_first"),
    "breadth_first": functools.partial(simple.run_rule, order="breadth_first"),
    "random_order": functools.partial(simple.run_rule, order="random_order"),
    "lpmf": functools.partial(simple.run_rule, order="lpmf"),
    "xla_list": functools.partial(simple.run_rule, order="xla_list"),
    "xla_dfs": functools.partial(simple.run_rule, order="xla_dfs"),
    "partition_dfs": classical.run_partition_dfs,
    "metis_dfs": classical.run_metis_dfs,
    **{
        name: functools.partial(classical.run_list_heuristic, name=name)
        for name in ("critical_path", "heft", "cpop", "etf", "hbmct")
    },
}

LATER = (
    "portfolio",
    "tuned_brkga",
    "local_search",
    "cp_sat",
    "dp",
    "approximate_dp",
    "depth_first_dp",
    "topoformer",
    "mopnr",
    "spt",
    "one_shot",
    "l2d",
    "gflownet",
    "ppo",
)
"""Names that the design reserves for methods that are not in this version."""


def find_method(name: str) -> Method:
    """The method of a name. Raises OptionError naming the ones there are."""
    if name in METHODS:
        return METHODS[name]
    reason = "is not in this version" if name in LATER else "is unknown"
    raise OptionError(f"method {name!r} {reason}; choose from {', '.join(METHODS)}")
