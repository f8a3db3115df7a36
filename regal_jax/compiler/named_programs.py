"""Programs by the name that a command line gives them: package.module:function."""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regal_jax.errors import ImporterError, RegalError
from regal_jax.graphs.computation_graph import ComputationGraph


def is_function(name: str) -> bool:
    """Whether a name is of a function, not of a file."""
    return ":" in name and not Path(name).exists()


@contextlib.contextmanager
def program_named(name: str) -> Iterator[tuple[Any, tuple]]:
    """What the function of a name returns: (function, arguments), or (program, nothing).

    Args:
      name: ``package.module:function`` or ``path/to/file.py:function``, called without arguments.
        Modules are looked for in the working directory, too, as long as the context lasts.

    Raises:
      ImporterError: no such function, or what loading, calling or, inside, tracing it raises.
    """
    module, _, function = name.rpartition(":")
    try:
        with _importable(Path(module).parent if module.endswith(".py") else Path.cwd()):
            yield _parts(getattr(_loaded(module), function)())
    except RegalError as error:
        raise type(error)(f"{name}: {error}") from None
    except Exception as error:
        raise ImporterError(f"{name}: {type(error).__name__}: {error}") from error


def _parts(made: Any) -> tuple[Any, tuple]:
    """(function, arguments) of what a named function returns. Raises ImporterError."""
    if isinstance(made, tuple) and len(made) == 2 and callable(made[0]):
        fn, args = made
        return fn, tuple(args) if isinstance(args, tuple | list) else (args,)
    if isinstance(made, ComputationGraph) or hasattr(made, "compile") or hasattr(made, "as_text"):
        return made, ()
    kind = type(made).__name__
    raise ImporterError(
        f"must return (function, arguments), or a lowered or compiled function, not {kind}"
    )


def _loaded(module: str) -> Any:
    if not module.endswith(".py"):
        return importlib.import_module(module)
    spec = importlib.util.spec_from_file_location(Path(module).stem, module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Modules in a folder can be imported inside."""
    path = str(folder.resolve())
    sys.path.insert(0, path)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(path)
