"""Dataclasses as absl flags and back, so that a flagfile is a configuration.

A field is a flag of the same name and type. Types are bool, int, float, str, ``Literal``, a tuple
of any number of one of them (a list, separated by commas), and one of the first four or None. A
field that is a dataclass itself stands for its own fields.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from absl import flags

from regal_jax.errors import OptionError

Settings = TypeVar("Settings")

flags.disclaim_key_flags()  # --help shows them as the launcher's


def option(default: Any, text: str, *, least: int | None = None) -> Any:
    """A dataclass field with the help text of its flag.

    ``least`` is the smallest number; of a list, the fewest items.
    """
    return dataclasses.field(default=default, metadata={"text": text, "least": least})


def group(default: Any, *, prefix: str = "", shared: Collection[str] = ()) -> Any:
    """A field that is a dataclass itself; its flags' names begin with ``prefix``.

    ``shared`` are fields of it that have the flags, without a prefix, of another dataclass.
    """
    return dataclasses.field(default=default, metadata={"prefix": prefix, "shared": shared})


def define(
    settings: Any, values: flags.FlagValues, *, prefix: str = "", shared: Collection[str] = ()
) -> None:
    """Defines a flag for each field of a dataclass, whose values are the defaults."""
    hints = typing.get_type_hints(type(settings))
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            define(value, values, **field.metadata)
        elif field.name not in shared:
            text = field.metadata.get("text", f"{type(settings).__name__}.{field.name}")
            definition = _definition(hints[field.name], field.metadata.get("least"))
            definition(prefix + field.name, value, text, values)


def read(
    settings: Settings,
    values: flags.FlagValues,
    *,
    prefix: str = "",
    shared: Collection[str] = (),
) -> Settings:
    """The dataclass that the flags of ``define`` describe. OptionError for a wrong item of a list,
    or too few."""
    hints = typing.get_type_hints(type(settings))
    found: dict[str, Any] = {}
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        value: Any = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            found[field.name] = read(value, values, **field.metadata)
        else:
            name = field.name if field.name in shared else prefix + field.name
            found[field.name] = values[name].value
            if item := _item(hints[field.name]):
                found[field.name] = _items(name, item, found[field.name], field.metadata)
    return dataclasses.replace(settings, **found)  # type: ignore[type-var]


def check_names(flag: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raises OptionError for names in a flag's list that aren't known."""
    if unknown := {*names} - {*known}:
        raise OptionError(f"{flag}: {', '.join(sorted(unknown))}: not of {', '.join(known)}")


def _definition(hint: Any, least: int | None) -> Callable[..., Any]:
    """(name, default, text, values) -> a flag of that type."""
    if _item(hint):
        return lambda name, default, text, values: flags.DEFINE_list(
            name, [_text(item) for item in default], text, flag_values=values
        )
    if typing.get_origin(hint) is typing.Literal:
        return lambda name, default, text, values: flags.DEFINE_enum(
            name, default, list(typing.get_args(hint)), text, flag_values=values
        )
    by_type: dict[Any, Callable[..., Any]] = {
        bool: flags.DEFINE_boolean,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
    }
    bound = {} if least is None else {"lower_bound": least}
    return lambda name, default, text, values: by_type[_present(hint)](
        name, default, text, flag_values=values, **bound
    )


def _present(hint: Any) -> Any:
    """The type of a value that isn't None."""
    if isinstance(hint, types.UnionType):
        (hint,) = (kind for kind in typing.get_args(hint) if kind is not types.NoneType)
    return hint


def _item(hint: Any) -> Any:
    """The type of a list's items; None for what is no list."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None


def _items(name: str, kind: Any, texts: Collection[str], metadata: Any) -> tuple:
    if len(texts) < (metadata.get("least") or 0):
        raise OptionError(f"{name}: name at least {metadata['least']}")
    return tuple(_parsed(name, kind, text) for text in texts)


def _parsed(name: str, kind: Any, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        what = "whole number" if kind is int else "number"
        raise OptionError(f"{name}: {text!r} is no {what}") from None


def _text(item: Any) -> str:
    return f"{item:g}" if isinstance(item, float) else str(item)
