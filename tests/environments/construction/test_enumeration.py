"""All partial schedules, against plain Python's."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regal_jax.datasets.task_graphs import task_graph
from regal_jax.environments.construction import enumeration
from regal_jax.environments.construction.env import construction_problem
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from tests.oracles import flows
from tests.strategies import computation_graphs

OPS, DEVICES = 4, 2
NO_EDGES = task_graph([], [3.0, 1.0, 2.0, 0.0])


def levels_of(graph, *, symmetric, **options):
    built = construction_problem(graph, Platform(DEVICES), OPS + 2)
    return enumeration.levels(built, DEVICES, symmetric=symmetric, **options)


def chains_of(states, row):
    """The ops of each device of a state in which every op takes time."""
    order = np.argsort(states.start[row], kind="stable")
    return tuple(
        tuple(int(op) for op in order if states.device[row, op] == device)
        for device in range(DEVICES)
    )


@pytest.mark.parametrize("symmetric", [True, False])
@settings(max_examples=25)
@given(graph=computation_graphs(OPS))
@example(graph=NO_EDGES)
def test_states_and_actions_are_all_that_there_are(symmetric, graph):
    graph, before = graph.replace(duration=1.0 + graph.duration), flows.producers(graph)
    named = tuple if not symmetric else lambda chains: tuple(sorted(chains))
    levels = levels_of(graph, symmetric=symmetric)
    rows = [range(len(level.states.last)) for level in levels]
    found = [
        [chains_of(level.states, row) for row in some]
        for level, some in zip(levels, rows, strict=True)
    ]
    for known, every in zip(found, flows.layers(before, DEVICES, symmetric=symmetric), strict=True):
        assert sorted(map(named, known)) == every
    for parents, states, level in zip(found, found[1:], levels[1:], strict=False):
        for parent, op, device, child in zip(*level[1:], strict=True):
            chains = list(parents[parent])
            chains[device] = (*chains[device], op)
            assert named(chains) == named(states[child])
        taken = [len(list(flows.children(one, before, symmetric=symmetric))) for one in parents]
        np.testing.assert_array_equal(np.bincount(level.parent, minlength=len(parents)), taken)


@given(st.integers(1, 40))
def test_blocks_give_what_rows_give(count):
    rows = np.arange(count), np.ones((count, 2))
    found = enumeration.in_blocks(lambda some: some[0][:, None] * some[1], rows)
    np.testing.assert_array_equal(found, rows[0][:, None] * rows[1])


def test_several_blocks():
    rows = np.arange(2 * enumeration.BLOCK + 3)
    np.testing.assert_array_equal(enumeration.in_blocks(lambda some: some + 1, rows), rows + 1)


@pytest.mark.parametrize("most", [3, 9, 23, 35])
def test_too_many_states(most):
    with pytest.raises(OptionError, match=f"more than {most} partial schedules"):
        levels_of(NO_EDGES, symmetric=True, most_states=most)
