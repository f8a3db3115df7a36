"""Dataclasses as absl flags, so that a flagfile is a configuration."""

import dataclasses
import typing
from collections.abc import Collection
from typing import Any, TypeVar

from absl import flags

Config = TypeVar("Config")


def define(config: type, *, prefix: str = "", shared: Collection[str] = ()) -> None:
    """Defines one flag per field of a dataclass, typed and with its default.

    ``shared`` are fields that have the flags, without a prefix, of another dataclass.
    """
    hints = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        if field.name not in shared:
            _definition(hints[field.name])(
                prefix + field.name, field.default, f"{config.__name__}.{field.name}"
            )


def read(
    config: type[Config],
    values: flags.FlagValues,
    *,
    prefix: str = "",
    shared: Collection[str] = (),
) -> Config:
    """The dataclass that the flags of ``define`` describe."""
    names = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    by_name = {name: name if name in shared else prefix + name for name in names}
    return config(**{name: values[flag].value for name, flag in by_name.items()})


def _definition(hint: Any):
    if typing.get_origin(hint) is typing.Literal:
        choices = list(typing.get_args(hint))
        return lambda name, default, text: flags.DEFINE_enum(name, default, choices, text)
    by_type = {
        bool: flags.DEFINE_boolean,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
    }
    return by_type[hint]
