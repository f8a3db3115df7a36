"""Settings that the launchers of several systems have."""

from dataclasses import dataclass
from pathlib import Path

from regal_jax.studies import executors
from regal_jax.studies.flags import option
from regal_jax.training import hosts


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where a launcher writes."""

    output_dir: str = option("results", "Where results go.")


@dataclass(frozen=True, kw_only=True)
class Executor:
    """Where a launcher's searches run."""

    executor: str = option(executors.HERE, f"Where searches run: {executors.KINDS}.")


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """Which processes train together."""

    hosts: str = option("", f"{hosts.KINDS}: the same launcher on each, one output_dir.")


@dataclass(frozen=True, kw_only=True)
class GivenPolicy:
    """Which policy is tested, where there is one."""

    policy: str | None = option(None, "Policy file to load, or 'shipped'; else one is trained.")


def policy_file(given: str) -> Path | None:
    """The file that --policy names; None is the shipped one for the graph at hand."""
    return None if given == "shipped" else Path(given)
