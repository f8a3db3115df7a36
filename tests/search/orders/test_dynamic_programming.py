"""Orders of least peak memory: exact searches are exact, beams are those of a plain beam search."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement import checker
from regal_jax.errors import OptionError, ScheduleError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.search.orders import dynamic_programming, rules
from regal_jax.search.orders.dynamic_programming import (
    beam_search,
    best_of_random,
    depth_first_dp,
    improve,
    order_peak,
)
from tests.oracles import beam_search as oracle
from tests.oracles.exhaustive_search import least_peak_memory
from tests.oracles.schedule_cost import plain
from tests.strategies import computation_graphs

SEEDS = st.integers(0, 2**32 - 1)
LONG_AGO = -math.inf


def checked_peak(graph: ComputationGraph, order: np.ndarray) -> int:
    """By the stand-alone checker, which also checks that the order is a topological one."""
    schedule = rules.build_schedule(
        graph,
        np.asarray(order),
        rules.single_device(graph),
        objective="peak_memory",
        num_devices=1,
    )
    return int(checker.evaluate(graph, schedule).peak_memory[0])


def priorities_of(graph: ComputationGraph, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=graph.num_ops)


def random_graph(num_ops: int, edges: int, seed: int = 0) -> ComputationGraph:
    """One tensor an op, with readers among later ops, any number of components."""
    rng = np.random.default_rng(seed)
    readers: list[list[int]] = [[] for _ in range(num_ops)]
    for first, second in rng.integers(0, num_ops, (edges, 2)).tolist():
        if first != second:
            readers[min(first, second)].append(max(first, second))
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=rng.integers(0, 1000, num_ops),
        consumers=readers,
        workspace=rng.integers(0, 100, num_ops),
    )


def star(num_leaves: int, *, inward: bool) -> ComputationGraph:
    """One op that reads from, or is read by, all others."""
    leaves = list(range(1, num_leaves + 1))
    consumers = [[], *([0] for _ in leaves)] if inward else [leaves, *([] for _ in leaves)]
    size = np.arange(num_leaves + 1) + 1
    return ComputationGraph.create(
        num_ops=num_leaves + 1, producer=[0, *leaves], size=size, consumers=consumers
    )


def chain(num_ops: int) -> ComputationGraph:
    consumers = [[op + 1] for op in range(num_ops - 1)] + [[]]
    return ComputationGraph.create(
        num_ops=num_ops, producer=np.arange(num_ops), size=np.arange(num_ops), consumers=consumers
    )


SHAPES = [
    random_graph(1, 0),
    random_graph(40, 0),
    random_graph(300, 500),
    star(80, inward=True),
    star(80, inward=False),
    chain(130),
]


@given(computation_graphs(10), SEEDS)
@settings(max_examples=100, deadline=None)
def test_peak_is_the_checkers(graph, seed):
    order = rules.random_order(graph, seed)
    assert order_peak(graph, order) == checked_peak(graph, order)


@pytest.mark.parametrize("order", [[0, 2, 1], [0, 1], [0, 1, 1], [0, 1, 3], [-1, 0, 1], []])
def test_only_topological_orders_have_a_peak(order):
    with pytest.raises(ScheduleError, match="topological"):
        order_peak(chain(3), np.array(order, np.int64))


@given(computation_graphs(7), SEEDS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_exact_searches_find_the_least_peak(graph, seed, scored):
    least = least_peak_memory(plain(graph), 1)
    priorities = priorities_of(graph, seed) if scored else None
    exact = beam_search(graph, width=None, priorities=priorities)
    walk = depth_first_dp(graph, seed=seed, deadline=math.inf)
    for result in (exact, walk):
        assert result.is_optimal
        assert result.peak == least == checked_peak(graph, result.order)


@given(computation_graphs(9), SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_walk_that_remembers_little_is_exact_too(graph, seed):
    walk = depth_first_dp(graph, seed=seed, deadline=math.inf, max_states=3)
    assert walk.is_optimal
    assert walk.peak == beam_search(graph, width=None).peak


@given(computation_graphs(9), st.integers(1, 12), SEEDS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_beams_are_those_of_a_plain_beam_search(graph, width, seed, scored):
    priorities = priorities_of(graph, seed) if scored else None
    expected, tied = oracle.beam_search(plain(graph), width, priorities)
    result = beam_search(graph, width=width, priorities=priorities)
    assert result.peak == checked_peak(graph, result.order)
    if not tied:
        assert result.peak == expected.peak
        if scored:
            assert result.order.tolist() == list(expected.ops)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("width", [2, 5, 40])
@pytest.mark.parametrize("scored", [False, True])
def test_beams_do_not_depend_on_chunks_and_threads(seed, width, scored):
    graph = random_graph(40, 60, seed)
    priorities = priorities_of(graph, seed) if scored else None
    whole = beam_search(graph, width=width, priorities=priorities)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamic_programming, "_CHUNK", (1, 4))
        patch.setattr(dynamic_programming, "_WORTH_THREADS", 0)
        split = beam_search(graph, width=width, priorities=priorities, num_threads=2)
    np.testing.assert_array_equal(split.order, whole.order)
    assert split[1:] == whole[1:]


@given(computation_graphs(12), SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_beam_of_one_takes_the_highest_priority(graph, seed):
    priorities = np.random.default_rng(seed).integers(0, 4, graph.num_ops).astype(float)
    ops: list[int] = []
    while len(ops) < graph.num_ops:
        ops.append(max(oracle.schedulable(plain(graph), ops), key=lambda op: priorities[op]))
    assert beam_search(graph, width=1, priorities=priorities).order.tolist() == ops


@given(computation_graphs(9), st.integers(1, 6), SEEDS)
@settings(max_examples=100, deadline=None)
def test_what_is_said_to_be_optimal_is(graph, width, seed):
    least = beam_search(graph, width=None).peak
    for priorities in (None, priorities_of(graph, seed)):
        result = beam_search(graph, width=width, priorities=priorities)
        assert result.peak == least or not result.is_optimal
    forced = beam_search(graph, width=width, forced_moves=True)
    assert forced.peak == checked_peak(graph, forced.order)
    assert forced.peak == least or not forced.is_optimal


@given(computation_graphs(8), st.integers(-2, 2), st.sampled_from([None, 2]))
@settings(max_examples=100, deadline=None)
def test_an_upper_bound_leaves_the_orders_below_it(graph, difference, width):
    least = beam_search(graph, width=None).peak
    bound = least + difference
    result = beam_search(graph, width=width, upper_bound=bound)
    if result.order is None:
        assert result.peak == bound
        assert bound <= least or not result.is_optimal
        assert width is not None or (bound <= least and result.is_optimal)
    else:
        assert least <= result.peak == checked_peak(graph, result.order) < bound


@pytest.mark.parametrize("graph", SHAPES, ids=lambda graph: f"{graph.num_ops}ops")
@pytest.mark.parametrize("width", [1, 7, 300])
@pytest.mark.parametrize("scored", [False, True])
def test_orders_are_valid(graph, width, scored):
    priorities = priorities_of(graph, 1) if scored else None
    result = beam_search(graph, width=width, priorities=priorities)
    assert result.order.dtype == np.int32
    assert result.peak == checked_peak(graph, result.order)
    assert graph.num_ops <= result.states <= 1 + width * (graph.num_ops - 1)


@pytest.mark.parametrize("graph", SHAPES, ids=lambda graph: f"{graph.num_ops}ops")
def test_a_deadline_in_the_past_leaves_an_order(graph):
    priorities = priorities_of(graph, 1)
    for result in (
        beam_search(graph, width=5, deadline=LONG_AGO),
        beam_search(graph, width=5, priorities=priorities, deadline=LONG_AGO),
        beam_search(graph, width=None, deadline=LONG_AGO),
        depth_first_dp(graph, deadline=LONG_AGO),
    ):
        assert result.peak == checked_peak(graph, result.order)
    greedy = beam_search(graph, width=1, priorities=priorities).order
    at_once = beam_search(graph, width=9, priorities=priorities, deadline=LONG_AGO).order
    np.testing.assert_array_equal(at_once, greedy)


def test_a_deadline_between_two_steps_completes_the_best_state():
    graph = random_graph(300, 300)
    result = beam_search(graph, width=100_000, deadline=time.perf_counter() + 0.5)
    assert result.states > 1
    assert result.peak == checked_peak(graph, result.order)


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("width", [5000, None])
def test_results_do_not_depend_on_the_threads(scored, width):
    graph = random_graph(100 if width else 22, 130 if width else 15)
    priorities = priorities_of(graph, 0) if scored else None
    one, three = (
        beam_search(graph, width=width, priorities=priorities, num_threads=threads)
        for threads in (1, 3)
    )
    np.testing.assert_array_equal(one.order, three.order)
    assert one[1:] == three[1:]


def test_forced_moves_and_bounds_save_states():
    graph = random_graph(30, 40)
    plain_search = beam_search(graph, width=10**6)
    forced = beam_search(graph, width=None)
    bounded = beam_search(graph, width=None, upper_bound=forced.peak + 1)
    none_better = beam_search(graph, width=None, upper_bound=forced.peak)
    assert plain_search.peak == forced.peak == bounded.peak
    assert plain_search.states > forced.states > bounded.states > none_better.states
    assert none_better.order is None
    assert none_better.is_optimal


def test_wide_numbers_keep_the_peak_exact():
    """Peaks and uses that don't fit into one key together."""
    graph = random_graph(12, 15)
    wide = graph.replace(size=graph.size * 2**40 + 1, workspace=graph.workspace * 2**40)
    result = beam_search(wide, width=None)
    assert result.peak == checked_peak(wide, result.order)
    assert result.peak == depth_first_dp(wide, deadline=math.inf).peak
    assert beam_search(wide, width=10**6).peak == result.peak


@given(computation_graphs(6), SEEDS)
@settings(max_examples=50, deadline=None)
def test_the_best_of_many_random_orders_is_the_best(graph, seed):
    few, many = (best_of_random(graph, seed=seed, orders=count) for count in (1, 3000))
    assert few.peak == checked_peak(graph, few.order)
    assert many.peak == checked_peak(graph, many.order)
    assert least_peak_memory(plain(graph), 1) <= many.peak <= few.peak
    free = graph.replace(workspace=np.zeros_like(graph.workspace), size=np.ones_like(graph.size))
    assert best_of_random(free, orders=3000).peak == beam_search(free, width=None).peak


def test_random_orders_are_uniform_at_each_step():
    """Three free ops: each of six orders has the probability 1 / 6 (within 5 sigma)."""
    graph = random_graph(3, 0)
    orders = [tuple(best_of_random(graph, seed=s, orders=1).order.tolist()) for s in range(1200)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert max(abs(count - 200) for count in counts) < 65


@given(computation_graphs(8), SEEDS)
@settings(max_examples=50, deadline=None)
def test_sets_of_one_hash_are_told_apart(graph, seed):
    priorities = priorities_of(graph, seed)
    expected, _ = oracle.beam_search(plain(graph), 4, priorities)
    least = beam_search(graph, width=None).peak
    space = dynamic_programming.order_space(graph)
    with pytest.MonkeyPatch.context() as patch:
        same_hash = space._replace(label=np.zeros_like(space.label))
        patch.setattr(dynamic_programming, "order_space", lambda _: same_hash)
        result = beam_search(graph, width=4, priorities=priorities)
        approximate = beam_search(graph, width=2)
        exact = beam_search(graph, width=None)
        walk = depth_first_dp(graph, deadline=math.inf)
    assert result.order.tolist() == list(expected.ops)
    assert approximate.peak == checked_peak(graph, approximate.order)
    assert approximate.states <= 2 * graph.num_ops
    assert exact.peak == walk.peak == least


def test_seeds_choose_the_walk():
    graph = random_graph(60, 70)
    first, same, other = (
        depth_first_dp(graph, seed=seed, deadline=LONG_AGO).order for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert first.tolist() != other.tolist()


def test_a_graph_without_ops():
    graph = ComputationGraph.create(num_ops=0, producer=[-1], size=[7], consumers=[[]])
    for result in (
        beam_search(graph, width=3),
        beam_search(graph, width=None, priorities=np.empty(0)),
        depth_first_dp(graph, deadline=LONG_AGO),
        best_of_random(graph),
    ):
        assert result.order.tolist() == []
        assert result.is_optimal
        assert result.peak == order_peak(graph, np.empty(0, np.int32)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width"),
        ({"width": -1}, "width"),
        ({"width": 2, "priorities": [0.0, math.nan, 1.0]}, "priorities"),
        ({"width": 2, "priorities": [0.0, math.inf, 1.0]}, "priorities"),
        ({"width": 2, "priorities": [0.0, 1.0]}, "priorities"),
        ({"width": None, "max_states": 2}, "max_states"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(OptionError, match=message):
        beam_search(random_graph(3, 0), **options)


def test_bad_counts():
    with pytest.raises(OptionError, match="orders"):
        best_of_random(chain(2), orders=0)
    with pytest.raises(OptionError, match="max_states"):
        depth_first_dp(chain(2), deadline=0.0, max_states=0)


@given(computation_graphs(max_ops=9), st.integers(1, 5), SEEDS)
@settings(max_examples=60, deadline=None)
def test_improve_is_never_worse_and_valid(graph, width, seed):
    start = np.asarray(rules.ORDERS["program_order"](graph, 0))
    found = improve(graph, start, width=width, potentials=[priorities_of(graph, seed), None])
    assert found.peak == checked_peak(graph, found.order) <= order_peak(graph, start)
    assert not found.is_optimal


@given(computation_graphs(max_ops=7), SEEDS)
@settings(max_examples=40, deadline=None)
def test_improve_with_all_states_is_exact(graph, seed):
    start = np.asarray(rules.ORDERS["program_order"](graph, 0))
    potential = 1e6 * priorities_of(graph, seed)
    found = improve(graph, start, width=10**4, potentials=[potential])
    assert found.peak == least_peak_memory(plain(graph), 1)


@given(computation_graphs(max_ops=9), st.integers(1, 20), SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_floor_and_a_potential_never_make_a_false_claim(graph, width, seed):
    best = beam_search(graph, width=None).peak
    potential = 100 * priorities_of(graph, seed)
    found = beam_search(graph, width=width, floor=best + seed % 3 * 50, potential=potential)
    assert found.peak == checked_peak(graph, found.order) >= best
    assert not found.is_optimal or found.peak == best


def test_a_potential_says_which_sets_are_kept():
    """Two chains of equal costs: a beam of one keeps to the chain whose ops have less potential."""
    graph = ComputationGraph.create(
        num_ops=4,
        producer=[0, 1, 2, 3],
        size=[10, 10, 10, 10],
        consumers=[[1], [], [3], []],
    )
    for first in ([0, 1], [2, 3]):
        potential = np.zeros(4)
        potential[first] = -5.0
        found = beam_search(graph, width=1, floor=100, potential=potential)
        assert sorted(found.order[:2]) == first


def test_a_potential_is_a_number_for_each_op():
    graph = random_graph(5, 4)
    with pytest.raises(OptionError, match="potential must be 5 finite numbers"):
        beam_search(graph, width=3, potential=np.full(5, np.nan))
