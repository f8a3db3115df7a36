"""Work on all cores: parts, errors, and children after a fork."""

import os
import signal
import threading
import time

import pytest

from regal_jax.native.threads import over_threads


@pytest.mark.parametrize("count", [0, 1, 2, 5, 100])
@pytest.mark.parametrize("num_threads", [None, 1, 3, 7])
def test_every_index_is_in_one_part(count, num_threads):
    seen = []
    over_threads(lambda first, last: seen.extend(range(first, last)), count, 10**6, num_threads)
    assert sorted(seen) == list(range(count))


def test_parts_run_at_once():
    meeting = threading.Barrier(2, timeout=60)
    over_threads(lambda first, last: meeting.wait(), 2, 0, num_threads=2)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_in_any_part_is_raised_when_all_have_ended(failing):
    ended = []

    def run(first, last):
        if first == failing:
            raise ValueError("here")
        time.sleep(0.05)
        ended.append(first)

    with pytest.raises(ValueError, match="here"):
        over_threads(run, 3, 0, num_threads=3)
    assert sorted(ended) == sorted({0, 1, 2} - {failing})


def test_a_child_after_a_fork_has_threads_of_its_own():
    def work() -> bool:
        seen: list[int] = []
        over_threads(lambda first, last: seen.extend(range(first, last)), 9, 0, num_threads=3)
        return sorted(seen) == list(range(9))

    assert work()  # the parent's threads have started
    assert exit_code_of_child(work) == 0


def exit_code_of_child(work, seconds: float = 60.0) -> int:
    """0 if ``work`` is true in a child after a fork, 1 if false; minus 9 if it hangs."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
