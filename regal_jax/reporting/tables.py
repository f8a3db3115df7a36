"""Tables of rows (dicts) as text, Markdown or rich, and numbers in units a person reads."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from regal_jax.environments.schedule import Schedule
from regal_jax.reporting import statistics
from regal_jax.reporting.terminal import one_line

Row = Mapping[str, Any]

BYTE_UNITS = tuple((unit, 1024.0**i) for i, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB")))
TIME_UNITS = (("us", 1.0), ("ms", 1e3), ("s", 1e6), ("min", 6e7), ("h", 3.6e9))
"""Units with their factor: bytes, and microseconds; smallest first."""


def unit_of(value: float, units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """The largest (unit, factor) in which the value, to three digits, is 1 or more."""
    fitting = [unit for unit in units if abs(value) / unit[1] >= 0.9995]
    return fitting[-1] if fitting else units[0]


def number_of(count: int, noun: str) -> str:
    """``1 seed``, ``2 seeds``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def human_bytes(value: float) -> str:
    """Bytes to three digits in binary units: 512 B, 1.50 KiB, 23.4 MiB."""
    unit, factor = unit_of(value, BYTE_UNITS)
    return f"{value:.0f} B" if unit == "B" else f"{_three_digits(value / factor)} {unit}"


def human_time_us(value: float) -> str:
    """Microseconds to three digits: 0.25 us, 1.50 ms, 2.00 min."""
    unit, factor = unit_of(value, TIME_UNITS)
    return f"{value:.3g} us" if abs(value) < 1 else f"{_three_digits(value / factor)} {unit}"


def human_percent(value: float) -> str:
    """A percentage to one decimal, -0.0 written 0.0."""
    return f"{round(value, 1) + 0.0:.1f} %"


def human_flops(ratio: float) -> str:
    """A ratio of FLOPs as what they grew or shrank by: 2.0 % more FLOPs, 0.5 % fewer FLOPs."""
    more = round(100 * (ratio - 1), 1)
    return f"{human_percent(abs(more))} {'fewer' if more < 0 else 'more'} FLOPs"


def text_table(rows: Sequence[Row], columns: Sequence[str] | None = None) -> str:
    """Rows as aligned plain text under a ruled header; numbers to the right, no trailing newline.

    ``columns`` chooses and orders; by default all, as they appear. Missing values are blank.
    """
    columns, cells = _cells(rows, columns)
    right, widths = _alignment(rows, columns), _widths(columns, cells)
    lines = [columns, ["-" * width for width in widths], *cells]
    return "\n".join("  ".join(_padded(line, widths, right)).rstrip() for line in lines)


def markdown_table(rows: Sequence[Row], columns: Sequence[str] | None = None) -> str:
    """Rows as a Markdown table, aligned in the source, too; pipes are escaped."""
    columns, cells = _cells(rows, columns)
    cells = [[cell.replace("|", "\\|") for cell in line] for line in cells]
    right = _alignment(rows, columns)
    widths = [max(3, width) for width in _widths(columns, cells)]
    rule = ["-" * (w - 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True)]
    lines = [_padded(line, widths, right) for line in (columns, rule, *cells)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def print_table(
    rows: Sequence[Row], columns: Sequence[str] | None = None, *, title: str = "", file=None
) -> None:
    """Prints rows: with rich on a terminal, as plain text anywhere else (``file``: stdout)."""
    file = file or sys.stdout
    if file.isatty():
        _print_rich(rows, columns, title, file)
    else:
        heading = f"{title}\n" if title else ""
        print(heading + text_table(rows, columns), file=file)


def comparison(schedules: Mapping[str, Schedule]) -> str:
    """``compared`` as an aligned text table."""
    return text_table(compared(schedules))


def compared(schedules: Mapping[str, Schedule]) -> list[dict[str, str]]:
    """Schedules side by side, a row each; "saved" is against the first.

    Costs are those the schedules hold. Memory per device is shown for at most four devices.
    """
    first = next(iter(schedules.values()))
    return [_compared(label, s, first.cost) for label, s in schedules.items()]


def _compared(label: str, schedule: Schedule, before: float) -> dict[str, str]:
    row = {"schedule": label}
    if len(schedule.peak_memory) <= 4:
        row |= {f"device {d}": human_bytes(peak) for d, peak in enumerate(schedule.peak_memory)}
    goal = "makespan" if schedule.objective == "makespan" else "fullest device"
    row[goal] = _human(goal, schedule.cost)
    row["saved"] = human_percent(float(statistics.improvement_percent(schedule.cost, before)))
    if schedule.lower_bound is not None:
        gap = statistics.gap_percent(schedule.cost, schedule.lower_bound)
        row["over lower bound"] = human_percent(float(gap))
    return row | {"evaluations": str(schedule.evaluations), "seconds": f"{schedule.seconds:.2f}"}


def _human(name: str, value: float) -> str:
    return human_time_us(value) if name == "makespan" else human_bytes(value)


def _three_digits(value: float) -> str:
    """23.4, 234, 2340: three significant digits, trailing zeros kept."""
    before_point = 1 if abs(value) < 9.995 else len(f"{abs(value):.1f}") - 2
    return f"{value:.{max(0, 3 - before_point)}f}"


def _cells(rows: Sequence[Row], columns: Sequence[str] | None) -> tuple[list[str], list[list[str]]]:
    """(column names, one list of strings a row)."""
    names = list(columns) if columns else list(dict.fromkeys(name for row in rows for name in row))
    return names, [[_cell(row.get(name)) for name in names] for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return one_line(text)


def _alignment(rows: Sequence[Row], columns: Sequence[str]) -> list[bool]:
    """Per column, whether it is set to the right: all of it begins like a number."""
    return [all(_numeric(row.get(name)) for row in rows) for name in columns]


def _numeric(value: Any) -> bool:
    if value is None or value == "":
        return True
    return isinstance(value, int | float) or str(value).lstrip("+-").lstrip()[:1].isdigit()


def _widths(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(columns, *cells, strict=True)]


def _padded(line: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    triples = zip(line, widths, right, strict=True)
    return [cell.rjust(width) if flag else cell.ljust(width) for cell, width, flag in triples]


def _print_rich(rows: Sequence[Row], columns: Sequence[str] | None, title: str, file) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns, cells = _cells(rows, columns)
    table = Table(title=Text(title) if title else None, title_justify="left")
    for name, right in zip(columns, _alignment(rows, columns), strict=True):
        table.add_column(Text(name), justify="right" if right else "left")
    for line in cells:
        table.add_row(*map(Text, line))
    Console(file=file).print(table)
