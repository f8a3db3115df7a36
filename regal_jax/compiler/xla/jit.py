"""``rj.jit``: a function compiled by XLA in the order that needs the least memory.

On CPUs the order is given to XLA behind its scheduler (``compiler.xla``). For GPUs and TPUs, and
within a memory budget, the program is cut by barriers before it is compiled, and some of it may run
again (``compiler.ways``).

What isn't about the order is JAX's: tracing, with its caches and contexts, tells programs apart;
all else (``eval_shape``, ``trace``, lowering, messages for bad input) is the jitted function's own.
"""

import functools
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jax._src.core import trace_state_clean

from regal_jax.compiler.xla import decisions
from regal_jax.compiler.xla.settings import METHODS, TIME_PRICE, Options, Search
from regal_jax.errors import CompilerError, OptionError
from regal_jax.options import Budget, byte_count
from regal_jax.registry import check_method

if TYPE_CHECKING:
    from regal_jax.compiler.xla.reschedule import Report

DEFAULT_CACHE = "default"
_config: Any = jax.config


class RescheduleWarning(UserWarning):
    """A function runs as ``jax.jit`` compiles it, where it was to have an order of its own."""


class Rescheduled:
    """A jitted function whose programs are compiled in the order of least memory.

    It is called like the jitted function and returns the same numbers, on CPUs bit for bit, on
    accelerators as far as other fusions round alike. Where JAX would compile, a search comes first.
    Where an order can't be given (side effects, a JAX without a hook, or inside ``grad``, ``vmap``
    and another ``jit``), it is the jitted function, with one ``RescheduleWarning``; ``strict``
    makes that a CompilerError. It is the jitted function also while JAX debugs
    (``jax_disable_jit``, ``jax_debug_nans``, ``jax_debug_infs``), which runs ops one by one. Other
    attributes are those of the jitted function.

    Attributes:
      reports: what was decided, one for every compiled program, oldest first.
    """

    def __init__(self, jitted: Any, options: Options, *, strict: bool = False):
        if not (hasattr(jitted, "lower") and hasattr(jitted, "trace")):
            kind = type(jitted).__name__
            raise OptionError(f"reschedule: takes a jitted function, got {kind}: use rj.jit")
        functools.update_wrapper(self, jitted)
        self.__wrapped__ = getattr(jitted, "__wrapped__", jitted)
        self._jitted, self._options, self._strict = jitted, options, strict
        self._programs: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()
        self._lock = threading.RLock()
        self._warned: set[str] = set()
        self.reports: list[Report] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _config.jax_disable_jit or _config.jax_debug_nans or _config.jax_debug_infs:
            return self._jitted(*args, **kwargs)
        if not trace_state_clean():
            name = self.__name__
            self._plainly(
                "inside grad, vmap or another jit it has no program of its own to reorder; put"
                f" rj.jit outermost, as in rj.jit(jax.grad({name}))"
            )
            return self._jitted(*args, **kwargs)
        traced = self._jitted.trace(*args, **kwargs)
        split = _split(self._jitted, args, kwargs)
        program = self._program(traced, split)
        if program is None:
            return self._jitted(*args, **kwargs)
        return program(*split.args, **split.kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_jitted" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._jitted, name)

    def __repr__(self) -> str:
        return f"<Rescheduled {self._jitted!r}>"

    def __copy__(self) -> "Rescheduled":
        return Rescheduled(self._jitted, self._options, strict=self._strict)

    def __deepcopy__(self, memo: dict) -> "Rescheduled":
        return self.__copy__()

    def lower(self, *args: Any, **kwargs: Any) -> "Lowered":
        """Like ``jax.jit(f).lower``; arguments may be ``jax.ShapeDtypeStruct``."""
        traced = self._jitted.trace(*args, **kwargs)
        return Lowered(traced.lower(), functools.partial(self._compile, traced))

    def clear_cache(self) -> None:
        """Forgets all programs, those of the jitted function, too."""
        with self._lock:
            self._programs.clear()
            self._jitted.clear_cache()

    def _cache_size(self) -> int:
        return sum(map(len, self._programs.values())) + self._jitted._cache_size()

    def _program(self, traced: Any, split: "_Split") -> Callable | None:
        """The compiled function for a trace, None for JAX's own; it is compiled if need be.

        Tracing is done before the lock is taken: it runs the function, which may call itself.
        """
        where = (_context(), *map(_placed, jax.tree.leaves((split.args, split.kwargs))))
        known = self._programs.get(traced.jaxpr, {})
        if where in known:  # not behind another thread's search
            return known[where]
        with self._lock:
            known = self._programs.setdefault(traced.jaxpr, {})
            if where not in known:
                made = self._compile(traced, traced.lower(), None)
                known[where] = None if made is None else made[0]
            return known[where]

    def _compile(
        self, traced: Any, lowered: Any, options: Any
    ) -> "tuple[jax.stages.Compiled, Report] | None":
        """In the order of least memory; None, or CompilerError if strict, where none is given."""
        from regal_jax.compiler import routes  # and all that searches

        try:
            compiled, report = routes.compile_best(traced, lowered, self._options, options)
        except CompilerError as error:
            self._plainly(str(error))
            return None
        self.reports.append(report)
        return compiled, report

    def _plainly(self, reason: str) -> None:
        """Says, once, why the function is left to ``jax.jit``; raises CompilerError if strict."""
        text = f"rj.jit of {self.__name__}: {reason}"
        if self._strict:
            raise CompilerError(text)
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(f"{text}; it runs as jax.jit compiles it", RescheduleWarning, 3)


class Lowered:
    """A lowered function that ``compile`` turns into ``jax.stages.Compiled``.

    Attributes:
      plain: what JAX lowered, whose attributes this has, too.
      report: what was decided when it was compiled last; None before, and without a decision.
    """

    def __init__(self, plain: jax.stages.Lowered, compile_best: Callable[..., Any]):
        self.plain = plain
        self.report: Report | None = None
        self._compile_best = compile_best

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "plain" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.plain, name)

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> jax.stages.Compiled:
        """The program in the order of least memory; see ``Rescheduled`` for where it isn't."""
        made = self._compile_best(self.plain, compiler_options)
        if made is None:
            return self.plain.compile(dict(compiler_options or {}) or None)
        compiled, self.report = made
        return compiled


def jit(
    fun: Callable | None = None,
    *,
    methods: Sequence[str] = METHODS,
    evaluations: int = Search().evaluations,
    time_limit: float | None = None,
    seed: int = 0,
    top_k: int | None = None,
    cache: str | Path | None = DEFAULT_CACHE,
    time_price: float = TIME_PRICE,
    overlap: bool = False,
    memory_budget: int | str | None = None,
    slices: bool = True,
    strict: bool = False,
    **jit_options: Any,
) -> Any:
    """``jax.jit``, with XLA running the program in the order that needs the least memory.

    Args:
      fun: the function; without it a decorator is returned.
      methods: names of methods for one device (``METHODS``) that orders are found by.
      evaluations: of the search "auto" on each computation; a tenth of them on accelerators and
        within memory budgets, where there are several.
      time_limit: seconds for the search, or None; with a limit the order depends on the machine.
      seed: same seed, same order.
      top_k: how many of the orders are compiled, besides XLA's own, to see their true bytes; by
        default 2 on CPUs, 8 on accelerators, 15 within a memory budget.
      cache: folder of earlier decisions; "default" is ``~/.cache/regal_jax/orders``, None is none.
      time_price: on accelerators, how many percent of bytes a percent of time is worth; 0: bytes
        alone count. Times are estimates. What runs again takes time.
      overlap: on accelerators, keep what takes 2 % longer than XLA's own choice out: timed where
        the device is there, else by estimate.
      memory_budget: bytes of one device, such as "16GiB", for arguments, results and temporaries:
        where the program needs more, parts of it are computed again, as few as possible, or a
        batch in slices. A call that nothing makes fit raises LimitError, which says what holds the
        memory.
      slices: whether they may be, one after another; sums over a batch are rounded differently.
      strict: raise CompilerError where an order can't be given: JAX without a hook behind the
        scheduler (before 0.10.2) on CPUs, a function with side effects, or inside another
        transformation. Otherwise such calls are those of ``jax.jit``, with one warning.
      **jit_options: those of ``jax.jit`` (static_argnums, donate_argnames, ...).

    Returns:
      A ``Rescheduled`` function.

    Raises:
      OptionError: an option out of its range.
    """
    made = functools.partial(
        reschedule,
        methods=methods,
        evaluations=evaluations,
        time_limit=time_limit,
        seed=seed,
        top_k=top_k,
        cache=cache,
        time_price=time_price,
        overlap=overlap,
        memory_budget=memory_budget,
        slices=slices,
        strict=strict,
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
    top_k: int | None = None,
    cache: str | Path | None = DEFAULT_CACHE,
    time_price: float = TIME_PRICE,
    overlap: bool = False,
    memory_budget: int | str | None = None,
    slices: bool = True,
    strict: bool = False,
) -> Rescheduled:
    """What ``jit`` does, for a function that is jitted already; the same options and errors.

    ``rj.reschedule(jax.jit(step)).lower(*args).compile()`` is a ``jax.stages.Compiled``.
    """
    for method in methods:
        check_method(method, "placement")
    Budget(evaluations).check()
    if top_k is not None and top_k < 0:
        raise OptionError(f"top_k must be at least 0, got {top_k}")
    if time_limit is not None and not time_limit > 0:
        raise OptionError(f"time_limit must be positive, got {time_limit}")
    if not 0 <= time_price < float("inf"):
        raise OptionError(f"time_price must be at least 0 and finite, got {time_price}")
    folder = decisions.default_folder() if cache == DEFAULT_CACHE else cache and Path(cache)
    search = Search(tuple(methods), evaluations, time_limit, seed)
    budget = None if memory_budget is None else byte_count(memory_budget)
    options = Options(search, top_k, folder or None, time_price, overlap, budget, slices)
    return Rescheduled(jitted, options, strict=strict)


class _Split(NamedTuple):
    """The arguments that a compiled function takes: all but the static ones."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _split(jitted: Any, args: Sequence, kwargs: Mapping[str, Any]) -> _Split:
    """JAX has no public way to tell which arguments are static."""
    info = getattr(jitted, "_jit_info", None)
    numbers = {n + len(args) if n < 0 else n for n in getattr(info, "static_argnums", ())}
    names = set(getattr(info, "static_argnames", ()))
    return _Split(
        tuple(arg for number, arg in enumerate(args) if number not in numbers),
        {name: value for name, value in kwargs.items() if name not in names},
    )


def _placed(leaf: Any) -> Any:
    """Where an argument is, if it has to stay there."""
    return leaf.sharding if isinstance(leaf, jax.Array) and leaf.committed else None


def _context() -> tuple:
    """What a program depends on besides its trace and arguments: where it will run."""
    return _config.jax_default_device, jax.sharding.get_mesh()
