import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.environments.construction import env
from regal_jax.environments.construction.env import construction_problem
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.search.orders import rules
from tests.oracles import flows
from tests.strategies import computation_graphs

OPS = 8
STEP = jax.jit(env.step)
READY = jax.jit(env.ready)
REMOVABLE = jax.jit(env.removable)
OPENABLE = jax.jit(env.openable, static_argnames="symmetric")
EMPTY = functools.partial(jax.jit, static_argnames="num_devices")(env.empty)


def problem(graph, platform=None):
    return construction_problem(graph, platform or Platform(3), OPS + 2)


def random_walk(graph, platform, seed, steps, *, symmetric=False):
    """(problem, states, actions) of random valid actions."""
    rng, built = np.random.default_rng(seed), problem(graph, platform)
    states, actions = [EMPTY(built, num_devices=platform.num_devices)], []
    for _ in range(steps):
        ops = np.flatnonzero(READY(built, states[-1]))
        devices = np.flatnonzero(OPENABLE(states[-1], symmetric=symmetric))
        actions.append((int(rng.choice(ops)), int(rng.choice(devices))))
        states.append(STEP(built, states[-1], *actions[-1]))
    return built, states, actions


def chains(actions, num_devices):
    return tuple(tuple(op for op, at in actions if at == device) for device in range(num_devices))


def assert_equal(one, other):
    for name, left, right in zip(one.keys(), one.values(), other.values(), strict=True):
        np.testing.assert_array_equal(left, right, err_msg=name)


@given(computation_graphs(OPS), st.integers(0, 10**6), st.integers(0, 5))
def test_complete_schedules_are_feasible_and_start_as_the_exact_model_says(graph, seed, latency):
    platform = Platform(3, latency=latency, per_byte=0.5 * latency)
    built, states, actions = random_walk(graph, platform, seed, graph.num_ops)
    order = np.array([op for op, _ in actions], np.int32)
    placement = np.asarray(states[-1].device)[: graph.num_ops]
    schedule = rules.build_schedule(graph, order, placement, objective="makespan", num_devices=3)
    exact = PlacementProblem.on(graph, platform, "makespan").costed(schedule)
    np.testing.assert_array_equal(states[-1].start[: graph.num_ops], exact.start)
    assert float(env.makespan(built, states[-1])) == exact.makespan
    assert not np.any(READY(built, states[-1]))


@given(computation_graphs(5), st.integers(0, 10**6), st.integers(0, 5), st.booleans())
def test_masks_are_those_of_the_definition(graph, seed, steps, symmetric):
    steps = min(steps, graph.num_ops)
    _, states, actions = random_walk(graph, Platform(3), seed, steps, symmetric=symmetric)
    state, built, before = states[-1], problem(graph), flows.producers(graph)
    here = chains(actions, 3)
    adding = {
        tuple(sorted(chains([*actions, (op, device)], 3))) if symmetric else None
        for op in np.flatnonzero(READY(built, state))
        for device in np.flatnonzero(OPENABLE(state, symmetric=symmetric))
    }
    if symmetric:
        here = tuple(sorted(here))
        assert adding == set(flows.children(here, before, symmetric=True))
    else:
        count = int(READY(built, state).sum()) * 3
        assert count == len(list(flows.children(here, before, symmetric=False)))
    # of two equal empty devices neither can be removed from, so names add no parents
    assert int(REMOVABLE(state).sum()) == len(flows.parents(here, before, symmetric=symmetric))


def test_an_op_beyond_the_padding_changes_nothing():
    graph = chain(3)
    built, states, _ = random_walk(graph, Platform(2), 0, 2)
    assert_equal(STEP(built, states[-1], OPS + 2, 1), states[-1])


def test_padding_is_never_ready():
    graph = chain(3)
    built = problem(graph)
    assert np.flatnonzero(READY(built, EMPTY(built, num_devices=2))).tolist() == [0]


def test_batches_of_states_are_states_one_by_one():
    graph = chain(4)
    built = problem(graph)
    first = EMPTY(built, num_devices=2)
    devices = jnp.arange(2)
    both = jax.vmap(env.step, (None, None, None, 0))(built, first, 0, devices)
    for device in range(2):
        one = jax.tree.map(lambda rows, device=device: rows[device], both)
        assert_equal(one, STEP(built, first, 0, device))


def test_a_graph_must_fit_its_padding():
    with pytest.raises(OptionError, match="does not fit 2 ops"):
        construction_problem(chain(3), Platform(2), 2)


def chain(num_ops):
    from regal_jax.datasets.task_graphs import task_graph

    return task_graph([(i, i + 1) for i in range(num_ops - 1)], np.arange(1.0, num_ops + 1))
