"""The explanation of a program's memory peak as one HTML page.

The page needs no network: styles, script and data stand in the file.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regal_jax.compiler.explain import text
from regal_jax.compiler.xla.packing import Span, heap
from regal_jax.reporting import html_page
from regal_jax.reporting.html_page import differences, indexed
from regal_jax.reporting.tables import human_bytes, human_percent

if TYPE_CHECKING:
    from regal_jax.compiler.explain.explanation import Explanation, Step
    from regal_jax.compiler.explain.remedies import Remedy
    from regal_jax.compiler.xla.live_memory import Memory


def write_page(explanation: "Explanation", path: str | os.PathLike) -> None:
    """Writes the page of an explanation, atomically; the same bytes for the same explanation.

    Raises RegalError where the place can't be written.
    """
    values = {
        "title": f"Memory of {explanation.module}",
        "headline": _headline(explanation),
        "numbers": _numbers(explanation),
        "bound": text.bound(explanation),
        "allocation": text.allocation(explanation),
        "remedies": [_remedy(explanation, remedy) for remedy in explanation.remedies],
        "notes": html_page.paragraphs("\n\n".join(text.notes(explanation))),
        "orders": _orders(explanation),
        "data": page_data(explanation),
    }
    html_page.write_page(__package__, values, path)


def page_data(explanation: "Explanation") -> dict[str, Any]:
    """What the script reads. Lists of steps are written as differences."""
    memory, bound = explanation.memory, explanation.bound
    return {
        "peakStep": explanation.peak_step,
        "bound": bound.num_bytes,
        "steps": _step_columns(explanation.steps),
        "buffers": {
            "bytes": [one.num_bytes for one in memory.memories],
            "kind": indexed([one.kind for one in memory.memories]),
            "first": differences(one.first for one in memory.memories),
            "length": [one.last - one.first + 1 for one in memory.memories],
            "offset": _offsets(memory.memories),
            "writes": [len(one.values) for one in memory.memories],
            "write": differences(memory.values[v].step for m in memory.memories for v in m.values),
            "shape": indexed([explanation.shape_of(v) for m in memory.memories for v in m.values]),
            "reads": [len(one.reads) for one in memory.memories],
            "read": differences(step for one in memory.memories for step in one.reads),
        },
        "remedies": [list(remedy.memories) for remedy in explanation.remedies],
    }


def _offsets(memories: Sequence["Memory"]) -> list[int]:
    """Where each buffer begins: parameters and constants, then outputs, those in a parameter's
    memory there; then temporaries in a heap as XLA has one, which is an estimate."""
    offsets, base = [0] * len(memories), 0
    for kind in ("parameter", "constant", "output"):
        for number, one in enumerate(memories):
            if one.kind == kind and one.donor is None:
                offsets[number], base = base, base + one.num_bytes
    for number, one in enumerate(memories):
        if one.donor is not None:
            offsets[number] = offsets[one.donor]
    others = [number for number, one in enumerate(memories) if one.kind == "temporary"]
    spans = [Span(memories[n].first, memories[n].last, memories[n].num_bytes) for n in others]
    for number, start in zip(others, heap(spans).starts.tolist(), strict=True):
        offsets[number] = base + start
    return offsets


def _step_columns(steps: Sequence["Step"]) -> dict[str, Any]:
    return {
        "instruction": [step.instruction for step in steps],
        "computation": indexed([step.computation for step in steps]),
        "opcode": indexed([step.opcode for step in steps]),
        "opName": _paths([step.op_name for step in steps]),
        "line": indexed([text.place(step.source) for step in steps]),
        "file": indexed([str(step.source or "") for step in steps]),
    }


def _headline(explanation: "Explanation") -> str:
    step = explanation.steps[explanation.peak_step]
    where = text.place(step.source)
    return (
        f"{human_bytes(explanation.peak)} are in use at step {explanation.peak_step:,} of "
        f"{len(explanation.steps):,}, when {step.instruction} runs"
        + (f": {where}." if where else ".")
    )


def _numbers(explanation: "Explanation") -> list[tuple[str, str, str]]:
    """The numbers at the top: (label, value, detail)."""
    peak, allocated = explanation.peak, explanation.allocated
    gain = explanation.reducible
    live = len(explanation.at_peak)
    measured = "an estimate" if allocated.measured is None else "temporaries measured"
    numbers = [
        ("peak in use", human_bytes(peak), f"in {live:,} buffers"),
        ("no order needs less than", human_bytes(explanation.bound.num_bytes), _gain(peak, gain)),
        ("XLA allocates", human_bytes(allocated.total), measured),
    ]
    if explanation.remedies:
        best = explanation.remedies[0]
        title = text.advice(explanation, best).title
        numbers.append(("largest remedy saves up to", human_bytes(best.saves), title))
    if explanation.orders:
        numbers.append(_best_order(explanation))
    return numbers


def _gain(peak: int, gain: int) -> str:
    if gain <= 0:
        return "the peak is at its bound"
    return f"another could save {human_percent(100 * gain / peak)} at most"


def _best_order(explanation: "Explanation") -> tuple[str, str, str]:
    before, best = explanation.orders[0], min(explanation.orders, key=lambda one: one.temporaries)
    saved = before.temporaries - best.temporaries
    percent = human_percent(100 * saved / before.temporaries) if before.temporaries else "0.0 %"
    return "best order found saves", human_bytes(saved), f"{percent} of temporaries, {best.name}"


def _remedy(explanation: "Explanation", remedy: "Remedy") -> dict[str, Any]:
    words = text.advice(explanation, remedy)
    percent = 100 * remedy.saves / explanation.peak
    return {
        "saves": human_bytes(remedy.saves),
        "share": human_percent(percent),
        "width": f"{min(percent, 100):.1f}",
        "title": words.title[:1].upper() + words.title[1:],
        "source": str(remedy.source or ""),
        "detail": words.detail,
    }


def _orders(explanation: "Explanation") -> tuple[list[str], list[list[str]]] | None:
    """(header, lines) of the orders of a search, if there was one."""
    rows = text.order_rows(explanation)
    return (list(rows[0]), [list(row.values()) for row in rows]) if rows else None


def _paths(paths: Sequence[str]) -> dict[str, dict[str, list]]:
    """Labels with slashes: the places of both parts, before and after the last slash."""
    parts = [path.rpartition("/") for path in paths]
    return {
        "head": indexed([head + slash for head, slash, _ in parts]),
        "tail": indexed([tail for _, _, tail in parts]),
    }
