"""What can be asked for by name: methods, samplers, environments, policies, data sets, importers.

Each is a function that registers itself where it is defined, by a decorator of this module. Other
distributions name the modules that do so as entry points of the groups ``regal_jax.methods``,
``regal_jax.policies``, ``regal_jax.environments``, ``regal_jax.datasets``, ``regal_jax.importers``.
"""

import difflib
import functools
import importlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any, Literal, NamedTuple

from regal_jax.errors import OptionError

Kind = Literal["method", "sampler", "environment", "policy", "dataset", "importer"]
GROUPS: Mapping[Kind, str] = {
    "method": "regal_jax.methods",
    "sampler": "regal_jax.methods",
    "environment": "regal_jax.environments",
    "policy": "regal_jax.policies",
    "dataset": "regal_jax.datasets",
    "importer": "regal_jax.importers",
}
OWN: Mapping[Kind, tuple[str, ...]] = {
    "method": ("regal_jax.methods",),
    "sampler": ("regal_jax.methods",),
    "environment": (
        "regal_jax.environments.placement.problem",
        "regal_jax.environments.rcpsp.problem",
    ),
    "policy": (
        "regal_jax.policies.regal.dispatching",
        "regal_jax.policies.sequencing",
        *(
            f"regal_jax.policies.{system}.policy"
            for system in ("regal", "topological_order", "one_shot", "gflownet")
        ),
    ),
    "dataset": ("regal_jax.datasets.corpora",),
    "importer": ("regal_jax.graphs.importers.any_file",),
}
"""The modules of this distribution that register each kind when they are imported."""
LATER = ("l2d",)
"""Names that the design reserves for methods that are not in this version."""


class Method(NamedTuple):
    """A way to schedule a graph.

    Attributes:
      name: what ``optimize`` knows it by.
      run: (problem, Budget) -> Result.
      problems: names of the environments whose problems it is for.
      evaluations: its budget where none is given: a number, or (number of ops, Options) -> number.
      reads_policy, has_temperature: whether the options policy and temperature are for it.
      decodings: names of the option decoding that are for it.
      learned: whether a network is part of it.
      paper: where it is from; "" for ours.
    """

    name: str
    run: Callable[..., Any]
    problems: tuple[str, ...]
    evaluations: int | Callable[..., int] = 5000
    reads_policy: bool = False
    has_temperature: bool = False
    decodings: tuple[str, ...] = ()
    learned: bool = False
    paper: str = ""

    @property
    def summary(self) -> str:
        """The first line of what it says of itself."""
        return first_line(self.run)


class Entry(NamedTuple):
    """A registered function.

    Attributes:
      name: what it is asked for by. make: the function. about: what was said of it.
    """

    name: str
    make: Callable[..., Any]
    about: Mapping[str, Any]


_ENTRIES: dict[Kind, dict[Any, Any]] = {kind: {} for kind in GROUPS}


def method(
    name: str, *, problems: Iterable[str] = ("placement",), evaluations: Any = 5000, **about: Any
) -> Callable[[Callable], Callable]:
    """Registers a function (problem, Budget) -> Result as a method; see ``Method``.

    Raises OptionError where another function has the name for one of the problems.
    """

    def register(run: Callable) -> Callable:
        entry = Method(name, run, tuple(problems), evaluations, **about)
        for problem in entry.problems:
            _add("method", (problem, name), entry)
        return run

    return register


def sampler(name: str, *, searches: bool = False) -> Callable[[Callable], Callable]:
    """Registers (problem, Budget) -> Candidates: many schedules of a graph, to try on a target.

    They are as many as the budget's evaluations, or what a search has found after so many.
    """
    return functools.partial(_register, "sampler", name, {"searches": searches})


def environment(
    name: str, *, applies: Callable[..., bool], scope: str
) -> Callable[[Callable], Callable]:
    """Registers (graph, Options) -> Problem.

    ``applies`` (graph, Options) says whether it is for these; of several, the one registered last
    is taken. ``scope`` says in words what its methods do: "places ops on identical devices".
    """
    return functools.partial(_register, "environment", name, {"applies": applies, "scope": scope})


def environment_for(graph: Any, options: Any) -> Entry:
    """The environment that a graph is scheduled in. Raises OptionError where there is none."""
    for entry in reversed(list(entries("environment").values())):
        if entry.about["applies"](graph, options):
            return entry
    raise OptionError(f"no environment is for graph {graph.name!r} and these options")


def policy(name: str, config: type) -> Callable[[Callable], Callable]:
    """Registers config -> Policy, for policy files with such a frozen dataclass."""
    return functools.partial(_register, "policy", name, {"config": config})


def make_policy(config: Any) -> Any:
    """The policy of a configuration, by its class. Raises OptionError where none is registered."""
    return policy_for(type(config)).make(config)


def policy_for(config: type) -> Entry:
    """The policy whose configuration a class is. Raises OptionError where there is none."""
    for entry in entries("policy").values():
        if entry.about["config"] is config:
            return entry
    raise OptionError(f"{config.__name__} is not the configuration of a registered policy")


def dataset(name: str) -> Callable[[Callable], Callable]:
    """Registers (split) -> Iterable[ComputationGraph]; splits are train, validation and test."""
    return functools.partial(_register, "dataset", name, {})


def importer(*suffixes: str) -> Callable[[Callable], Callable]:
    """Registers (path) -> ComputationGraph for files that end with one of the suffixes."""

    def register(make: Callable) -> Callable:
        for suffix in suffixes:
            _register("importer", suffix, {}, make)
        return make

    return register


def find_method(name: str, problem: str) -> Method:
    """The method of a name for an environment's problems. Raises OptionError naming those there
    are."""
    methods = entries("method")
    if (problem, name) in methods:
        return methods[problem, name]
    others = [where for where, known in methods if known == name]
    reason = "is not in this version" if name in LATER else "is unknown"
    if others:
        scopes = [find("environment", where).about["scope"] for where in (*others, problem)]
        reason = f"{' and '.join(scopes[:-1])}, but this problem is one that {scopes[-1]}"
    known = [known for where, known in methods if where == problem]
    known.sort(key=lambda name: name != "auto")  # the default first
    raise OptionError(f"method {name!r} {reason}{_meant(name, known)}")


def find(kind: Kind, name: str) -> Entry:
    """The entry of a name. Raises OptionError naming those there are."""
    known = entries(kind)
    check_known(kind, name, list(known))
    return known[name]


def check_known(kind: str, name: str, known: list[str]) -> None:
    """Raises OptionError for a name that isn't known, with the nearest one that is."""
    if name not in known:
        raise OptionError(f"{kind} {name!r} is unknown{_meant(name, known)}")


def _meant(name: str, known: list[str]) -> str:
    """What to choose from, the nearest name first."""
    near = difflib.get_close_matches(name, known, 1)
    question = f" (did you mean {near[0]}?)" if near and near[0] != name else ""
    return f"{question}; choose from {', '.join(known)}"


def names(kind: Kind) -> list[str]:
    """All names of a kind, in the order of registration."""
    return list(dict.fromkeys(key if isinstance(key, str) else key[1] for key in entries(kind)))


def entries(kind: Kind) -> Mapping[Any, Any]:
    """What is registered of a kind, by name; methods by (environment, name)."""
    _load(kind)
    return _ENTRIES[kind]


def first_line(function: Callable) -> str:
    """The first sentence of a function's docstring, in one line; a partial may have its own."""
    while isinstance(function, functools.partial) and "__doc__" not in vars(function):
        function = function.func
    text = " ".join((function.__doc__ or "").split("\n\n")[0].split())
    return text.split(". ")[0].split("; ")[0].rstrip(".")


@functools.cache
def _load(kind: Kind) -> None:
    """Imports what registers a kind; a distribution that can't be is left out, with a warning."""
    for module in OWN[kind]:
        importlib.import_module(module)
    for point in metadata.entry_points(group=GROUPS[kind]):
        try:
            point.load()
        except Exception as error:
            warnings.warn(
                f"entry point {point.name!r} of {GROUPS[kind]} ({point.value}) was left out:"
                f" {type(error).__name__}: {error}",
                stacklevel=3,
            )


def _register(kind: Kind, name: str, about: Mapping[str, Any], make: Callable) -> Callable:
    _add(kind, name, Entry(name, make, about))
    return make


def _add(kind: Kind, key: Any, entry: Any) -> None:
    """Adds an entry. Raises OptionError where another function has its name."""
    function = lambda one: one.run if isinstance(one, Method) else one.make  # noqa: E731
    old = _ENTRIES[kind].get(key)
    if old is not None and _origin(function(old)) != _origin(function(entry)):
        label = key if isinstance(key, str) else key[1]
        raise OptionError(f"the name {label!r} of a {kind} is taken by {_origin(function(old))}")
    _ENTRIES[kind][key] = entry


def _origin(function: Callable) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return f"{function.__module__}.{function.__qualname__}"
