"""The look of the plots, and writing them: matplotlib without its global state."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regal_jax.errors import MissingDependencyError, OptionError
from regal_jax.graphs import files

FORMATS = ("png", "svg", "pdf")

INK = "#1f2937"
MUTED = "#6b7280"
GRID = "#e5e7eb"
GREY = "#9ca3af"
BAD = "#d1495b"
SERIES = (
    "#2563eb",
    "#e07b00",
    "#2a9d5c",
    "#9333ea",
    "#d1495b",
    "#0e9aa7",
    "#8d6e3f",
    "#e667a8",
    "#5b6ee1",
    "#7a9e1f",
)
"""Colours of curves and kinds; distinguishable side by side on white."""


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure, sizes in inches. Raises MissingDependencyError."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("matplotlib", "plot") from None
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def drawn(draw: Callable[..., None], *arguments: Any, **labels: Any) -> None:
    """Calls a function that draws; without matplotlib it prints why there is no picture."""
    try:
        draw(*arguments, **labels)
    except MissingDependencyError as error:
        print(f"no picture: {error}")


def save_figure(figure: Any, path: str | os.PathLike) -> None:
    """Writes a figure by its suffix, atomically. RegalError where the place can't be written."""
    suffix = check_suffix(path)
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix)
    files.write_atomically(
        path, lambda file: figure.savefig(file, format=suffix, dpi=160, metadata=undated)
    )


def check_suffix(path: str | os.PathLike) -> str:
    """The format a path asks for. Raises OptionError for one that can't be written."""
    suffix = Path(path).suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise OptionError(f"{path}: a plot must end in .{', .'.join(FORMATS)}")
    return suffix


def style_axes(axes: Any, *, grid: str = "y") -> None:
    """Thin lines: no frame above and right, a light grid ("x", "y" or "both") behind the data."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)
    axes.tick_params(colors=MUTED, labelsize=8.5, length=3)
    axes.xaxis.label.set(color=INK, size=9)
    axes.yaxis.label.set(color=INK, size=9)
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def set_title(figure: Any, title: str) -> None:
    """A bold title at the left edge of a figure."""
    figure.suptitle(plain(title, 110), x=0.012, ha="left", size=11.5, weight="bold", color=INK)


def draw_boxes(
    axes: Any, start, finish, rows, color: str, *, outline: float, edge: str = "white"
) -> Any:
    """Boxes float64[N] from start to finish between two rows, as one artist."""
    from matplotlib.collections import PolyCollection

    low, high = rows
    corners = np.stack([start, low, start, high, finish, high, finish, low], axis=1)
    boxes = PolyCollection(
        list(corners.reshape(-1, 4, 2)), facecolor=color, edgecolor=edge, linewidth=outline
    )
    return axes.add_collection(boxes)


def label_boxes(
    axes: Any, start: np.ndarray, finish: np.ndarray, rows: tuple, texts: Sequence[str], end: float
) -> None:
    """Texts in the boxes of ``draw_boxes`` that have room for them, of an axis that ends at
    ``end``; the widest boxes first, LABELS at most."""
    letters = ((finish - start) / max(end, 1e-30) * LETTERS).astype(int)
    middle = (start + finish) / 2, (rows[0] + rows[1]) / 2
    for box in np.argsort(-letters, kind="stable")[:LABELS].tolist():
        text = texts[box].rsplit("/", 1)[-1]
        if len(text) <= letters[box] or letters[box] >= ROOM:
            label = plain(text, letters[box])
            place = float(middle[0][box]), float(middle[1][box])
            style = {"size": 7, "color": "white", "ha": "center", "va": "center", "zorder": 4}
            axes.text(*place, label, clip_on=True, **style)


LETTERS = 108
"""Of size 7, that are as wide as a Gantt chart's axes, about."""
LABELS = 300
ROOM = 6
"""Letters of the end of a name that is too long for its box, at least."""


def line_styles(curves: Sequence[np.ndarray]) -> list[Any]:
    """Solid lines; for equal curves dashes that take turns, so that each is seen."""
    twins = [[i for i, other in enumerate(curves) if np.array_equal(one, other)] for one in curves]
    return [
        "-" if len(same) == 1 else (DASH * same.index(i), (DASH, DASH * (len(same) - 1)))
        for i, same in enumerate(twins)
    ]


DASH = 4.0
"""Length of a dash, in widths of its line."""


def add_legend(axes: Any, handles: Sequence[Any], labels: Sequence[str], **options: Any) -> None:
    """A frameless legend; labels are shown as they are."""
    shown = [plain(label) for label in labels]
    axes.legend(handles, shown, frameon=False, fontsize=8.5, labelcolor=INK, **options)


def plain(text: str, length: int = 40) -> str:
    """Text from outside made safe to draw: one line, no mathematics, shortened at the front, since
    names of ops differ at their ends."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    if len(text) > length:
        text = f"…{text[1 - length :]}"
    return (" " + text if text.startswith("_") else text).replace("$", r"\$")
