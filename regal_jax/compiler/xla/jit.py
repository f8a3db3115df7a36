"""``rj.jit``: a function compiled by XLA in the order that needs the least memory."""

import functools
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.api_util

from regal_jax.compiler.xla import decisions
from regal_jax.compiler.xla.candidates import METHODS, Search
from regal_jax.compiler.xla.reschedule import Options, Report, compile_best
from regal_jax.errors import CompilerError, OptionError
from regal_jax.options import Budget
from regal_jax.registry import find_method

DEFAULT_CACHE = "default"


class Rescheduled:
    """A jitted function whose programs are compiled in the order of least memory.

    It is called like the jitted function and returns the same numbers, bit for bit. Arguments of
    new shapes, types or static values are searched for and compiled at the first call. Inside other
    transformations (``grad``, ``vmap``, another ``jit``) it is the plain jitted function.

    Attributes:
      reports: what was decided, one for every compiled program, oldest first.
    """

    def __init__(self, jitted: Any, options: Options):
        if not (hasattr(jitted, "lower") and hasattr(jitted, "trace")):
            kind = type(jitted).__name__
            raise OptionError(f"reschedule: takes a jitted function, got {kind}: use rj.jit")
        self._jitted = jitted
        self._options = options
        self._compiled: dict[Any, jax.stages.Compiled] = {}
        self._lock = threading.Lock()
        self.reports: list[Report] = []
        self.__wrapped__ = jitted
        self.__name__ = getattr(jitted, "__name__", "function")
        self.__doc__ = getattr(jitted, "__doc__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        dynamic, key = _split(self._jitted, args, kwargs)
        leaves, tree = jax.tree.flatten(dynamic)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self._jitted(*args, **kwargs)
        signature = (tree, key, _context(), *map(_abstract, leaves))
        compiled = self._compiled.get(signature)
        if compiled is None:
            with self._lock:
                compiled = self._compiled.get(signature)
                if compiled is None:
                    compiled = self.lower(*args, **kwargs).compile()
                    self._compiled[signature] = compiled
        return compiled(*dynamic[0], **dynamic[1])

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def lower(self, *args: Any, **kwargs: Any) -> "Lowered":
        """Like ``jax.jit(f).lower``; arguments may be ``jax.ShapeDtypeStruct``.

        Raises CompilerError for a function with side effects, whose order matters.
        """
        traced = self._jitted.trace(*args, **kwargs)
        if traced.jaxpr.effects:
            effects = ", ".join(sorted(str(effect) for effect in traced.jaxpr.effects))
            raise CompilerError(
                f"{self.__name__} has side effects ({effects}), which a new order could change: "
                "use jax.jit"
            )
        return Lowered(traced.lower(), self._options, self.reports)


class Lowered:
    """A lowered function that ``compile`` turns into ``jax.stages.Compiled``.

    Attributes:
      plain: what JAX lowered.
      report: what was decided when it was compiled last, or None.
    """

    def __init__(self, plain: jax.stages.Lowered, options: Options, reports: list[Report]):
        self.plain = plain
        self.report: Report | None = None
        self._options = options
        self._reports = reports

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> jax.stages.Compiled:
        """The program in the order of least memory. Raises CompilerError (``compile_best``)."""
        compiled, self.report = compile_best(self.plain, self._options, compiler_options)
        self._reports.append(self.report)
        return compiled

    def as_text(self) -> str:
        """The program before XLA (StableHLO)."""
        return self.plain.as_text()


def jit(
    fun: Callable | None = None,
    *,
    methods: Sequence[str] = METHODS,
    evaluations: int = Search().evaluations,
    time_limit: float | None = None,
    seed: int = 0,
    top_k: int = Options().top_k,
    cache: str | Path | None = DEFAULT_CACHE,
    **jit_options: Any,
) -> Any:
    """``jax.jit``, with XLA running the program in the order that needs the least memory.

    Args:
      fun: the function; without it a decorator is returned.
      methods: names of methods for one device (``METHODS``) that orders are found by.
      evaluations: of the search "auto" on each computation.
      time_limit: seconds for the search, or None; with a limit the order depends on the machine.
      seed: same seed, same order.
      top_k: how many of the orders are compiled, besides XLA's own two, to see their true bytes.
      cache: folder of earlier decisions; "default" is ``~/.cache/regal_jax/orders``, None is none.
      **jit_options: those of ``jax.jit`` (static_argnums, donate_argnames, ...).

    Returns:
      A ``Rescheduled`` function.

    Raises:
      OptionError: an option out of its range. At calls, CompilerError: JAX without a hook behind
        the scheduler (before 0.10.2), not on CPUs, or a function with side effects.
    """
    made = functools.partial(
        reschedule,
        methods=methods,
        evaluations=evaluations,
        time_limit=time_limit,
        seed=seed,
        top_k=top_k,
        cache=cache,
    )
    if fun is None:
        return lambda fun: made(jax.jit(fun, **jit_options))
    return made(jax.jit(fun, **jit_options))


def reschedule(
    jitted: Any,
    *,
    methods: Sequence[str] = METHODS,
    evaluations: int = Search().evaluations,
    time_limit: float | None = None,
    seed: int = 0,
    top_k: int = Options().top_k,
    cache: str | Path | None = DEFAULT_CACHE,
) -> Rescheduled:
    """What ``jit`` does, for a function that is jitted already; the same options and errors.

    ``rj.reschedule(jax.jit(step)).lower(*args).compile()`` is a ``jax.stages.Compiled``.
    """
    for method in methods:
        find_method(method, "placement")
    Budget(evaluations).check()
    if top_k < 0:
        raise OptionError(f"top_k must be at least 0, got {top_k}")
    if time_limit is not None and not time_limit > 0:
        raise OptionError(f"time_limit must be positive, got {time_limit}")
    folder = decisions.default_folder() if cache == DEFAULT_CACHE else cache and Path(cache)
    search = Search(tuple(methods), evaluations, time_limit, seed)
    return Rescheduled(jitted, Options(search, top_k, folder or None))


def _split(jitted: Any, args: Sequence, kwargs: Mapping[str, Any]) -> tuple[tuple, tuple]:
    """((dynamic args, dynamic kwargs), static values): compiled functions take no static ones.

    JAX has no public way to tell which these are.
    """
    info = getattr(jitted, "_jit_info", None)
    wanted = {n + len(args) if n < 0 else n for n in getattr(info, "static_argnums", ())}
    numbers = wanted.intersection(range(len(args)))
    names = set(getattr(info, "static_argnames", ()))
    static = (
        *((number, args[number]) for number in sorted(numbers)),
        *((name, kwargs[name]) for name in sorted(names.intersection(kwargs))),
    )
    dynamic = tuple(arg for number, arg in enumerate(args) if number not in numbers)
    return (dynamic, {name: kwargs[name] for name in kwargs if name not in names}), static


def _abstract(leaf: Any) -> tuple:
    """What a program depends on of an argument."""
    if isinstance(leaf, jax.Array):
        return leaf.aval, leaf.sharding if leaf.committed else None
    return jax.api_util.shaped_abstractify(leaf), None


def _context() -> tuple:
    """What programs depend on besides arguments."""
    names = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_device")
    return tuple(getattr(jax.config, name) for name in names)
