"""``rj.fit`` and ``rj.frontier``: a function that needs no more than so many bytes.

Work is traded for memory: what would be kept from the forward to the backward pass, and anything
else, is made again where that costs least. Random numbers are functions of their keys, so they are
the same when they are made again; a function with side effects is refused.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import jaxpr_as_fun

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.accelerator import accelerator as find
from regal_jax.compiler.accelerators.measure import placed
from regal_jax.compiler.barriers.kernels import Kernels
from regal_jax.compiler.ways.attempts import EVALUATIONS, Attempts
from regal_jax.compiler.ways.budget import COMPILATIONS, BudgetSearch, pareto, too_little
from regal_jax.compiler.ways.judge import Attempt, Judge, Needs, flops_ratio, judge_of
from regal_jax.compiler.ways.least import least_bytes
from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.compiler.xla.settings import Search
from regal_jax.errors import LimitError, OptionError
from regal_jax.options import byte_count
from regal_jax.reporting import figures, progress
from regal_jax.reporting.tables import human_bytes, human_flops, text_table

SHARES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Of the bytes beyond the arguments, where a frontier is looked at."""


class Fitted(NamedTuple):
    """A function within a budget.

    Attributes:
      function: pure, for ``jax.jit``; takes arrays of the shapes that it was made for.
      compiler_options: that it has to be compiled with: ``jax.jit(..., compiler_options=...)``.
      best, plain: what it needs now, and as it was.
      budget: bytes.
    """

    function: Callable[..., Any]
    compiler_options: Mapping[str, Any]
    best: Attempt
    plain: Attempt
    budget: int

    def __str__(self) -> str:
        return describe(self.best, self.plain, self.budget)


def fit(
    fn: Any,
    *args: Any,
    memory_budget: int | str,
    accelerator: str | Accelerator | None = None,
    in_shardings: Any = None,
    slices: bool = True,
    compilations: int = COMPILATIONS,
    evaluations: int = EVALUATIONS,
    seed: int = 0,
    **kwargs: Any,
) -> Fitted:
    """The function, changed so that its compiled program needs at most so many bytes.

    Args:
      fn: traceable by JAX; may be jitted, donated arguments count.
      *args, **kwargs: pytrees of arrays or ``jax.ShapeDtypeStruct``; nothing runs.
      memory_budget: bytes of one device, such as "16GiB": arguments, results, temporaries, code.
      accelerator: what to compile for, such as "h100"; by default this machine's CPU.
      in_shardings: see ``rj.measure``.
      slices: whether parts of a batch may run one after another (not on several CPU devices); sums
        over it are rounded differently.
      compilations: of plans, at most, besides the plain one, orders in segments, slices, plans of
        loops' bodies and fused sums.
      evaluations: of each search for a plan.
      seed: of everything random.

    Raises:
      LimitError: nothing that was tried is within the budget; the text says what is least, and what
        holds it (``rj.jit`` goes lower, by orders behind the scheduler).
      CompilerError: no compiler for the accelerator, or a function with side effects.
      OptionError: a budget that is no number of bytes.
    """
    budget = byte_count(memory_budget)
    judge = _judge(fn, args, kwargs, accelerator, in_shardings, slices)
    attempts = Attempts(judge, Search(evaluations=evaluations, seed=seed))
    best = BudgetSearch(attempts).within(budget, compilations=compilations)
    check_fits(judge, best, budget, "rj.jit (on CPUs and GPUs by orders of its own), ")
    options = judge.options_of(best.way)
    return Fitted(_function(fn, judge, best), options, best, attempts.plain, budget)


class Frontier(NamedTuple):
    """Memory against work.

    Attributes:
      points: the most bytes and the least work first; work is estimated time on accelerators, else
        FLOPs, and a little more than them in slices (``judge.SLICED``).
      plain: XLA's own choice.
    """

    points: tuple[Attempt, ...]
    plain: Attempt

    def rows(self) -> list[dict[str, Any]]:
        """A row a point, for tables: over XLA's own choice, or the first point where the compiler
        refuses that."""
        of = self._of
        return [
            {
                "needs": human_bytes(one.needs.total),
                "of plain": f"{one.needs.total / of.total:.3f}",
                "FLOPs": f"{flops_ratio(one.needs, of):.3f}",
                **({"time": f"{one.needs.seconds / of.seconds:.3f}"} if of.seconds else {}),
                "order": one.way.name,
            }
            for one in self.points
        ]

    @property
    def _of(self) -> Needs:
        return (self.points[0] if self.plain.needs.is_refused else self.plain).needs

    def save_plot(self, path: str | os.PathLike) -> None:
        """Draws bytes against time, or FLOPs, as in ``rows``. MissingDependencyError without
        matplotlib."""
        figure = figures.new_figure(6, 4)
        axes = figure.subplots()
        of, needs = self._of, [one.needs for one in self.points]
        work = [one.seconds / of.seconds if of.seconds else flops_ratio(one, of) for one in needs]
        share = [one.total / of.total for one in needs]
        axes.plot(work, share, drawstyle="steps-post", marker="o", color=figures.SERIES[0])
        name = "the least work"
        if not self.plain.needs.is_refused:
            name = "XLA's own choice"
            axes.plot(1.0, 1.0, marker="s", color=figures.SERIES[1])
        axes.set_xlabel(f"{'estimated time' if of.seconds else 'FLOPs'} over {name}")
        axes.set_ylabel(f"bytes over {name}")
        figures.style_axes(axes)
        figures.save_figure(figure, path)

    def __str__(self) -> str:
        return text_table(self.rows())


def frontier(
    fn: Any,
    *args: Any,
    accelerator: str | Accelerator | None = None,
    in_shardings: Any = None,
    shares: Sequence[float] = SHARES,
    slices: bool = True,
    evaluations: int = EVALUATIONS,
    seed: int = 0,
    **kwargs: Any,
) -> Frontier:
    """What a function needs with ever more of it computed again, by its compiler; the best of
    these in another order behind the scheduler, too, which ``rj.jit`` gives.

    Args:
      shares: of the bytes beyond the arguments that it needs in a good order: what is tried.

    The other arguments and errors are those of ``fit``; LimitError where the compiler refuses all.
    """
    judge = _judge(fn, args, kwargs, accelerator, in_shardings, slices)
    if not shares or not all(0 < share <= 1 for share in shares):
        raise OptionError(f"shares must be in (0, 1], got {shares}")
    attempts = Attempts(judge, Search(evaluations=evaluations, seed=seed))
    search = BudgetSearch(attempts)
    for share in progress.each("budgets", shares):
        search.look_at(share)
    for one in progress.each("orders", pareto(attempts.all)):
        attempts.reordered(one)
    if not (points := pareto(attempts.all)):
        raise LimitError(
            f"{judge.traced.fun_name}: the compiler for {accelerator} refuses all that was tried"
            " for its size; a smaller batch or more devices would help"
        )
    return Frontier(tuple(points), attempts.plain)


def check_fits(judge: Judge, best: Attempt, budget: int, more: str = "") -> None:
    """Raises LimitError where the best attempt isn't within the budget; ``more`` may help, too."""
    if best.needs.total <= budget:
        return
    needs = best.needs
    held = [
        f"arguments {human_bytes(needs.arguments)}",
        f"results {human_bytes(needs.memory.output - needs.memory.donated)}",
        *_largest_op(judge.kernels),
    ]
    least = needs.arguments + least_bytes(judge)
    never = f"; no way needs less than {human_bytes(least)}" if least > budget else ""
    raise LimitError(
        f"{too_little(needs, budget)}, of which {', '.join(held)}{never}; {more}a smaller batch,"
        " donated arguments or more devices may help"
    )


def _largest_op(kernels: Kernels) -> Sequence[str]:
    """The op that reads and writes the most bytes at once, for people; nothing without any."""
    graph = kernels.graph
    if not graph.num_ops:
        return ()
    own = graph.inputs.sums(graph.size * (graph.producer >= 0)) + graph.outputs.sums(graph.size)
    largest = int((own + graph.workspace).argmax())
    op = kernels.program.ops[kernels.ops[largest]].steps[-1].equation
    name = op.params.get("name", op.primitive.name)  # that of a call
    where = ", ".join(filter(None, (name, str(op.source_info.name_stack))))
    return (f"and the largest op ({where}) reads and writes {human_bytes(int(own[largest]))}",)


def describe(best: Attempt, plain: Attempt, budget: int) -> str:
    """What was traded for what, in a line for people."""
    if best.way.name == PLAIN:
        return f"needs {human_bytes(plain.needs.total)} as it is, within {human_bytes(budget)}"
    again = len(best.way.runs) - len(set(best.way.runs))
    where = " of a loop's body" * best.way.inner
    what = [f"{again} kernels{where} run again"] if again else []
    what += [f"in {best.way.slices} slices"] if best.way.slices else []
    what += ["loops keep less of each turn"] if best.way.loops and not best.way.slices else []
    what += ["sums are fused, which takes time"] if best.way.fuses_sums else []
    what = what or ["another order"]
    if plain.needs.is_refused:
        before = "what is refused for its size"
    else:
        before = human_bytes(plain.needs.total)
        what += [human_flops(flops_ratio(best.needs, plain.needs))]
    return (
        f"needs {human_bytes(best.needs.total)} instead of {before}, within {human_bytes(budget)}:"
        f" {', '.join(what)}"
    )


def _judge(fn, args, kwargs, name, in_shardings, slices) -> Judge:
    target = None if name is None else find(name)
    if target is not None:
        args, kwargs = placed(target, args, kwargs, in_shardings)
    jitted = fn if hasattr(fn, "trace") else jax.jit(fn)
    can_slice = target is not None or in_shardings is None
    return judge_of(jitted.trace(*args, **kwargs), target, slices=slices and can_slice)


def _function(fn: Any, judge: Judge, best: Attempt) -> Callable[..., Any]:
    """A function of the same arguments and results."""
    if best.way.name == PLAIN:
        return fn
    traced = judge.versions[best.way.loops].traced
    run = jaxpr_as_fun(traced.jaxpr)
    if best.way.runs:
        run = judge.program(best.way)
    shapes = [(aval.shape, aval.dtype) for aval in traced.jaxpr.in_avals]
    structure = jax.tree.structure(traced.out_info)

    def fitted(*args: Any, **kwargs: Any) -> Any:
        leaves = jax.tree.leaves((args, kwargs))
        given = [(jax.numpy.shape(leaf), jax.numpy.result_type(leaf)) for leaf in leaves]
        if given != shapes:
            raise OptionError(f"{traced.fun_name} was fitted to other shapes: call rj.fit on these")
        return jax.tree.unflatten(structure, run(*leaves))

    fitted.__name__ = fitted.__qualname__ = str(traced.fun_name)
    return fitted
