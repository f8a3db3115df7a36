"""The policies that the package ships."""

from pathlib import Path

from regal_jax.errors import OptionError


def shipped_policy(kind: str, system: str = "regal") -> Path:
    """Where the package keeps a policy for an objective, or a kind of problem.

    Raises OptionError if there is none.
    """
    path = policy_file(kind, system)
    if not path.exists():
        raise OptionError(f"no {system} policy is shipped for {kind}; give one with --policy")
    return path


def policy_file(kind: str, system: str) -> Path:
    """Where the package keeps such a policy, if it has one."""
    return Path(__file__).parents[1] / "pretrained" / f"{system}_{kind}.policy"
