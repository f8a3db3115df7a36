"""The explanation of a program's memory peak as text, and the sentences it shares with the page."""

import textwrap
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from regal_jax.errors import OptionError
from regal_jax.reporting.tables import human_bytes, human_percent, text_table
from regal_jax.reporting.terminal import one_line, printable

if TYPE_CHECKING:
    from regal_jax.compiler.explain.explanation import Explanation, Live
    from regal_jax.compiler.explain.remedies import Remedy
    from regal_jax.compiler.explain.source_lines import SourceLine

LONGEST_NAME = 44
"""Characters of a name in a table; the front of longer ones is left out."""


WIDTH = 100
"""Characters of a line of prose."""

HOW = {
    "recompute": (
        "Recompute: cheap to make in the forward pass, then idle until the backward pass reads "
        "them. Wrap the function, or one that calls it, in jax.checkpoint (nn.remat in Flax); with "
        "policy=jax.checkpoint_policies.dots_saveable matrix products aren't computed twice. The "
        "arguments of what is wrapped are kept."
    ),
    "later": (
        "Make later: cheap to make, but made before they are read. Make them where they are "
        "read, or let rj.jit look for an order that does."
    ),
    "donate": (
        "Donate: if the caller doesn't need the argument afterwards, jax.jit(..., donate_argnames="
        "...) or donate_argnums. Results of the same shapes then take its memory; without that XLA "
        "holds theirs throughout, besides."
    ),
    "split": (
        "Split: in two microbatches, if it is the dimension of the batch, or over two devices."
    ),
}
"""How remedies are carried out, by the first word of their titles."""


class Advice(NamedTuple):
    """A remedy in words.

    Attributes:
      how: a key of ``HOW``.
      title: what is to be done.
      detail: what it is about.
    """

    how: str
    title: str
    detail: str


def explanation_text(explanation: "Explanation", *, top: int = 12) -> str:
    """A report to read in a terminal, without a trailing newline.

    Args:
      explanation: of ``rj.explain``.
      top: how many of the buffers in use at the peak are listed, the largest first.

    Raises OptionError (``check_top``).
    """
    check_top(top)
    live = explanation.at_peak
    rows = [_row(explanation, one) for one in live[:top]]
    parts = [
        f"{headline(explanation)}\n{running(explanation, explanation.peak_step)}",
        text_table(_kinds(explanation)),
        _filled(allocation(explanation)),
        f"Buffers in use at the peak, the largest {len(rows)} of {len(live)}\n{text_table(rows)}",
        f"What bounds it\n{_filled(bound(explanation))}",
        f"What would lower it, estimated\n{_remedies(explanation)}",
    ]
    if explanation.orders:
        parts.append(f"Orders compared, the present one first\n{_compared(explanation)}")
    return printable("\n\n".join(parts))


def check_top(top: int) -> None:
    """Raises OptionError for a list of no buffers."""
    if top < 1:
        raise OptionError(f"top must be at least 1, got {top}")


def headline(explanation: "Explanation") -> str:
    """The peak and where it is, in one line."""
    size, count = human_bytes(explanation.peak), len(explanation.steps)
    return f"{explanation.module}: peak memory {size}, at step {explanation.peak_step} of {count}"


def running(explanation: "Explanation", step: int) -> str:
    """What runs at a step, and which line it is of."""
    one = explanation.steps[step]
    parts = [f"{one.instruction} ({one.opcode}) runs there", one.op_name, place(one.source)]
    return ": ".join(part for part in parts[:2] if part) + (f", {parts[2]}" if parts[2] else "")


def place(source: "SourceLine | None") -> str:
    """A line of source in short: the end of its path, and the function; "" where unknown."""
    if source is None:
        return ""
    path = "/".join(PurePath(source.file.replace("\\", "/")).parts[-2:])
    return f"{path}:{source.line}" + (f" ({source.function})" if source.function else "")


def allocation(explanation: "Explanation") -> str:
    """What XLA allocates, in a sentence."""
    one, more = explanation.allocated, explanation.fragmentation
    origin = "an estimate" if one.measured is None else f"estimated {human_bytes(one.estimate)}"
    compared = (
        f"{human_bytes(more)} more than is in use at the peak: gaps between temporaries, outputs "
        "not written yet, donated arguments not read any more"
        if more >= 0
        else f"{human_bytes(-more)} less than is counted here at the peak: XLA shares more memory "
        "than its text tells"
    )
    return (
        f"XLA allocates {human_bytes(one.total)}: parameters and constants "
        f"{human_bytes(one.parameters + one.constants)}, outputs of their own "
        f"{human_bytes(one.outputs)}, "
        f"temporaries {human_bytes(one.temporaries)} ({origin}). That is {compared}."
    )


def bound(explanation: "Explanation") -> str:
    """What no order can do without, and what another order could gain, in sentences."""
    one, at_most = explanation.bound, explanation.reducible
    size = human_bytes(one.num_bytes)
    if at_most <= 0:
        return f"No order of the instructions needs less than {size}: the peak is at its bound."
    gain = human_percent(100 * at_most / explanation.peak)
    return (
        f"No order of the instructions needs less than {size}: {_term(explanation)}. "
        f"Another order could lower the peak by {human_bytes(at_most)} ({gain}) at most."
    )


def advice(explanation: "Explanation", remedy: "Remedy") -> Advice:
    """A remedy in words."""
    say = {"recompute": _recompute, "donate": _donate, "split": _split}
    return say[remedy.advice](explanation, remedy)


def notes(explanation: "Explanation") -> list[str]:
    """How the remedies are carried out, and how their numbers are to be read together."""
    hows = dict.fromkeys(advice(explanation, remedy).how for remedy in explanation.remedies)
    again = [remedy for remedy in explanation.remedies if remedy.advice == "recompute"]
    together = (
        "What is recomputed or made later saves that much beyond the larger ones; all of it "
        f"together leaves a peak of {human_bytes(min((r.peak for r in again), default=0))}."
    )
    sentences = [*(HOW[how] for how in hows), *([together] if len(again) > 1 else [])]
    return [*sentences, *([_budgets(explanation)] if explanation.budgets else [])]


def _budgets(explanation: "Explanation") -> str:
    """What computing again would do, whatever the code says."""
    told = "; ".join(
        f'memory_budget="{human_bytes(one.budget)}" '
        + (
            "is too little"
            if one.more_work is None
            else f"takes {human_percent(100 * one.more_work)} more work"
        )
        for one in explanation.budgets
    )
    return (
        f"Or leave the code as it is: rj.jit(f, memory_budget=...) computes again what it takes to "
        f"fit. Of a model of the program, estimated: {told}."
    )


def order_rows(explanation: "Explanation") -> list[dict[str, str]]:
    """The orders of a search, a row each; what they save is against the first."""
    before = next(iter(explanation.orders), None)
    return (
        []
        if before is None
        else [
            {
                "order": order.name,
                "temporaries of XLA": human_bytes(order.temporaries),
                "saved": _saved(before.temporaries, order.temporaries),
                "peak": human_bytes(order.peak),
                "peak saved": _saved(before.peak, order.peak),
            }
            for order in explanation.orders
        ]
    )


def shortened(text: str, length: int = LONGEST_NAME) -> str:
    """Text on one line, without its front where it is too long."""
    text = one_line(text)
    return text if len(text) <= length else f"…{text[1 - length :]}"


def _row(explanation: "Explanation", one: "Live") -> dict[str, str]:
    return {
        "bytes": human_bytes(one.num_bytes),
        "array": one.shape,
        "kind": one.kind,
        "name": shortened(one.name),
        "made": str(one.made),
        "last reader": "" if one.last_reader is None else str(one.last_reader),
        "idle": "" if one.idle is None else str(one.idle),
        "line": place(explanation.steps[one.made].source),
    }


def _kinds(explanation: "Explanation") -> list[dict[str, str]]:
    step, peak = explanation.peak_step, max(explanation.peak, 1)
    return [
        {
            "in use at the peak": name,
            "bytes": human_bytes(int(values[step])),
            "part": human_percent(100 * int(values[step]) / peak),
        }
        for name, values in explanation.timeline.items()
    ]


def _term(explanation: "Explanation") -> str:
    """What the bound is made of."""
    one = explanation.bound
    values = explanation.memory.values
    largest = [
        f"{explanation.name_of(n)} {explanation.shape_of(n)} "
        f"({human_bytes(values[n].array.num_bytes)})"
        for n in one.values[:3]
    ]
    arrays = ", ".join(largest) + (f" and {len(one.values) - 3} more" if one.values[3:] else "")
    kept = f"what is there throughout ({human_bytes(one.always)})"
    if one.term == "start":
        return "its parameters and constants, which are there at the start"
    if one.term == "end":
        return f"at the end {kept} and the outputs: {arrays}" if arrays else f"at the end {kept}"
    step = explanation.steps[one.step]
    source = place(step.source)
    where = f"{step.instruction}, {source}," if source else step.instruction
    if one.term == "cut":
        return f"{where} runs with at least as many bytes in memory as {arrays}, beside {kept}"
    return f"{where} works on {arrays}, beside {kept}"


def _remedies(explanation: "Explanation") -> str:
    if not explanation.remedies:
        none = "Nothing found that saves a thousandth of the peak."
        return "\n".join([none, *map(_filled, notes(explanation))])
    words = [advice(explanation, remedy) for remedy in explanation.remedies]
    rows = [
        {
            "saves up to": human_bytes(remedy.saves),
            "of peak": human_percent(100 * remedy.saves / explanation.peak),
            "how": word.title,
            "about": word.detail,
        }
        for remedy, word in zip(explanation.remedies, words, strict=True)
    ]
    return "\n".join([text_table(rows), "", *map(_filled, notes(explanation))])


def _compared(explanation: "Explanation") -> str:
    if len(explanation.orders) == 1:
        return "None: there is no other order that could need less."
    return text_table(order_rows(explanation))


def _recompute(explanation: "Explanation", remedy: "Remedy") -> Advice:
    how = "recompute" if remedy.is_residual else "later"
    title = "recompute" if remedy.is_residual else "make later"
    largest = explanation.memory.held(remedy.memories[0], explanation.peak_step)
    where = place(remedy.source) or f"made by XLA, like {explanation.name_of(largest)}"
    idle = _longest_idle(explanation, remedy.memories)
    return Advice(how, f"{title} {_arrays(remedy)}", f"{where}, idle for up to {idle} steps")


def _donate(explanation: "Explanation", remedy: "Remedy") -> Advice:
    after = human_bytes(remedy.peak)
    detail = f"argument {remedy.name}; the peak in use becomes {after}"
    return Advice("donate", f"donate {_arrays(remedy)}", detail)


def _split(explanation: "Explanation", remedy: "Remedy") -> Advice:
    largest = explanation.memory.held(remedy.memories[0], explanation.peak_step)
    name, shape = shortened(explanation.name_of(largest)), explanation.shape_of(largest)
    detail = f"first dimension {remedy.name}, as in {name} {shape}"
    return Advice("split", f"split {_arrays(remedy)}", detail)


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _arrays(remedy: "Remedy") -> str:
    count = len(remedy.memories)
    return f"{count} array{'s' * (count > 1)} of {human_bytes(remedy.num_bytes)}"


def _longest_idle(explanation: "Explanation", memories: Sequence[int]) -> int:
    gaps = (explanation.memory.idle(number, explanation.peak_step) for number in memories)
    return max((gap[1] - gap[0] for gap in gaps if gap and gap[1] is not None), default=0)


def _saved(before: int, after: int) -> str:
    return human_percent(100 * (before - after) / before) if before else ""
