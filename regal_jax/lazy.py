"""Names of a package that are imported when they are first used (PEP 562)."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def exports(package: str, homes: Mapping[str, str]) -> tuple[Callable, Callable]:
    """A package's ``__getattr__`` and ``__dir__``.

    Args:
      package: its name.
      homes: names that it exports, separated by spaces, by the submodule that defines them; a name
        by itself is that of a submodule.
    """
    module_of = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(f"{package}.{module_of[name]}")
        value = getattr(home, name, home)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return find, names
