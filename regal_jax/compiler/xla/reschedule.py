"""Compiles a program in several orders, and keeps the one that needs the least memory.

Orders are found by liveness and packing (``candidates``), the best few are compiled, with little
effort spent on kernels, and what they truly allocate (``memory_analysis``) decides; XLA's own
orders compete, so the choice is never worse than these. Which instructions there are is settled
before their order is, so results are bit for bit the same.

With JAX 0.10.2 XLA forgets which arguments are donated when a module comes back from the hook:
results then get memory of their own. This counts, so a program with donated arguments is given a
new order only where that saves more, and its donated arguments stay valid then.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from regal_jax.compiler.xla import decisions
from regal_jax.compiler.xla.candidates import Candidate, candidates, estimated, headroom
from regal_jax.compiler.xla.decisions import Decision, Memory
from regal_jax.compiler.xla.live_memory import live_memory
from regal_jax.compiler.xla.module_orders import ModuleOrder, order_of, without_donations
from regal_jax.compiler.xla.peak_bound import peak_bound
from regal_jax.compiler.xla.scheduler_hook import check_supported, compile_in_order
from regal_jax.compiler.xla.settings import Options
from regal_jax.errors import CompilerError
from regal_jax.graphs.importers.xla.text import Module, parse_module
from regal_jax.reporting import progress
from regal_jax.reporting.tables import human_bytes, human_flops

PLATFORM = "cpu"
"""What programs are rescheduled for here; accelerators have others (``compiler.ways``)."""

DEFAULT = "xla_default"
MEMORY = "xla_memory"
"""Names of XLA's own orders."""

MEMORY_OPTIMIZED: Mapping[str, Any] = {
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"
}
QUICKLY: Mapping[str, Any] = {"xla_backend_optimization_level": 0}
"""Compiler options for CPUs: the same memory, sooner."""

_NAMES = {DEFAULT: "XLA's own order", MEMORY: "XLA's memory-optimized order"}
ESTIMATE_ERROR = 0.1
"""Of what an order allocates; orders that would be worse than XLA's by more are not compiled."""


TOP_K = 2
"""Orders that are compiled, unless told otherwise."""

WORTH = 0.01
"""Of what XLA's better order needs: where none can save more, none is looked for."""


class Report(NamedTuple):
    """What was decided on a program.

    Attributes:
      module: the name of its module in XLA.
      chosen: the name of the order: "xla_default", "xla_memory" or a method's.
      memory: what XLA allocates in every order that was compiled, by name.
      estimates: bytes of temporaries that were expected of every order, by name.
      search_seconds, compile_seconds: spent on finding orders, and on all compilations.
      cached: whether the decision was made before.
      room: bytes that an order may save at most, where none was found; -1 if not known.
      least: bytes of temporaries and results that every order of its instructions needs
        (``peak_bound``), as far as XLA allocates by the rules of ``buffers``; 0 if not known.
      accelerator: what it is compiled for; nothing for CPUs.
      time_ratio: the estimated time over that of XLA's own choice, on accelerators, where it was
        decided now; 0 where the compiler refuses that.
      budget: bytes that the program may need, with its arguments; 0 for as few as an order can.
      flops_ratio: FLOPs over those of XLA's own choice, on accelerators and within a budget, where
        it was decided now.
    """

    module: str
    chosen: str
    memory: Mapping[str, Memory]
    estimates: Mapping[str, int]
    search_seconds: float = 0.0
    compile_seconds: float = 0.0
    cached: bool = False
    room: int = -1
    least: int = 0
    accelerator: str = ""
    time_ratio: float = 1.0
    budget: int = 0
    flops_ratio: float = 1.0

    @property
    def settled(self) -> bool:
        """Whether XLA's order is at the lower bound, so that there was nothing to search for."""
        return self.room == 0

    @property
    def ratio(self) -> float:
        """Temporaries and results over those of the better of XLA's orders."""
        best = _better(self._of_xla())
        return self.memory[self.chosen].total / best if best else 1.0

    def __str__(self) -> str:
        """What was saved, or why nothing was, and what it took, in a line for people."""
        needs = human_bytes(self.memory[self.chosen].total)
        if self.budget:
            text = self._within_budget(needs)
        elif self.chosen in (DEFAULT, MEMORY):
            text = f"{_NAMES[self.chosen]}, {needs} of temporaries and results: {self._why_not()}"
        else:
            others = " and ".join(human_bytes(memory.total) for memory in self._of_xla())
            text = (
                f"{self.chosen} saved {100 * (1 - self.ratio):.0f} % over XLA's"
                f" {'choice' if self.accelerator else 'better order'}:"
                f" {needs} of temporaries and results, XLA's {others}{self._kept_alive()}"
            )
        made = "decided before" if self.cached else f"search {self.search_seconds:.1f} s"
        return (
            f"{self.module}: {text}{self._at_least()}{self._on_accelerator()}; {made},"
            f" compilation {self.compile_seconds:.1f} s"
        )

    def _within_budget(self, needs: str) -> str:
        plain = human_bytes(self.memory[DEFAULT].total)
        fits = f"{needs} of temporaries and results fit {human_bytes(self.budget)}"
        if self.chosen == DEFAULT:
            return f"{fits} as it is"
        price = "" if self.cached else f", for {human_flops(self.flops_ratio)}"
        return f"{fits}, XLA's {plain} don't{price}"

    def _of_xla(self) -> list[Memory]:
        return [self.memory[name] for name in (DEFAULT, MEMORY) if name in self.memory]

    def _on_accelerator(self) -> str:
        if not self.accelerator:
            return ""
        text = f"; compiled for {self.accelerator}"  # a kept decision has no times
        if self.cached:
            return text
        seconds, flops = self.time_ratio, self.flops_ratio
        if not seconds:
            return f"{text}, whose compiler refuses XLA's own choice for its size"
        return f"{text}, estimated time {seconds:.2f} and FLOPs {flops:.2f} of XLA's"

    def _at_least(self) -> str:
        is_known = not self.settled and 0 < self.least < self.memory[self.chosen].total
        return f"; no order needs less than {human_bytes(self.least)}" if is_known else ""

    def _kept_alive(self) -> str:
        donated = self.memory[DEFAULT].donated - self.memory[self.chosen].donated
        return f"; donated arguments stay alive ({human_bytes(donated)})" if donated > 0 else ""

    def _why_not(self) -> str:
        """Why XLA's order was kept."""
        ours = [memory for name, memory in self.memory.items() if name not in (DEFAULT, MEMORY)]
        kept = self.memory[self.chosen]
        if lost := [one for one in ours if one.temporaries < kept.temporaries and kept.donated]:
            saved = human_bytes(kept.temporaries - min(one.temporaries for one in lost))
            return f"a new order saves {saved}, and loses a donation of {human_bytes(kept.donated)}"
        if self.settled:
            return "no order needs less, it is at the lower bound"
        if 0 < self.room < _worth(_better(self._of_xla())):
            return f"no order of a part of it saves {100 * WORTH:.0f} %"
        tried = max(len(self.estimates) - 2, len(ours))
        return f"none of {tried} other orders needs less" if tried else "there is no other order"


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
            *(known.module, known.name, known.memory, {}),
            compile_seconds=spent,
            cached=True,
            least=known.least,
        )
    decision, report = _decide(lowered, options, own)
    compiled = _compile(lowered, decision, own)
    spent = time.perf_counter() - started - report.search_seconds
    memory = {**report.memory, report.chosen: memory_of(compiled)}
    if options.cache:
        decisions.save(options.cache, key, decision._replace(memory=memory))
    return compiled, report._replace(memory=memory, compile_seconds=spent)


def _decide(
    lowered: jax.stages.Lowered, options: Options, own: Mapping[str, Any]
) -> tuple[Decision, Report]:
    """The best order by true bytes, and how it compares."""
    quickly = {**own, **QUICKLY}
    plain, compact = lowered.compile(quickly), lowered.compile({**quickly, **MEMORY_OPTIMIZED})
    module = _module(plain)
    orders: dict[str, ModuleOrder] = {DEFAULT: {}, MEMORY: order_of(_module(compact))}
    memory = {DEFAULT: memory_of(plain), MEMORY: memory_of(compact)}
    started = time.perf_counter()
    estimates = {name: estimated(module, order) for name, order in orders.items()}
    best, least = _better(memory.values()), _least(module)
    room = best - least
    found: list[Candidate] = []
    if room not in range(_worth(best)):
        ours = without_donations(module)
        with progress.status(f"rj.jit: looking for an order of {module.name}"):
            found = candidates(ours, options.search, _worth(best))
        room = -1 if found else headroom(ours)
    search_seconds = time.perf_counter() - started
    estimates |= {one.name: one.estimate for one in found}
    for one in _promising(found, memory)[: TOP_K if options.top_k is None else options.top_k]:
        try:
            compiled = compile_in_order(lowered, module.name, one.order, quickly)
        except CompilerError:
            continue
        orders[one.name], memory[one.name] = one.order, memory_of(compiled)
    chosen = min(memory, key=lambda name: memory[name].total)
    order = {} if chosen == DEFAULT else orders[chosen]
    report = Report(module.name, chosen, memory, estimates, search_seconds, room=room, least=least)
    return Decision(module.name, chosen, order, memory, least), report


def _least(module: Module) -> int:
    """Bytes of temporaries and results that every order needs."""
    memory = live_memory(module)
    given = sum(one.num_bytes for one in memory.memories if one.kind in ("parameter", "constant"))
    return max(0, peak_bound(module, memory).num_bytes - given)


def _better(memories: Iterable[Memory]) -> int:
    """Bytes of temporaries and results of the one that needs fewest."""
    return min(one.total for one in memories)


def _worth(needs: int) -> int:
    """Bytes that are worth a search, where XLA's better order needs so many."""
    return max(1, int(WORTH * needs))


def _promising(found: Sequence[Candidate], memory: Mapping[str, Memory]) -> list[Candidate]:
    """Orders that may be better than XLA's, estimates being what they are."""
    best, results = _better(memory.values()), memory[DEFAULT].output
    return [one for one in found if one.estimate + results < best * (1 + ESTIMATE_ERROR)]


def _compile(
    lowered: jax.stages.Lowered, decision: Decision, own: Mapping[str, Any]
) -> jax.stages.Compiled:
    if decision.name == MEMORY:
        return lowered.compile({**own, **MEMORY_OPTIMIZED})
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


def memory_of(compiled: jax.stages.Compiled) -> Memory:
    """What XLA allocates for a compiled function."""
    found: Any = compiled.memory_analysis()
    sizes = (found.temp_size_in_bytes, found.output_size_in_bytes, found.alias_size_in_bytes)
    return Memory(*map(int, sizes))
