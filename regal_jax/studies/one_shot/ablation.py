"""Appendix H of one_shot_priority_sampling: policies that are trained alike but for one thing."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.flags import option
from regal_jax.studies.one_shot import corpora, training
from regal_jax.studies.one_shot.runs import runs, sampled
from regal_jax.studies.one_shot.settings import LEARNED, Comparison, Training
from regal_jax.studies.settings import Output

GREEDY: dict[str, Any] = {"baseline": "greedy_rollout"}
NO_PENALTY: dict[str, Any] = {"c_logits": 0.0}
STANDARDISED = {"standardised": True}
VARIANTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "one_shot": {},
        "one_shot (-)": {"policy": STANDARDISED, "training": GREEDY | NO_PENALTY},
        "greedy baseline": {"training": GREEDY},
        "standardised logits": {"policy": STANDARDISED, "training": NO_PENALTY},
    }
)
"""What differs from the settings' OneShotConfig and OneShotTraining."""


@dataclass(frozen=True, kw_only=True)
class Settings(Output, Comparison, Training):
    """Which policies are compared, on what."""

    variants: tuple[str, ...] = option(tuple(VARIANTS), "Rows of the table.")


def variant_runs(settings: Settings, folder: Path) -> dict[str, list[Run]]:
    """By setting, the methods and the schedules of each variant, whose policies are trained."""
    found = {}
    for setting, corpus in corpora.corpora(settings).items():
        found[setting] = runs(None, settings)
        for name in settings.variants:
            own = folder / f"training_{corpus.name}_{name}".replace(" ", "_")
            policy = training.train(corpus, own, settings, **VARIANTS[name])
            found[setting] += sampled(name, LEARNED, policy, settings)
    return found
