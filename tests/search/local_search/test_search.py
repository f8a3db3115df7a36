"""Local search: incremental costs are the full ones, descents end in optima, budgets are exact."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.options import Budget
from regal_jax.search.local_search import kernel, search
from regal_jax.search.local_search.search import LocalSearchConfig
from regal_jax.search.orders import rules
from tests.strategies import computation_graphs

OBJECTIVES = st.sampled_from(["peak_memory", "makespan"])
CAPACITY = 60  # bytes: within the reach of some schedules of many small graphs
EVERYTHING = 10**6  # neighbours: more than any neighbourhood here
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def platforms(draw, most_devices: int = 4) -> Platform:
    return Platform(
        draw(st.integers(1, most_devices)),
        memory_capacity=draw(st.sampled_from([None, CAPACITY])),
        latency=draw(st.sampled_from([0.0, 3.0, 0.1])),
        per_byte=draw(st.sampled_from([0.0, 0.25, 0.7])),
    )


def full_cost(graph, platform, objective, order, placement) -> float:
    """By the kernel that decodes chromosomes."""
    problem = PlacementProblem.on(graph, platform, objective, backend="native")
    schedule = rules.build_schedule(
        graph,
        np.asarray(order),
        np.asarray(placement),
        objective=objective,
        num_devices=platform.num_devices,
    )
    return float(problem.fitness(problem.encode(schedule)[None])[0])


def descended(graph, platform, objective, evaluations, *, seed, on_progress=None, **options):
    """The result of a search; see ``search.search``."""
    problem = PlacementProblem.on(graph, platform, objective)
    budget = Budget(evaluations, seed)
    if on_progress is not None:
        budget = budget._replace(on_progress=on_progress)
    return search.search(problem, budget, **options)


def solution(result):
    """(order, placement) of the schedule of a result."""
    return result.schedule.ops_in_order(), result.schedule.placement


def random_solution(graph, num_devices, rng):
    order = rules.random_order(graph, int(rng.integers(2**31)))
    return order, rng.integers(num_devices, size=graph.num_ops).astype(np.int32)


def is_valid(graph, order) -> bool:
    position = np.argsort(order)
    return bool(np.all(position[graph.edges[:, 0]] < position[graph.edges[:, 2]]))


def moves(graph, order, placement, num_devices):
    """(op, device, new position) of every move, from the definition."""
    for old, op in enumerate(order):
        for device in set(range(num_devices)) - {placement[op]}:
            yield op, device, old
        for new in set(range(graph.num_ops)) - {old}:
            if is_valid(graph, moved(order, placement, op, placement[op], new)[0]):
                yield op, placement[op], new


def moved(order, placement, op, device, new):
    order = [other for other in order if other != op]
    order.insert(new, op)
    placement = list(placement)
    placement[op] = device
    return order, placement


def spot(order, op, new):
    """The kernel's name for a place in the order: the op's own coordinate, or a gap."""
    old = list(order).index(op)
    return 2 * old + 2 if new == old else 2 * (new + (new > old)) + 1


def lists(searcher):
    return searcher.state.order.tolist(), searcher.state.place.tolist()


@settings(max_examples=200)
@given(computation_graphs(), platforms(), OBJECTIVES, SEEDS)
def test_incremental_costs_are_the_full_costs_along_random_walks(graph, platform, objective, seed):
    rng = np.random.default_rng(seed)
    searcher = search.prepare(graph, platform, objective, rng)
    instance, state, scratch = searcher[:3]
    search.put(searcher, random_solution(graph, platform.num_devices, rng))
    order, placement = lists(searcher)
    assert state.cost[0] == full_cost(graph, platform, objective, order, placement)
    for _ in range(8):
        choices = list(moves(graph, order, placement, platform.num_devices))
        if not choices:
            return
        op, device, new = choices[rng.integers(len(choices))]
        target = (op, device, spot(order, op, new))
        order, placement = moved(order, placement, op, device, new)
        expected = full_cost(graph, platform, objective, order, placement)
        limit = float(rng.choice([state.cost[0], expected, 0.9 * expected]))
        pruned = kernel.move_cost(instance, state, scratch, *target, limit)
        assert pruned == expected or (pruned == np.inf and expected > limit)
        before = [column.copy() for column in state]
        assert kernel.move_cost(instance, state, scratch, *target, np.inf) == expected
        for old, column in zip(before, state, strict=True):
            np.testing.assert_array_equal(old, column)
        kernel.move(instance, state, scratch, *target)
        assert (order, placement) == lists(searcher)
        assert state.cost[0] == expected


@settings(max_examples=100)
@given(computation_graphs(), platforms(), OBJECTIVES, SEEDS)
def test_after_random_moves_the_state_is_that_of_its_solution(graph, platform, objective, seed):
    rng = np.random.default_rng(seed)
    walked = search.prepare(graph, platform, objective, rng)
    search.put(walked, random_solution(graph, platform.num_devices, rng))
    if search.has_neighbours(graph, platform.num_devices):
        instance, state, scratch, _, tally = walked
        kernel.shake(instance, state, scratch, tally, 20)
    built = search.prepare(graph, platform, objective, rng)
    search.put(built, lists(walked))
    for field, column in walked.state._asdict().items():
        np.testing.assert_array_equal(column, getattr(built.state, field), err_msg=field)


def check_local_optimum(graph, platform, objective, result):
    order, placement = (part.tolist() for part in solution(result))
    for move in moves(graph, order, placement, platform.num_devices):
        assert full_cost(graph, platform, objective, *moved(order, placement, *move)) >= result.cost


@settings(max_examples=25)
@given(computation_graphs(max_ops=6), platforms(3), OBJECTIVES, SEEDS, st.booleans())
def test_descends_to_a_local_optimum(graph, platform, objective, seed, sideways):
    config = LocalSearchConfig(neighbours=EVERYTHING, patience=1, sideways=sideways)
    result = descended(graph, platform, objective, 3000, seed=seed, config=config)
    check_local_optimum(graph, platform, objective, result)
    assert result.cost == full_cost(graph, platform, objective, *solution(result))


@settings(max_examples=40)
@given(computation_graphs(max_ops=4), platforms(2), OBJECTIVES, SEEDS, st.booleans())
def test_finds_the_best_of_all_solutions_of_tiny_graphs(graph, platform, objective, seed, given):
    num_devices = platform.num_devices
    solutions = [
        (order, placement)
        for order in itertools.permutations(range(graph.num_ops))
        if is_valid(graph, order)
        for placement in itertools.product(range(num_devices), repeat=graph.num_ops)
    ]
    best = min(full_cost(graph, platform, objective, *solution) for solution in solutions)
    config = LocalSearchConfig(neighbours=3, patience=10)
    result = descended(
        graph,
        platform,
        objective,
        5000,
        seed=seed,
        config=config,
        start=solutions[0] if given else None,
    )
    assert result.cost == best


@settings(max_examples=40)
@given(computation_graphs(), platforms(3), OBJECTIVES, SEEDS, st.integers(1, 2500), st.booleans())
def test_budget_history_and_seed(graph, platform, objective, seed, evaluations, given):
    start = random_solution(graph, platform.num_devices, np.random.default_rng(seed))
    config = LocalSearchConfig(neighbours=7, patience=5)
    progress: list[tuple[int, float]] = []

    def run(on_progress=lambda evaluations, cost: None):
        return descended(
            graph,
            platform,
            objective,
            evaluations,
            seed=seed,
            config=config,
            start=start if given else None,
            on_progress=on_progress,
        )

    result = run(lambda *point: progress.append(point))
    single = not list(moves(graph, *(part.tolist() for part in start), platform.num_devices))
    assert result.evaluations == (1 if single else evaluations)
    spent, costs = np.array(result.history).T
    assert np.all(np.diff(spent) > 0)
    assert np.all(np.diff(costs) <= 0)
    assert (spent[0], spent[-1], costs[-1]) == (1, result.evaluations, result.cost)
    assert progress[-1] == (result.evaluations, result.cost)
    assert np.all(np.diff([point[0] for point in progress]) > 0)
    if given:
        assert costs[0] == full_cost(graph, platform, objective, *start)
    again = run()
    assert again.history == result.history
    np.testing.assert_array_equal(solution(again), solution(result))


def chain(num_ops: int) -> ComputationGraph:
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=range(num_ops - 1),
        size=[4] * (num_ops - 1),
        consumers=[[op + 1] for op in range(num_ops - 1)],
    )


@pytest.mark.parametrize("num_ops", [0, 1, 2, 5])
def test_a_single_solution_is_evaluated_once(num_ops):
    graph = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    graph = chain(num_ops) if num_ops else graph
    result = descended(graph, Platform(1), "peak_memory", 100, seed=0)
    assert result.evaluations == 1
    assert solution(result)[0].tolist() == list(range(num_ops))
    assert result.cost == {0: 0, 1: 0, 2: 4, 5: 8}[num_ops]


def test_makespan_by_hand():
    """Two chains of three ops of 1 us each: one on either device."""
    edges = [(0, 1), (1, 2), (3, 4), (4, 5)]
    graph = ComputationGraph.create(
        num_ops=6,
        producer=[u for u, _ in edges],
        size=[1] * len(edges),
        consumers=[[v] for _, v in edges],
    )
    platform = Platform(2, latency=1.0)
    result = descended(graph, platform, "makespan", 2000, seed=0)
    assert result.cost == 3.0
    assert set(np.bincount(solution(result)[1])) == {3}


def test_restarts_stop_where_they_should():
    """Without moves that cost less, a descent of patience 2 in samples of 3 ends after 6 moves."""
    starts = []

    def order(graph, seed):
        starts.append(seed)
        return graph.topological_order

    graph = ComputationGraph.create(num_ops=4, producer=[0], size=[0], consumers=[[1]])
    config = LocalSearchConfig(neighbours=3, patience=2, initial_order=order)
    result = descended(graph, Platform(2), "peak_memory", 29, seed=1, config=config)
    assert result.evaluations == 29
    assert len(starts) == len(set(starts)) == 5  # 4 times 1 + 6, and 1 left


def test_large_graphs():
    rng = np.random.default_rng(0)
    num_ops = 20_000
    producer = np.arange(num_ops)
    readers = producer[:, None] + rng.integers(1, 200, (num_ops, 2))
    graph = ComputationGraph.create(
        num_ops=num_ops,
        producer=producer,
        size=rng.integers(1, 1000, num_ops),
        consumers=[[op for op in row if op < num_ops] for row in readers.tolist()],
        duration=rng.random(num_ops),
    )
    platform = Platform(2, memory_capacity=10**7, latency=0.1, per_byte=0.001)
    for objective in ("peak_memory", "makespan"):
        result = descended(graph, platform, objective, 1500, seed=0)
        assert result.history[-1][1] < result.history[0][1]
        assert result.cost == full_cost(graph, platform, objective, *solution(result))


def test_impossible_options_are_rejected():
    graph, platform = chain(3), Platform(2)

    def run(evaluations=10, objective="peak_memory", start=None):
        descended(graph, platform, objective, evaluations, seed=0, start=start)

    order, placement = np.arange(3), np.zeros(3, np.int32)
    for message, options in [
        ("at least 1", {"evaluations": 0}),
        ("objective", {"objective": "beauty"}),
        ("every op once", {"start": ([0, 0, 1], placement)}),
        ("every op once", {"start": ([0, 1], placement)}),
        ("makes its input", {"start": (order[::-1], placement)}),
        ("placement", {"start": (order, [0, 1, 2])}),
        ("placement", {"start": (order, [0, 1])}),
    ]:
        with pytest.raises(OptionError, match=message):
            run(**options)
    for name in ("neighbours", "patience", "shake"):
        with pytest.raises(OptionError, match=name):
            LocalSearchConfig(**{name: 0})
