"""Reports of ``rj.jit``: a line for people."""

import jax.numpy as jnp
import pytest

import regal_jax as rj
from regal_jax.compiler.xla import reschedule
from regal_jax.compiler.xla.decisions import Memory
from regal_jax.compiler.xla.reschedule import DEFAULT, MEMORY, Report

MIB = 2**20
PLAIN = {DEFAULT: Memory(20 * MIB, 0, 0), MEMORY: Memory(10 * MIB, 0, 0)}
DONATED = {DEFAULT: Memory(8 * MIB, 4 * MIB, 4 * MIB), MEMORY: Memory(9 * MIB, 4 * MIB, 4 * MIB)}
ESTIMATES = {DEFAULT: 1, MEMORY: 1, "auto": 1, "lpmf": 1}


@pytest.mark.parametrize(
    ("chosen", "memory", "estimates", "expected"),
    [
        (
            "auto",
            PLAIN | {"auto": Memory(6 * MIB, MIB, 0)},
            ESTIMATES,
            "f: auto saved 30 % over XLA's better order: 7.00 MiB of temporaries and results, XLA's"
            " 20.0 MiB and 10.0 MiB; search 1.5 s, compilation 0.2 s",
        ),
        (
            "auto",
            DONATED | {"auto": Memory(2 * MIB, 4 * MIB, 0)},
            ESTIMATES,
            "f: auto saved 25 % over XLA's better order: 6.00 MiB of temporaries and results, XLA's"
            " 8.00 MiB and 9.00 MiB; donated arguments stay alive (4.00 MiB); search 1.5 s,"
            " compilation 0.2 s",
        ),
        (
            DEFAULT,
            DONATED | {"auto": Memory(6 * MIB, 4 * MIB, 0)},
            ESTIMATES,
            "f: XLA's own order, 8.00 MiB of temporaries and results: a new order saves 2.00 MiB,"
            " and loses a donation of 4.00 MiB; search 1.5 s, compilation 0.2 s",
        ),
        (
            MEMORY,
            PLAIN,
            ESTIMATES,
            "f: XLA's memory-optimized order, 10.0 MiB of temporaries and results: none of 2 other"
            " orders needs less; search 1.5 s, compilation 0.2 s",
        ),
        (
            DEFAULT,
            dict.fromkeys((DEFAULT, MEMORY), Memory(0, 8, 0)),
            {},
            "f: XLA's own order, 8 B of temporaries and results: there is no other order; search"
            " 1.5 s, compilation 0.2 s",
        ),
    ],
)
def test_a_report_is_a_line_for_people(chosen, memory, estimates, expected):
    report = Report("f", chosen, memory, estimates, search_seconds=1.5, compile_seconds=0.2)
    assert str(report) == expected
    again = str(report._replace(cached=True))
    assert again == expected.replace("search 1.5 s", "decided before")


def test_a_program_at_its_bound_says_so():
    """A chain has one order."""
    step = rj.jit(lambda x: jnp.sin(jnp.tanh(x) @ x) @ x, cache=None)
    step(jnp.ones((8, 8)))
    assert step.reports[0].settled
    assert ": no order needs less, it is at the lower bound; " in str(step.reports[0])
    packed = step.reports[0]._replace(least=1)
    assert str(packed).count("no order needs less") == 1


def fork(x):
    return sum(jnp.tanh(jnp.outer(x * k, x)) @ x for k in range(1, 5))


def test_no_order_is_looked_for_that_can_save_little(monkeypatch):
    monkeypatch.setattr(reschedule, "WORTH", 0.9)
    step = rj.jit(fork, cache=None)
    step(jnp.ones(256))
    report = step.reports[0]
    best = min(one.total for one in report.memory.values())
    assert report.memory.keys() == report.estimates.keys() == {DEFAULT, MEMORY}
    assert 0 < report.least < best
    assert ": no order of a part of it saves 90 %; no order needs less than " in str(report)


def test_a_bound_that_does_not_hold_stops_no_search(monkeypatch):
    """XLA may need less than the rules of its buffers say."""
    monkeypatch.setattr(reschedule, "_least", lambda module: 2**40)
    step = rj.jit(fork, cache=None)
    step(jnp.ones(256))
    assert len(step.reports[0].estimates) > 2


def test_a_report_says_what_every_order_needs():
    step = rj.jit(fork, cache=None)
    step(jnp.ones(256))
    report = step.reports[0]
    assert 4 * 256 * 256 <= report.least <= min(one.total for one in report.memory.values())
    is_more = report.memory[report.chosen].total > report.least
    assert ("; no order needs less than 25" in str(report)) == is_more
