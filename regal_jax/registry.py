"""What can be asked for by name: methods, samplers, environments, policies, data sets, importers.

Each is a function that registers itself where it is defined, by a decorator of this module; those
of this distribution are listed here, so that they are imported when they are asked for. Other
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
_METHODS: Mapping[str, Mapping[str, str]] = {
    "placement": {
        "simple": "depth_first breadth_first random_order lpmf xla_list xla_dfs",
        "classical": "critical_path heft cpop etf hbmct partition_dfs metis_dfs mtkahypar_dfs"
        " cp_sat",
        "evolution": "brkga tuned_brkga random_search",
        "warm": "warm_brkga elite_mutation",
        "dispatching": "regal dispatch",
        "topoformer": "topoformer",
        "next_op": "next_op lookahead",
        "ordering": "approximate_dp dp depth_first_dp random_orders",
        "exact": "exact",
        "refinement": "local_search",
        "portfolio": "portfolio auto",
        "recompute": "recompute cp_sat_recompute",
        "regal_paper": "regal_paper gas idrs",
        "robust": "list_sampling random_ties price_sweep one_shot gflownet ppo metropolis",
    },
    "rcpsp": {
        "evolution": "brkga random_search",
        "one_shot": "one_shot",
        "noisy_rule": "noisy_rule",
        "sequencing": "sequencing giffler_thompson",
        "rcpsp": "auto justification tabu cp_sat critical_path mopnr spt lpt tetris"
        " most_work_remaining most_successors latest_finish least_slack rank_positional_weight"
        " greatest_resource_demand",
    },
}
_SAMPLERS = (
    "critical_path brkga regal_paper random_search list_sampling random_ties metropolis price_sweep"
    " regal dispatch"
    " one_shot gflownet ppo"
)
_POLICIES = {
    "regal.dispatching": "regal_dispatch",
    "topological_order.policy": "topoformer",
    "one_shot.policy": "one_shot",
    "choosing": "sequencing next_op",
    "regal.policy": "regal",
    "gflownet.policy": "gflownet",
}
_IMPORTERS = {
    "files": ".json .jsonl .jsonl.gz",
    "importers.onnx.model": ".onnx",
    "importers.tensorflow.cost_graph": ".pbtxt .pb",
    "importers.xla.module": ".hlo .txt .hlo.pb",
}


def _homes(folder: str, names: Mapping[str, str]) -> dict[Any, str]:
    """The module of each name of a table: module in a folder, names."""
    return {one: f"regal_jax.{folder}.{file}" for file in names for one in names[file].split()}


OWN: Mapping[Kind, Mapping[Any, str]] = {
    "method": {
        (problem, name): module
        for problem, names in _METHODS.items()
        for name, module in _homes("methods", names).items()
    },
    "sampler": _homes("methods", {"samplers": _SAMPLERS}),
    "environment": _homes(
        "environments", {"placement.problem": "placement", "rcpsp.problem": "rcpsp"}
    ),
    "policy": _homes("policies", _POLICIES),
    "dataset": _homes("datasets", {"corpora": "model_zoo synthetic"}),
    "importer": _homes("graphs", _IMPORTERS),
}
"""What this distribution has of each kind, and the module that registers it when it is imported:
only what is asked for is, so that nobody pays for what others use."""
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
    for known in (lambda: _ENTRIES["policy"], lambda: entries("policy")):
        for entry in known().values():
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
    """The method of a name for an environment's problems; raises OptionError as ``check_method``
    does."""
    check_method(name, problem)
    _load_own("method", (problem, name))
    return _ENTRIES["method"][problem, name]


def check_method(name: str, problem: str) -> None:
    """Raises OptionError, naming those there are, for the name of no method for an environment's
    problems."""
    if (problem, name) in OWN["method"] or (problem, name) in (methods := keys("method")):
        return
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
    if name not in OWN[kind]:
        check_known(kind, name, keys(kind))
    _load_own(kind, name)
    return _ENTRIES[kind][name]


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
    """All names of a kind: this distribution's, then others in the order of registration."""
    return list(dict.fromkeys(key if isinstance(key, str) else key[1] for key in keys(kind)))


def keys(kind: Kind) -> list[Any]:
    """All names of a kind; of methods (environment, name). Nothing of this distribution's is
    imported for it."""
    _load_others(kind)
    return list(dict.fromkeys([*OWN[kind], *_ENTRIES[kind]]))


def entries(kind: Kind) -> Mapping[Any, Any]:
    """What is registered of a kind, by name; methods by (environment, name)."""
    for key in OWN[kind]:
        _load_own(kind, key)
    return {key: _ENTRIES[kind][key] for key in keys(kind)}


def first_line(function: Callable) -> str:
    """The first sentence of a function's docstring, in one line; a partial may have its own."""
    while isinstance(function, functools.partial) and "__doc__" not in vars(function):
        function = function.func
    text = " ".join((function.__doc__ or "").split("\n\n")[0].split())
    return text.split(". ")[0].split("; ")[0].rstrip(".")


def _load_own(kind: Kind, key: Any) -> None:
    """Imports the module of this distribution that registers a name, if there is one."""
    if key in OWN[kind]:
        importlib.import_module(OWN[kind][key])


@functools.cache
def _load_others(kind: Kind) -> None:
    """Imports what other distributions register of a kind; one that can't be is left out, with a
    warning."""
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
    _load_own(kind, key)
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
