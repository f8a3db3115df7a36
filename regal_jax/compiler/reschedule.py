"""Compiles a program in several orders, and keeps the one that needs the least memory.

Orders are found by liveness and packing (``candidates``), the best few are compiled, with little
effort spent on kernels, and their true temporaries (``memory_analysis``) decide; XLA's own orders
compete, so the choice is never worse than these. Which instructions there are is settled before
their order is, so results are bit for bit the same.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

from regal_jax.compiler import decisions
from regal_jax.compiler.candidates import Search, candidates, estimated
from regal_jax.compiler.decisions import Decision
from regal_jax.compiler.module_orders import ModuleOrder, order_of
from regal_jax.compiler.scheduler_hook import PLATFORM, check_supported, compile_in_order
from regal_jax.errors import CompilerError
from regal_jax.graphs.importers.xla_text import Module, parse_module

DEFAULT = "xla_default"
MEMORY = "xla_memory"
"""Names of XLA's own orders."""

_MEMORY_OPTIMIZED: Mapping[str, Any] = {
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"
}
_QUICKLY: Mapping[str, Any] = {"xla_backend_optimization_level": 0}


class Options(NamedTuple):
    """How a program is rescheduled.

    Attributes:
      search: of the orders.
      top_k: how many orders are compiled, at most, besides XLA's.
      cache: the folder of decisions; None keeps none.
    """

    search: Search = Search()
    top_k: int = 2
    cache: Path | None = None


class Report(NamedTuple):
    """What was decided on a program.

    Attributes:
      module: the name of its module in XLA.
      chosen: the name of the order: "xla_default", "xla_memory" or a method's.
      temp_bytes: true temporaries [bytes] of every order that was compiled, by name.
      estimates: those that were expected [bytes] of every order, by name.
      search_seconds, compile_seconds: spent on finding orders, and on all compilations.
      cached: whether the decision was made before.
    """

    module: str
    chosen: str
    temp_bytes: Mapping[str, int]
    estimates: Mapping[str, int]
    search_seconds: float = 0.0
    compile_seconds: float = 0.0
    cached: bool = False

    @property
    def ratio(self) -> float:
        """Temporaries over those of the better of XLA's orders; 1 where there are none."""
        best = min(self.temp_bytes[name] for name in (DEFAULT, MEMORY))
        return self.temp_bytes[self.chosen] / best if best else 1.0

    def __str__(self) -> str:
        rows = (f"{name} {bytes_} B" for name, bytes_ in self.temp_bytes.items())
        return f"{self.module}: {self.chosen} ({'; '.join(rows)})"


def compile_best(
    lowered: jax.stages.Lowered,
    options: Options,
    compiler_options: Mapping[str, Any] | None = None,
) -> tuple[jax.stages.Compiled, Report]:
    """Compiles a lowered function in the best order found.

    Raises:
      CompilerError: no hook in this JAX, not for CPUs, or a module without a schedule.
    """
    check_supported()
    own = dict(compiler_options or {})
    key = decisions.key_of(lowered, sorted(own.items()), options.search, options.top_k)
    started = time.perf_counter()
    known = decisions.load(options.cache, key) if options.cache else None
    if known and (compiled := _compile_known(lowered, known, own)) is not None:
        spent = time.perf_counter() - started
        return compiled, Report(
            known.module, known.name, known.temp_bytes, {}, compile_seconds=spent, cached=True
        )
    decision, report = _decide(lowered, options, own)
    compiled = _compile(lowered, decision, own)
    spent = time.perf_counter() - started
    if options.cache:
        decisions.save(options.cache, key, decision)
    return compiled, report._replace(compile_seconds=spent - report.search_seconds)


def _decide(
    lowered: jax.stages.Lowered, options: Options, own: Mapping[str, Any]
) -> tuple[Decision, Report]:
    """The best order by true bytes, and how it compares."""
    plain = lowered.compile({**own, **_QUICKLY})
    module = _module(plain)
    orders: dict[str, ModuleOrder] = {DEFAULT: {}}
    temp_bytes = {DEFAULT: temporaries(plain)}
    compact = lowered.compile({**own, **_QUICKLY, **_MEMORY_OPTIMIZED})
    orders[MEMORY], temp_bytes[MEMORY] = order_of(_module(compact)), temporaries(compact)
    started = time.perf_counter()
    estimates = {name: estimated(module, order) for name, order in orders.items()}
    found = candidates(module, options.search)
    search_seconds = time.perf_counter() - started
    for one in found[: options.top_k]:
        try:
            compiled = compile_in_order(lowered, module.name, one.order, {**own, **_QUICKLY})
        except CompilerError:
            continue
        orders[one.name], temp_bytes[one.name] = one.order, temporaries(compiled)
    chosen = min(temp_bytes, key=lambda name: temp_bytes[name])
    decision = Decision(module.name, chosen, orders[chosen], temp_bytes)
    estimates |= {one.name: one.estimate for one in found}
    return decision, Report(module.name, chosen, temp_bytes, estimates, search_seconds)


def _compile(
    lowered: jax.stages.Lowered, decision: Decision, own: Mapping[str, Any]
) -> jax.stages.Compiled:
    if not decision.order:
        return lowered.compile(dict(own) or None)
    return compile_in_order(lowered, decision.module, decision.order, own)


def _compile_known(
    lowered: jax.stages.Lowered, decision: Decision, own: Mapping[str, Any]
) -> jax.stages.Compiled | None:
    """A program in an order chosen before; None if it isn't an order of it after all."""
    try:
        return _compile(lowered, decision, own)
    except CompilerError:
        return None


def _module(compiled: jax.stages.Compiled) -> Module:
    """XLA's module. CompilerError where its order can't be given."""
    executable: Any = compiled.runtime_executable()
    platform = executable.local_devices()[0].platform
    if platform != PLATFORM:
        raise CompilerError(f"programs are rescheduled on {PLATFORM} only, this is for {platform}")
    return parse_module(str(compiled.as_text()))


def temporaries(compiled: jax.stages.Compiled) -> int:
    """Bytes of temporaries that XLA allocates for a compiled function."""
    statistics: Any = compiled.memory_analysis()
    return int(statistics.temp_size_in_bytes)
