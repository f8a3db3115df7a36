"""A clock of compilation, by JAX and numba: seconds that only the first call of a program takes."""

import functools
import threading
import time
from typing import Any


class _Spans(threading.local):
    """Of one thread, (begin, end) of what was compiled; nested ones are merged."""

    def __init__(self):
        self.done: list[tuple[float, float]] = []
        self.begun: list[float] = []
        self.total = 0.0

    def add(self, begin: float, end: float) -> None:
        while self.done and self.done[-1][1] > begin:
            inner = self.done.pop()
            self.total -= inner[1] - inner[0]
            begin = min(begin, inner[0])
        self.done.append((begin, end))
        self.total += end - begin


_spans = _Spans()


def seconds() -> float:
    """Spent on compilation by this thread, since the first call in this process: tracing, lowering,
    XLA (or its persistent cache) and numba. Loading kernels from numba's cache isn't counted."""
    _listen()
    return _spans.total


@functools.cache
def _listen() -> None:
    """Asks JAX and numba to tell of compilations."""
    import jax
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            _spans.begun.append(time.perf_counter())

        def on_end(self, event: Any) -> None:
            if _spans.begun:  # none where it began before anybody listened
                _spans.add(_spans.begun.pop(), time.perf_counter())

    event.register("numba:compile", Listener())
    jax.monitoring.register_event_duration_secs_listener(_of_jax)


def _of_jax(event: str, duration_secs: float, **_: Any) -> None:
    if event.startswith("/jax/core/compile/"):
        end = time.perf_counter()
        _spans.add(end - duration_secs, end)
