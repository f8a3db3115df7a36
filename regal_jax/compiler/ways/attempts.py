"""Ways to run a program that were compiled, each once."""

import functools
import math
from collections.abc import Callable

from regal_jax.compiler.barriers.cuts import cut_at
from regal_jax.compiler.barriers.kernels import Kernels, with_results_early
from regal_jax.compiler.recompute.emission import ANY
from regal_jax.compiler.recompute.plans import Lines, Named
from regal_jax.compiler.ways.judge import Attempt, Judge, Needs, Way
from regal_jax.compiler.xla.behind import REORDERED
from regal_jax.compiler.xla.decisions import Memory
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.settings import Search
from regal_jax.errors import CompilerError, DeviceMemoryError

EVALUATIONS = 20_000
"""Of the search for a base order, of that for a plan of each limit, and for an order behind the
scheduler, unless told otherwise."""

AS_IT_IS = Way(PLAIN)
"""XLA's own choice."""

SHARE = 10
"""Of the evaluations that an order on CPUs may take: what each search here may."""


def each_of(search: Search) -> Search:
    """Each search, where there are several."""
    return search._replace(evaluations=max(1, search.evaluations // SHARE))


class Attempts:
    """Compiles a program one way or another.

    Args:
      judge: compiles.
      how: base orders, plans and orders behind the scheduler are searched for.

    Attributes:
      all: what the compiler didn't refuse, XLA's own choice first.

    Raises CompilerError where the compiler refuses the program as it is, but for its size: it then
    has no program, and takes forever.
    """

    def __init__(self, judge: Judge, how: Search):
        self.judge, self._how = judge, how
        on = judge.target and judge.target.specification
        self._lines: Callable[[int, bool, bool], Lines] = functools.cache(
            lambda *which: Lines(_kernels(judge, *which), how, on)
        )
        try:
            first = judge(AS_IT_IS)
        except DeviceMemoryError:
            first = Attempt(AS_IT_IS, _too_large(judge))
        self._known: dict[Way, Attempt | None] = {AS_IT_IS: first}

    def lines(self, loops: int, early: bool = False, inner: bool = False) -> Lines:
        """Plans of the program with such loops; early: results are held from the start; inner: of
        the body of the loop that holds most."""
        return self._lines(loops, early, inner)

    @property
    def all(self) -> list[Attempt]:
        return [one for one in self._known.values() if one is not None]

    @property
    def plain(self) -> Attempt:
        """XLA's own choice."""
        return self.all[0]

    def of(self, way: Way) -> Attempt | None:
        """A way; None where the compiler refuses it."""
        return self._once(way, lambda: self.judge(way))

    def reordered(self, base: Attempt, time_limit: float | None = None) -> Attempt | None:
        """The same in another order behind the scheduler, within so many seconds; None if none is
        expected to need less, or none can be given."""
        way = base.way._replace(name=base.way.name + REORDERED)
        how = self._how._replace(time_limit=time_limit)
        return self._once(way, lambda: self.judge.reordered(base, how))

    def _once(self, way: Way, make: Callable[[], Attempt | None]) -> Attempt | None:
        if way not in self._known:
            try:
                self._known[way] = make()
            except CompilerError:
                self._known[way] = None
        return self._known[way]


def _kernels(judge: Judge, loops: int, early: bool, inner: bool) -> Kernels:
    of = judge.versions[loops].kernels_of(inner)
    return with_results_early(of) if early else of


def _too_large(judge: Judge) -> Needs:
    """Of the program as it is: more than the device has, which is all that is known."""
    graph, target = judge.kernels.graph, judge.target
    assert target is not None
    given = int(graph.size[graph.producer < 0].sum())
    more = max(target.specification.memory_bytes + 1 - given, 1)
    return Needs(Memory(more, 0, 0), given, 0, 0.0, math.inf)


def whole(judge: Judge, loops: int) -> Way:
    """A version in the compiler's order; of slices one after another CPUs' for memory."""
    version = judge.versions[loops]
    is_compact = version.slices is not None and version.slices.unrolled
    return Way(version.name, compact=is_compact, loops=loops, slices=version.turns)


def with_fused_sums(way: Way) -> Way:
    """The same, but for who adds up, on CPUs."""
    return way._replace(name=f"{way.name} fused", fuses_sums=True)


def in_segments(lines: Lines, order: str, number: int) -> Way | None:
    """A base order, cut in its so many best places; None where it has none."""
    cuts = cut_at(lines.places(order), number)
    return Way(f"{order}/{len(cuts)}", lines.orders[order], cuts=cuts) if cuts else None


def by_plan(plan: Named, near: int = ANY, *, compact: bool = False, of: Way = AS_IT_IS) -> Way:
    """Some kernels run again; ``of`` is the version."""
    runs = tuple(plan.plan.runs.tolist())
    name = f"{plan.order}~{len(runs) - len(set(runs))}" + "_inside" * of.inner
    name = f"{of.name} {name}" if of.loops else name
    return of._replace(name=name, runs=runs, near=near, compact=compact)
