"""Progress on stderr: a bar on a terminal, gone when done; elsewhere a plain line now and then."""

import contextlib
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from regal_jax.reporting.terminal import one_line, say

Item = TypeVar("Item")

EVERY = 10.0
"""Seconds between plain lines at first; later a twentieth of the time that has passed."""


@contextlib.contextmanager
def search_progress(label: str, evaluations: int | None) -> Iterator[Callable[[int, float], None]]:
    """Yields a function of (evaluations so far, best cost so far) that moves the bar."""
    with bar(label, evaluations) as update:
        yield lambda done, cost: update(done, f"best {cost:,.0f}")


def each(label: str, items: Sequence[Item]) -> Iterator[Item]:
    """The items, with a bar of how many are done."""
    with bar(label, len(items)) as update:
        for count, item in enumerate(items, 1):
            yield item
            update(count)


@contextlib.contextmanager
def status(text: str) -> Iterator[None]:
    """A line while something runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextlib.contextmanager
def warnings_in_one_line(program: str, *, quiet: bool = False) -> Iterator[None]:
    """Shows each warning inside as a line on stderr, without the code it comes from; ``quiet``
    shows none."""

    def show(message, *_, **__):
        if not quiet:
            say(f"{program}: warning: {one_line(str(message))}", sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def bar(
    label: str,
    total: int | None,
    *,
    quiet: bool = False,
) -> Iterator[Callable]:
    """Yields a function of (done so far, a short note) that moves a bar with that total, or that
    plain lines tell of where there is no terminal. ``quiet`` shows nothing."""
    if quiet:
        yield lambda done, note="": None
    elif sys.stderr.isatty():
        from rich import progress as bars
        from rich.console import Console

        columns = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn())
        texts = (bars.TextColumn(label), bars.TextColumn("{task.fields[note]}"))
        with bars.Progress(
            texts[0], *columns, texts[1], console=Console(stderr=True), transient=True
        ) as progress:
            task = progress.add_task(label, total=total, note="")
            yield lambda done, note="": progress.update(task, completed=done, note=note)
    else:
        with _lines(label, total) as update:
            yield update


@contextlib.contextmanager
def _lines(label: str, total: int | None) -> Iterator[Callable]:
    """As ``bar``, by a thread that tells what is known, so that long steps show life, too."""
    begin, stop = time.perf_counter(), threading.Event()
    state: tuple[float, str] = (0, "")

    def update(done: float, note: str = "") -> None:
        nonlocal state
        state = (done, note)

    def tell() -> None:
        seconds = 0.0
        while not stop.wait(max(EVERY, seconds / 20)):
            seconds = time.perf_counter() - begin
            say(f"{label}: {_progress(*state, total)}, {seconds:.0f} s", sys.stderr)
            sys.stderr.flush()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield update
    finally:
        stop.set()
        thread.join()


def _progress(done: float, note: str, total: int | None) -> str:
    """12 of 100, best 3.40 MiB"""
    of = f" of {total:,}" if total else ""
    return f"{done:,.6g}{of}" + (f", {note}" if note else "")
