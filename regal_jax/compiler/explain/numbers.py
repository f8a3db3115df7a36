"""The explanation of a program's memory peak as numbers and names, for scripts."""

from typing import TYPE_CHECKING, Any

from regal_jax.compiler.explain import text

if TYPE_CHECKING:
    from regal_jax.compiler.explain.explanation import Explanation, Live


def explanation_numbers(explanation: "Explanation") -> dict[str, Any]:
    """What JSON can hold: sizes in bytes, steps counted from 0, the buffers in use at the peak from
    the largest, what would lower it from what saves most."""
    bound, allocated = explanation.bound, explanation.allocated
    return {
        "module": explanation.module,
        "steps": len(explanation.steps),
        "peak": explanation.peak,
        "peak_step": explanation.peak_step,
        "running": text.running(explanation, explanation.peak_step),
        "lower_bound": bound.num_bytes,
        "allocated": {**allocated._asdict(), "total": allocated.total},
        "live": [_live(explanation, one) for one in explanation.at_peak],
        "remedies": [
            {"title": words.title, "saves": remedy.saves, "detail": words.detail}
            for remedy in explanation.remedies
            for words in [text.advice(explanation, remedy)]
        ],
        "orders": [order._asdict() for order in explanation.orders],
        "budgets": [one._asdict() for one in explanation.budgets],
    }


def _live(explanation: "Explanation", one: "Live") -> dict[str, Any]:
    return {
        "bytes": one.num_bytes,
        "kind": one.kind,
        "shape": one.shape,
        "name": one.name,
        "line": text.place(explanation.steps[one.made].source),
        "made": one.made,
        "last_reader": one.last_reader,
        "idle": one.idle,
    }
