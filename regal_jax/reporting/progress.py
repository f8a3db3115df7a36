"""Progress bars: on a terminal only, on stderr, gone when done."""

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from regal_jax.reporting.terminal import one_line, say


@contextlib.contextmanager
def search_progress(label: str, evaluations: int) -> Iterator[Callable[[int, float], None]]:
    """Yields a function of (evaluations so far, best cost so far) that moves the bar."""
    with bar(label, evaluations, unit="best {task.fields[note]}") as update:
        yield lambda done, cost: update(done, f"{cost:,.0f}")


@contextlib.contextmanager
def status(text: str) -> Iterator[None]:
    """A line while something runs."""
    console = Console(stderr=True)
    with console.status(text) if console.is_terminal else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def warnings_in_one_line(program: str) -> Iterator[None]:
    """Shows each warning inside as a line on stderr, without the code it comes from."""

    def show(message, *_, **__):
        say(f"{program}: warning: {one_line(str(message))}", sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def bar(label: str, total: int, *, unit: str = "{task.fields[note]}") -> Iterator[Callable]:
    """Yields a function of (done so far, a short note) that moves a bar with that total."""
    console = Console(stderr=True)
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns,
        TextColumn(unit),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task(label, total=total, note="")
        yield lambda done, note="": progress.update(task, completed=done, note=note)
