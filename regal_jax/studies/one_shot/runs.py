"""The searches of one-shot priority sampling's tables, by method and budget."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regal_jax.search.rcpsp.rules import RULES
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.one_shot.settings import LEARNED, Comparison, Genetic

NONE: Mapping[str, Any] = MappingProxyType({})
SAMPLED = (LEARNED, "noisy_rule", "sequencing", "giffler_thompson")
"""Methods that are decoded greedily, and by the best of some samples."""
WARM_UP = 100
"""Evaluations in which a search compiles all that it needs; BRKGA needs its own budget for that."""


def runs(policy: Path | None, settings: Comparison, learned: str = LEARNED) -> list[Run]:
    """The rows of a table: --methods, greedy and sampled schedules of the policy for the learned
    one. A method's generation may stand behind it: "noisy_rule backwards"."""
    found: list[Run] = []
    for name in settings.methods:
        method, options = asked(name)
        if method in SAMPLED:
            given = policy if method == learned else None
            found += sampled(name, method, given, settings, options)
        else:
            found += [baseline(method, settings, options)]
    return found


def asked(name: str) -> tuple[str, dict[str, str]]:
    """A method of --methods, and the options that stand behind it: its generation, if any."""
    method, _, generation = name.partition(" ")
    return method, {"generation": generation} if generation else {}


def sampled(
    name: str,
    method: str,
    policy: Path | None,
    settings: Comparison,
    options: Mapping[str, Any] = NONE,
) -> list[Run]:
    """A method's schedules, greedy and the best of N samples (section 5)."""
    greedy = {"policy": policy, "decoding": "greedy", **options}
    drawn = {"policy": policy, "decoding": "sample", **options}
    return [
        Run(f"{name} greedy", method, 1, options=greedy, warm_up=1),
        *(
            Run(f"{name} S({count})", method, count, options=drawn, warm_up=1)
            for count in settings.test_samples
        ),
    ]


def genetic(name: str, method: str, options: Mapping[str, Any], settings: Genetic) -> Run:
    """A genetic search of --genetic_evaluations (appendix G)."""
    count = settings.genetic_evaluations
    return Run(f"{name} {count}", method, count, options=options)


def genetic_runs(policies: Mapping[str, Path | None], setting: str, settings: Genetic) -> list[Run]:
    """Genetic searches that begin with samples of the setting's policy, if there is one, and of a
    noisy rule, with nothing, and with the rules."""
    begun: dict[str, Mapping[str, Any]] = {"noisy_rule": {"decoding": "brkga"}}
    if setting in policies:
        begun = {LEARNED: {"policy": policies[setting], "decoding": "brkga"}} | begun
    found = [genetic(f"{name} brkga", name, options, settings) for name, options in begun.items()]
    return found + [genetic(name, name, {}, settings) for name in ("brkga", "justification")]


def baseline(method: str, settings: Comparison, options: Mapping[str, Any] = NONE) -> Run:
    """Another method at its budget, with a cheap warm-up; with options named in its label."""
    kind = " ".join(map(str, (method, *options.values())))
    budget = settings.search_evaluations
    if method in RULES:
        return Run(kind, method, 1, options=options, warm_up=1)
    if method == "cp_sat":
        limit = {"time_limit": settings.cp_seconds, **options}
        return Run(f"{kind} {settings.cp_seconds:g}s", method, budget, options=limit)
    if method == "random_search":
        return Run(
            f"{kind} {settings.random_samples}", method, settings.random_samples, (), options, 1
        )
    if method == "auto":
        return Run(kind, method, None, options=options, warm_up=min(budget, WARM_UP))
    warm_up = budget if method == "brkga" else min(budget, WARM_UP)
    return Run(f"{kind} {budget}", method, budget, (), options, warm_up)


def is_fixed(run: Run) -> bool:
    """Whether a run isn't random, or is so expensive that one seed is enough."""
    greedy = run.options.get("decoding") == "greedy"
    return run.method in RULES or run.method == "cp_sat" or greedy
