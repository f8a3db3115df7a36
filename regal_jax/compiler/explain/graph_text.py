"""The explanation of a schedule's memory peak as text, and as numbers for scripts."""

import textwrap
from typing import TYPE_CHECKING, Any

from regal_jax.compiler.explain.text import WIDTH, check_top, shortened
from regal_jax.reporting.step_times import describe_steps
from regal_jax.reporting.tables import compared, human_bytes, human_percent, text_table
from regal_jax.reporting.terminal import printable

if TYPE_CHECKING:
    from regal_jax.compiler.explain.graph_explanation import (
        GraphExplanation,
        GraphRemedy,
        LiveTensor,
    )

HOW = {
    "recompute": "Recompute: made by cheap ops, idle, and their inputs are there when they are "
    "read next. torch.utils.checkpoint around them, or jax.checkpoint.",
    "offload": "Offload: idle over the peak. Copied to the host and back, if the ops between take "
    "longer than that.",
    "persistent": "Halve: weights, states and inputs that are there throughout, by half the "
    "precision, or sharded over two devices.",
    "workspace": "Another algorithm: the op at the peak asks for memory only while it runs.",
}
"""How remedies are carried out."""


def graph_explanation_text(explanation: "GraphExplanation", *, top: int = 12) -> str:
    """A report to read in a terminal, without a trailing newline; ``top`` tensors are listed.

    Raises OptionError (``check_top``).
    """
    check_top(top)
    live = explanation.live
    rows = [_row(explanation, one) for one in live[:top]]
    parts = [
        f"{headline(explanation)}\n{running(explanation)}",
        f"In memory at the peak, the largest {len(rows)} of {len(live)}\n{text_table(rows)}",
        f"What bounds it\n{_filled(bound(explanation))}",
        f"What would lower it, estimated\n{_remedies(explanation)}",
    ]
    if explanation.found is not None:
        both = {f"{explanation.schedule.method} (explained)": explanation.schedule}
        both[f"{explanation.found.method} (searched)"] = explanation.found
        parts.append(f"Schedules compared\n{text_table(compared(_costed(explanation, both)))}")
    return printable("\n\n".join(parts))


def graph_explanation_numbers(explanation: "GraphExplanation") -> dict[str, Any]:
    """What JSON can hold: sizes in bytes, steps from 1 (0: before the first), all tensors in memory
    at the peak from the largest."""
    step, found = explanation.peak_step, explanation.found
    return {
        "graph": explanation.graph.name,
        "steps": len(explanation.schedule.steps),
        "peak": explanation.peak,
        "peak_step": step,
        "device": explanation.device,
        "running": running(explanation),
        "lower_bound": explanation.bound,
        "live": [{**one._asdict(), "idle": one.idle(step)} for one in explanation.live],
        "remedies": [{**one._asdict(), "detail": HOW[one.how]} for one in explanation.remedies],
        "found": None
        if found is None
        else {"method": found.method, "peak": max(found.peak_memory)},
    }


def headline(explanation: "GraphExplanation") -> str:
    """The peak and where it is, in one line."""
    one, count = explanation, len(explanation.schedule.steps)
    device = f", device {one.device} of {one.schedule.num_devices}"
    where = device if one.schedule.num_devices > 1 else ""
    name, order = one.graph.name or "graph", one.schedule.method or "schedule"
    size = human_bytes(one.peak)
    return f"{name}: peak memory {size}, at step {one.peak_step} of {count}{where} ({order})"


def running(explanation: "GraphExplanation") -> str:
    """What runs at the peak."""
    graph, step = explanation.graph, explanation.peak_step - 1
    if step < 0:
        return "nothing runs there yet: what is there at the start fills it"
    steps = describe_steps(graph, explanation.schedule)
    op, tensor = int(steps.op[step]), int(steps.tensor[step])
    if tensor >= 0:
        return f"{graph.tensor_label(tensor)} is sent to device {steps.target[step]} there"
    kind = f" ({graph.op_kinds[op]})" if graph.op_kinds else ""
    workspace = int(graph.workspace[op])
    needs = f", with a workspace of {human_bytes(workspace)}" if workspace else ""
    return f"{graph.op_label(op)}{kind} runs there{needs}"


def bound(explanation: "GraphExplanation") -> str:
    """What no schedule can do without, and what another could gain."""
    size, gain = human_bytes(explanation.bound), explanation.reducible
    count = explanation.schedule.num_devices
    where = "order of the ops" if count == 1 else f"schedule on {count} devices"
    if explanation.schedule.runs_again:
        where = "schedule on one device"
    if gain <= 0:
        return f"No {where} needs less than {size}: this one is optimal."
    percent = human_percent(100 * gain / explanation.peak)
    return (
        f"No {where} needs less than {size}. Another could save {human_bytes(gain)} ({percent})"
        " at most; --search looks for it, as regal-jax schedule and rj.optimize do."
    )


def _row(explanation: "GraphExplanation", one: "LiveTensor") -> dict[str, str]:
    idle = one.idle(explanation.peak_step)
    return {
        "bytes": human_bytes(one.num_bytes),
        "name": shortened(one.name),
        "made": str(one.made) if one.made else "at the start",
        "next reader": "" if one.next_reader is None else str(one.next_reader),
        "idle": "" if idle is None else str(idle),
        "kept": "to the end" if one.persistent else "",
    }


def _remedies(explanation: "GraphExplanation") -> str:
    if not explanation.remedies:
        return "Nothing found that saves a thousandth of the peak."
    rows = [
        {
            "saves up to": human_bytes(remedy.saves),
            "of peak": human_percent(100 * remedy.saves / explanation.peak),
            "how": remedy.how,
            "about": _about(explanation, remedy),
        }
        for remedy in explanation.remedies
    ]
    notes = [_filled(HOW[remedy.how]) for remedy in explanation.remedies]
    return "\n".join([text_table(rows), "", *notes])


def _about(explanation: "GraphExplanation", remedy: "GraphRemedy") -> str:
    names = [shortened(explanation.graph.tensor_label(t), 28) for t in remedy.tensors[:2]]
    if not names:
        return running(explanation)
    more = f" and {len(remedy.tensors) - 2} more" if remedy.tensors[2:] else ""
    return f"{', '.join(names)}{more}, {human_bytes(remedy.num_bytes)}"


def _costed(explanation: "GraphExplanation", schedules: dict) -> dict:
    """The schedules, with the explained one's peaks, and the bound."""
    peaks = tuple(explanation.usage.max(axis=0).tolist())
    first, *others = schedules.items()
    held = {"objective": "peak_memory", "lower_bound": explanation.bound}
    return {first[0]: first[1].replace(peak_memory=peaks, **held), **dict(others)}


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
