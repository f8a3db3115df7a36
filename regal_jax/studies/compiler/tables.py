"""Tables of what orders save in XLA and in ONNX files, from rows of results."""

from collections.abc import Sequence

from regal_jax.datasets import jax_train_steps
from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import human_bytes, markdown_table
from regal_jax.studies.compiler import (
    accelerator_memory,
    device_tables,
    memory_budget,
    search_costs,
)
from regal_jax.studies.compiler.accelerator_memory import by_program
from regal_jax.studies.compiler.xla_memory import DEFAULT, MEMORY, OURS, summary

Line = dict[str, str]


def xla_page(rows: Sequence[Row]) -> str:
    """Temporaries of programs in XLA's orders and in ours, in Markdown."""
    caption = (
        f"Temporaries that XLA allocates (JAX {_only(rows, 'jax')}, {_only(rows, 'platform')}),"
        " by its default scheduler,\nits memory-optimised one, and `rj.jit`; and ours over the"
        " better of XLA's."
    )
    return f"{caption}\n\n{markdown_table(xla_lines(rows))}\n"


def xla_groups_page(rows: Sequence[Row]) -> str:
    """The same by group of programs, in Markdown."""
    return f"{_MEANS}\n\n{markdown_table(summary(rows))}\n"


def xla_lines(rows: Sequence[Row]) -> list[Line]:
    """A line a program."""
    lines = []
    for name, of in by_program(rows).items():
        default, memory, ours = (of[m, "temp_bytes"] for m in (DEFAULT, MEMORY, OURS))
        lines.append(
            {
                "program": f"`{name}`",
                "`jax.jit`": human_bytes(default),
                "XLA's memory scheduler": human_bytes(memory),
                "`rj.jit`": human_bytes(ours),
                "ratio": f"{of[OURS, 'temp_ratio']:.2f}",
            }
        )
    return lines


def accelerators_page(rows: Sequence[Row]) -> str:
    """Bytes and estimated times of programs compiled for accelerators, in Markdown."""
    parts = []
    for target in dict.fromkeys(row["accelerator"] for row in rows):
        own = [row for row in rows if row["accelerator"] == target]
        kind, _, number = str(target).partition(":")
        where = f"each of {number} {kind}s" if number else f"one {kind}"
        caption = (
            f"Compiled for {where} (JAX {_only(own, 'jax')}), at most"
            f" {_only(own, 'compilations')} programs besides XLA's own:"
        )
        lines = markdown_table(accelerator_memory.table(own))
        means = markdown_table(accelerator_memory.summary(own))
        parts.append(f"{caption}\n\n{lines}\n\n{_MEANS}\n\n{means}\n")
    return "\n".join(parts)


def search_costs_page(rows: Sequence[Row]) -> str:
    """Bytes and estimated time of evaluations, compiled for accelerators, in Markdown."""
    return f"{markdown_table(search_costs.table(rows))}\n"


def device_runs_page(rows: Sequence[Row]) -> str:
    """Programs that ran on a device, in Markdown."""
    (device,) = device_tables.devices(rows)
    parts = [f"On one {device} (JAX {_only(rows, 'jax')}):"]
    parts.append(markdown_table(device_tables.table(rows)))
    if budgets := device_tables.budgets(rows):
        parts += ["Within memory budgets:", markdown_table(budgets)]
    parts += [_MEANS, markdown_table(device_tables.summary(rows))]
    return "\n\n".join(parts) + "\n"


def memory_budget_page(rows: Sequence[Row]) -> str:
    """Train steps within memory budgets and with checkpointing policies, in Markdown."""
    parts = []

    def of(row: Row) -> tuple[str, int]:
        return str(row["accelerator"]), jax_train_steps.batch_of(str(row["graph"]))

    for target, times in dict.fromkeys(map(of, rows)):
        own = [row for row in rows if of(row) == (target, times)]
        name = "CPUs" if target == "cpu" else f"one {target}"
        name += f", {times} times the batch" if times > 1 else ""
        for ours, label in memory_budget.LABELS.items():
            if not (lines := memory_budget.table(own, ours)):
                continue
            work = memory_budget.Curves(own, ours).work
            parts += [
                f"By `{label}`. Compiled for {name} (JAX {_only(own, 'jax')}):",
                markdown_table(lines),
                f"Budgets, shares of XLA's bytes, and {work} over XLA's (geometric means, ranges):",
                markdown_table(memory_budget.budgets(own, ours)),
                "Against each policy (geometric means and ranges):",
                markdown_table(memory_budget.against(own, ours)),
            ]
        if ran := memory_budget.runs(own):
            parts += [_RAN, markdown_table(ran)]
    return "\n\n".join(parts) + "\n"


_MEANS = "Geometric means, 95 % intervals over programs, and ranges:"
_RAN = (
    f"Run on two shared cores, within {memory_budget.RUN_BUDGET:.0%} of the bytes, over plainly:"
    " the median time of pairs, what\nthe peak of resident memory rose by, and the largest"
    " difference of a result, over the largest of all numbers:"
)


def onnx_page(rows: Sequence[Row]) -> str:
    """Peaks of ONNX models in the order of the file and in ours, in Markdown."""
    caption = "Peak memory by the cost model, nodes run in the order of the file and in ours."
    return f"{caption}\n\n{markdown_table(onnx_lines(rows))}\n"


def onnx_lines(rows: Sequence[Row]) -> list[Line]:
    """A line a model."""
    return [
        {
            "model": f"`{name}`",
            "order of the file": human_bytes(of["file", "peak"]),
            "`rj.reorder_onnx`": human_bytes(of["regal_jax", "peak"]),
            "least of any order": human_bytes(of["bound", "lower_bound"]),
        }
        for name, of in by_program(rows).items()
    ]


def surprises(xla: Sequence[Row], onnx: Sequence[Row]) -> str:
    """The README's first table: a few of both, in Markdown."""
    lines = [
        _surprise(label, line["`jax.jit`"], line["XLA's memory scheduler"], line["`rj.jit`"])
        for name, label in _PROGRAMS.items()
        for line in xla_lines([row for row in xla if row["graph"] == name])
    ]
    for line in onnx_lines([row for row in onnx if row["graph"] == _MODEL]):
        lines.append(_surprise(_LABEL, line["order of the file"], "", line["`rj.reorder_onnx`"]))
    return markdown_table(lines) + "\n"


_PROGRAMS = {
    "vit/training_checkpointed": "XLA: ViT with `jax.checkpoint`, gradients",
    "transformer_encoder/training_checkpointed": "XLA: Transformer encoder, the same",
    "nasnet/training": "XLA: NASNet cells, gradients",
}
_MODEL, _LABEL = "light_inception_v2", "ONNX: Inception v2, a test file of `onnx`"


def _surprise(program: str, default: str, memory: str, ours: str) -> Line:
    line = {"program": program, "by default": default}
    return line | {"XLA's memory scheduler": memory, "in our order": ours}


def _only(rows: Sequence[Row], column: str) -> str:
    return ", ".join(sorted({row[column] for row in rows}))
