"""Training on several hosts: the same launcher on each, and every batch's graphs on all of them.

All read the same graphs and settings, and hold the same parameters; the first one writes. The
output folder must be one that all see.
"""

import re
from typing import Any

import jax
from jax.experimental import multihost_utils

from regal_jax.errors import OptionError

AUTO = "auto"
"""JAX finds the others: Slurm, Open MPI, Kubernetes, slices of TPUs."""

KINDS = f"nothing for this process alone, {AUTO} (Slurm, Open MPI, TPUs), or HOST:PORT/INDEX/NUMBER"


def join(where: str) -> None:
    """Makes this process one of several; before JAX runs anything.

    Args:
      where: one of ``KINDS``: the address of the first process, this one's index, from 0, and the
        number of all.

    Raises OptionError: none of these, or the others can't be reached.
    """
    if not where:
        return
    options: dict[str, Any] = {}
    if where != AUTO:
        found = re.fullmatch(r"([^/]+:\d{1,5})/(\d{1,5})/(\d{1,5})", where)
        if not found or not int(found[2]) < int(found[3]):
            raise OptionError(f"hosts: {where!r} must be {KINDS}")
        options = {
            "coordinator_address": found[1],
            "process_id": int(found[2]),
            "num_processes": int(found[3]),
        }
    try:
        jax.distributed.initialize(**options)
    except (RuntimeError, ValueError) as error:
        raise OptionError(f"hosts: {where}: {error}") from None


def is_first() -> bool:
    """Whether this process writes."""
    return jax.process_index() == 0


def leave() -> None:
    """Ends this process, unless it is the first: what follows a training is for one.

    Raises SystemExit.
    """
    if jax.process_count() == 1:
        return
    multihost_utils.sync_global_devices("trained")
    jax.distributed.shutdown()
    if not is_first():
        raise SystemExit(0)
