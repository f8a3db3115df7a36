"""Saving what training made: orbax checkpoints to resume from, and one small file to ship."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import flax.serialization
import jax
import numpy as np
import orbax.checkpoint as ocp

from regal_jax import registry
from regal_jax.errors import OptionError, RegalError
from regal_jax.graphs.files import write_atomically

Config = TypeVar("Config")

STATE, SETTINGS = "state", "hyperparameters"
"""The parts of a checkpoint."""


def checkpoint_manager(directory: str | os.PathLike, *, keep: int = 2) -> ocp.CheckpointManager:
    """A manager of the checkpoints in a directory; use it as a context manager."""
    options = ocp.CheckpointManagerOptions(max_to_keep=keep, create=True)
    handlers = {STATE: ocp.StandardCheckpointHandler(), SETTINGS: ocp.JsonCheckpointHandler()}
    return ocp.CheckpointManager(
        Path(directory).absolute(), options=options, item_handlers=handlers
    )


def save_checkpoint(
    manager: ocp.CheckpointManager, step: int, state: Any, settings: Mapping[str, Any]
) -> None:
    """Saves a pytree as the checkpoint of a step, with the hyperparameters of the run."""
    parts = {STATE: ocp.args.StandardSave(state), SETTINGS: ocp.args.JsonSave(dict(settings))}
    manager.save(step, args=ocp.args.Composite(**parts))


def latest_settings(manager: ocp.CheckpointManager) -> dict[str, Any] | None:
    """The hyperparameters of the latest checkpoint; None if there is none.

    OptionError for a checkpoint of before there were hyperparameters in them.
    """
    step = manager.latest_step()
    if step is None:
        return None
    folder = Path(manager.directory)
    if not (folder / str(step) / SETTINGS).is_dir():
        raise OptionError(
            f"{folder} holds checkpoints of an older version, which can't be resumed; choose"
            " another output_dir"
        )
    return manager.restore(step, args=ocp.args.Composite(**{SETTINGS: ocp.args.JsonRestore()}))[
        SETTINGS
    ]


def restore_latest(manager: ocp.CheckpointManager, state: Any) -> Any:
    """The latest checkpoint, shaped and placed like ``state``; ``state`` if there is none."""
    step = manager.latest_step()
    if step is None:
        return state
    shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, state)
    parts = {STATE: ocp.args.StandardRestore(shapes)}
    return manager.restore(step, args=ocp.args.Composite(**parts))[STATE]


def save_policy(
    path: str | os.PathLike, params: Any, config: Any, *, about: dict[str, Any]
) -> None:
    """Writes a policy's parameters and configuration, a dataclass, to one file.

    ``about`` goes in as it is: objective, training data, steps, measured quality. So does the name
    of the policy that is registered for the configuration's class.
    """
    name = registry.policy_for(type(config)).name
    header = {"config": dataclasses.asdict(config), "policy": name, **about}
    content = {"header": json.dumps(header), "params": jax.device_get(params)}
    data = flax.serialization.msgpack_serialize(content)
    write_atomically(path, lambda file: file.write(data))


def load_policy(
    path: str | os.PathLike, config: type[Config]
) -> tuple[Any, Config, dict[str, Any]]:
    """(params, configuration, about) from ``save_policy``'s file.

    The configuration is of the class ``config``, or one derived from it that the file's policy is
    registered with. RegalError if the file is damaged, has a parameter that is no finite number,
    or holds a policy of another kind.
    """
    try:
        content = flax.serialization.msgpack_restore(Path(path).read_bytes())
        about = json.loads(content["header"])
        made = _registered(path, about.pop("policy", None), config)
        params = content["params"]
        if not are_finite(params):
            raise RegalError(f"{path}: has parameters that aren't finite; train it anew")
        return params, made(**about.pop("config")), about
    except RegalError:
        raise
    except OSError as error:
        raise RegalError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except Exception as error:
        raise RegalError(f"{path}: not a policy file ({error})") from None


def are_finite(params: Any) -> bool:
    """Whether no parameter is NaN or infinite."""
    return all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(params))


def _registered(path: str | os.PathLike, name: str | None, config: type[Config]) -> type[Config]:
    """The class of a file's configuration; files of before there were names have ``config``."""
    if name is None:
        return config
    known = registry.entries("policy")
    if name not in known:
        raise RegalError(f"{path}: holds a policy {name!r}, which no installed package registers")
    found = known[name].about["config"]
    if not issubclass(found, config):
        wanted = registry.policy_for(config).name
        raise RegalError(f"{path}: holds a policy of {name}, expected one of {wanted}")
    return found
