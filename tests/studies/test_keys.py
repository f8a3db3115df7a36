"""Keys: the same for what is the same, another for anything that changes a result."""

import dataclasses
import functools
import hashlib

import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.options import Options
from regal_jax.search.evolution.tuning_grid import Setting
from regal_jax.studies import keys
from tests.policies.cases import random_graph

GRAPH = random_graph(0)


def key(graph=GRAPH, **changes):
    return keys.key(graph=graph, options=dataclasses.replace(Options(), **changes))


def a_function():
    """Named by where it is defined."""


def test_a_key_is_short_and_the_same_in_every_process():
    text = '{"a":1,"b":[2.5,null,"x"]}'
    assert keys.key(b=[2.5, None, "x"], a=1.0) == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_equal_numbers_are_equal_and_names_count():
    assert key(latency=0) == key(latency=0.0)
    assert key() == key(graph=GRAPH.replace(name=GRAPH.name))
    assert keys.key(x=(1, 2)) == keys.key(x=[1, 2]) != keys.key(y=[1, 2])
    assert keys.key(x=np.int64(3)) == keys.key(x=3)
    assert keys.key(x=Setting()) != keys.key(x=Setting(alpha=2.0))


@pytest.mark.parametrize(
    "change",
    [
        {"objective": "makespan"},
        {"num_devices": 3},
        {"method": "etf"},
        {"evaluations": 7},
        {"seed": 1},
        {"memory_capacity": 9},
        {"latency": 500.0},
        {"per_byte": 0.1},
        {"time_limit": 2.0},
        {"decoding": "beam"},
        {"generation": "serial"},
        {"temperature": 0.5},
        {"candidates": 3},
    ],
)
def test_every_option_changes_the_key(change):
    assert key(**change) != key()


def test_every_field_of_options_is_in_the_key():
    """A field that is added to the options is part of the key without anyone thinking of it."""
    wider = dataclasses.make_dataclass("Wider", [("new", int, 0)], bases=(Options,), frozen=True)
    assert keys.key(options=wider(new=1)) != keys.key(options=wider())


def test_graphs_count_by_content_name_and_kinds():
    twice = GRAPH.replace(size=GRAPH.size * 2)
    kinds = GRAPH.replace(op_kinds=("add",) * GRAPH.num_ops)
    other = [key(graph=graph) for graph in (twice, kinds, GRAPH.replace(name="other"))]
    assert len({key(), *other}) == 4


def test_files_count_by_what_they_hold(tmp_path):
    path, copy = tmp_path / "a.policy", tmp_path / "b.policy"
    for file in (path, copy):
        file.write_text("one")
    before = key(policy=str(path))
    assert before == key(policy=copy) != key()
    path.write_text("two")
    assert key(policy=path) != before
    with pytest.raises(OptionError, match=r"none\.policy: no such file"):
        key(policy=tmp_path / "none.policy")


def test_functions_count_by_name_and_what_they_are_given():
    one, two = (functools.partial(a_function, spread=s) for s in (1, 2))
    assert len({keys.key(f=f) for f in (a_function, one, two)}) == 3
    for unknown in (lambda: None, object()):
        with pytest.raises(OptionError, match="can't be part of a result's key"):
            keys.key(f=unknown)
