"""Every scheduling method behind ``optimize``, by name: problem and budget in, best found out."""

import functools
from collections.abc import Iterable

from regal_jax.errors import OptionError
from regal_jax.methods import classical, evolution, learned, ordering, refinement, robust, simple
from regal_jax.methods.base import Budget, Decoding, Found, History, Method, OnProgress
from regal_jax.methods.machines import (
    MACHINE_EVALUATIONS,
    MACHINE_METHODS,
    MachineFound,
    MachineMethod,
    best_rule_schedule,
)
from regal_jax.methods.portfolio import run_portfolio
from regal_jax.methods.robust import (
    AnyTarget,
    as_target,
    best_on_target,
    check_options,
    list_schedule,
    method_for,
)
from regal_jax.methods.samplers import SAMPLERS
from regal_jax.methods.simple import best_simple_schedule
from regal_jax.search.rcpsp import search

__all__ = [
    "LATER",
    "MACHINE_METHODS",
    "METHODS",
    "SAMPLERS",
    "WITH_POLICY",
    "AnyTarget",
    "Budget",
    "Decoding",
    "Found",
    "History",
    "MachineFound",
    "MachineMethod",
    "Method",
    "OnProgress",
    "as_target",
    "best_on_target",
    "best_rule_schedule",
    "best_simple_schedule",
    "check_options",
    "default_evaluations",
    "default_machine_evaluations",
    "find_machine_method",
    "find_method",
    "list_schedule",
    "method_for",
]

METHODS: dict[str, Method] = {
    "auto": run_portfolio,
    "portfolio": run_portfolio,
    "regal": learned.run_regal,
    "gas": learned.run_gas,
    "idrs": learned.run_idrs,
    "brkga": evolution.run_brkga,
    "tuned_brkga": evolution.run_tuned_brkga,
    "random_search": evolution.run_random_search,
    "depth_first": functools.partial(simple.run_rule, order="depth_first"),
    "breadth_first": functools.partial(simple.run_rule, order="breadth_first"),
    "random_order": functools.partial(simple.run_rule, order="random_order"),
    "lpmf": functools.partial(simple.run_rule, order="lpmf"),
    "xla_list": functools.partial(simple.run_rule, order="xla_list"),
    "xla_dfs": functools.partial(simple.run_rule, order="xla_dfs"),
    "random_orders": ordering.run_random_orders,
    "topoformer": ordering.run_topoformer,
    "dp": ordering.run_dp,
    "approximate_dp": ordering.run_approximate_dp,
    "depth_first_dp": ordering.run_depth_first_dp,
    "local_search": refinement.run_local_search,
    "cp_sat": classical.run_cp_sat,
    "partition_dfs": classical.run_partition_dfs,
    "metis_dfs": classical.run_metis_dfs,
    **{
        name: functools.partial(classical.run_list_heuristic, name=name)
        for name in ("critical_path", "heft", "cpop", "etf", "hbmct")
    },
    **{name: functools.partial(robust.run_sampler, name=name) for name in robust.ONLY_SAMPLERS},
}

LATER = ("l2d",)
"""Names that the design reserves for methods that are not in this version."""


WITH_POLICY = ("regal", "gas", "idrs", "topoformer", "one_shot", "gflownet", "ppo")
"""Methods that read a policy file."""

PUBLISHED_EVALUATIONS = 5000
"""The budget of both REGAL papers."""
OTHER_EVALUATIONS = {
    **dict.fromkeys(robust.ONLY_SAMPLERS, robust.SAMPLES),
    "topoformer": ordering.SAMPLES,
    "approximate_dp": ordering.BEAM_WIDTH,
    "random_orders": ordering.RANDOM_ORDERS,
}
"""Budgets of the papers on topological orders and on GFlowNets."""


def default_evaluations(
    name: str, num_ops: int, decoding: Decoding | None = None, *, timed: bool
) -> int:
    """The budget of a method that is given none: the papers' for published ones. For ``auto`` and
    ``portfolio``, most of whose evaluations are incremental, a million (some seconds), less for
    graphs of thousands of ops; with a time limit, as many as fit in."""
    if name == "topoformer" and decoding in (None, "guided"):
        return ordering.GUIDED_WIDTH
    if METHODS.get(name) is not run_portfolio:
        return OTHER_EVALUATIONS.get(name, PUBLISHED_EVALUATIONS)
    most = 10**9 if timed else 1_000_000
    return max(PUBLISHED_EVALUATIONS, min(most, most * 1000 // max(num_ops, 1)))


def default_machine_evaluations(
    name: str, num_ops: int, decoding: Decoding | None = None, *, timed: bool
) -> int:
    """The same for methods on machine types. A million ops are scheduled in about a second and
    core, which "auto" does for some seconds; with a time limit, as many as fit in."""
    if decoding == "brkga":
        return search.PAPER_EVALUATIONS
    if name in MACHINE_EVALUATIONS:
        return MACHINE_EVALUATIONS[name]
    if name not in ("auto", "justification"):
        return PUBLISHED_EVALUATIONS
    return 10**9 if timed else max(PUBLISHED_EVALUATIONS, 5_000_000 // num_ops)


def find_method(name: str) -> Method:
    """The method of a name. Raises OptionError naming the ones there are."""
    if name in METHODS:
        return METHODS[name]
    if name in MACHINE_METHODS:
        raise OptionError(
            f"method {name!r} schedules graphs with machine types for the makespan: the graph needs"
            " a capacity, and --objective=makespan"
        )
    raise _unknown(name, METHODS)


def find_machine_method(name: str) -> MachineMethod:
    """The method of a name for graphs with machine types. Raises OptionError."""
    if name in MACHINE_METHODS:
        return MACHINE_METHODS[name]
    if name in METHODS:
        raise OptionError(
            f"method {name!r} places ops on identical devices, but the graph has machine types;"
            f" choose from {', '.join(MACHINE_METHODS)}"
        )
    raise _unknown(name, MACHINE_METHODS)


def _unknown(name: str, known: Iterable[str]) -> OptionError:
    reason = "is not in this version" if name in LATER else "is unknown"
    return OptionError(f"method {name!r} {reason}; choose from {', '.join(known)}")
