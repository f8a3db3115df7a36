"""Dataclasses as flags: names, types and defaults, and wrong values told in one line."""

import dataclasses
from typing import Literal

import pytest
from absl import flags

from regal_jax.errors import OptionError
from regal_jax.studies import flags as config_flags
from regal_jax.studies.flags import group, option


@dataclasses.dataclass(frozen=True)
class Model:
    width: int = 3
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    kind: Literal["plain", "fancy"] = "plain"
    policy: str | None = option(None, "A file.")
    limit: float | None = option(None, "Seconds.")
    workers: int = option(2, "Processes.", least=1)
    quick: bool = False
    methods: tuple[str, ...] = option(("one", "two"), "Names.", least=1)
    sizes: tuple[int, ...] = (1, 4)
    shares: tuple[float, ...] = (0.001,)
    model: Model = group(Model())
    other: Model = group(Model(), prefix="other_", shared=["seed"])


def read(settings, *arguments):
    values = flags.FlagValues()
    config_flags.define(settings, values)
    values(["test", *arguments])
    return config_flags.read(settings, values)


def test_flags_that_are_not_given_have_the_values_of_the_instance():
    for settings in (Settings(), Settings(methods=("three",), model=Model(width=7))):
        assert read(settings) == settings


def test_flags_have_the_types_of_their_fields():
    given = ("--kind=fancy", "--policy=a", "--limit=2.5", "--workers=3", "--quick")
    lists = ("--methods=x, y z", "--sizes=2,8", "--shares=1e-3,1")
    nested = ("--width=9", "--other_width=8", "--seed=4")
    assert read(Settings(), *given, *lists, *nested) == Settings(
        kind="fancy",
        policy="a",
        limit=2.5,
        workers=3,
        quick=True,
        methods=("x", "y z"),
        sizes=(2, 8),
        shares=(0.001, 1.0),
        model=Model(width=9, seed=4),
        other=Model(width=8, seed=4),
    )


def test_a_shared_field_has_no_flag_of_its_own_and_lists_are_texts():
    values = flags.FlagValues()
    config_flags.define(Settings(), values)
    assert "other_seed" not in values
    assert values["shares"].default == ["0.001"]
    assert values["policy"].help == "A file."
    assert values["width"].help == "Model.width"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--sizes=1,x", "sizes: 'x' is no whole number"),
        ("--sizes=1.5", "sizes: '1.5' is no whole number"),
        ("--shares=wide", "shares: 'wide' is no number"),
        ("--methods=", "methods: name at least 1"),
    ],
)
def test_wrong_items_are_told_with_their_flag(argument, message):
    with pytest.raises(OptionError, match=f"^{message}$"):
        read(Settings(), argument)


@pytest.mark.parametrize("argument", ["--workers=0", "--workers=x", "--kind=odd", "--limit=long"])
def test_wrong_values_are_told_when_flags_are_parsed(argument):
    with pytest.raises(flags.Error, match=argument.partition("=")[0]):
        read(Settings(), argument)


def test_names_that_are_not_known_are_told():
    config_flags.check_names("rows", ["a"], ["a", "b"])
    with pytest.raises(OptionError, match=r"^rows: c, d: not of a, b$"):
        config_flags.check_names("rows", ["d", "a", "c"], ["a", "b"])
