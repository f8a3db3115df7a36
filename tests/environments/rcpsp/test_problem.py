"""Machine problems: the compiled kernel against plain Python, alone and inside jit."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.rcpsp import batch, ffi
from regal_jax.environments.rcpsp import kernel as rcpsp_kernel
from regal_jax.environments.rcpsp.checker import evaluate_machines
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import GraphError, OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.transforms import reverse
from tests.environments.rcpsp.cases import genes, graph_of, machine_graphs, random_graph
from tests.oracles import machine_scheduling as oracle

# Types: 0 of two units, 1 of one. 0 -> 2 -> 4 and 1 -> 3; op 5 alone needs both units.
GRAPH = graph_of(
    [(0, 2), (2, 4), (1, 3)],
    capacity=[2, 1],
    machine_type=[0, 0, 1, 1, 0, 0],
    demand=[1, 1, 1, 1, 1, 2],
    duration=[3, 2, 4, 1, 2, 5],
)


@st.composite
def problems(draw, generation):
    graph = draw(machine_graphs())
    problem = MachineProblem(graph, generation=generation)
    return problem, draw(genes(problem.num_genes))


def starts(problem: MachineProblem, row: np.ndarray) -> list[float]:
    """Start times by the oracle."""
    plain = oracle.plain_machines(problem.graph)
    return getattr(oracle, problem.generation)(plain, row.tolist())


def test_by_hand():
    """At 0 ops 0 and 1 start (5 doesn't fit); at 2 op 3; at 3 op 5, then 2; at 8 op 4."""
    priority = np.array([6, 5, 4, 3, 2, 1], np.float32)
    schedule = MachineProblem(GRAPH).decode(priority, method="by hand", seed=3)
    assert schedule.start.tolist() == [0, 0, 3, 2, 8, 3]
    assert schedule.steps.tolist() == [0, 1, 3, 2, 5, 4]
    assert schedule.makespan == 10
    assert (schedule.objective, schedule.num_devices, schedule.peak_memory) == ("makespan", 2, ())
    assert (schedule.method, schedule.seed) == ("by hand", 3)
    serial = MachineProblem(GRAPH, generation="serial").decode(priority[::-1])
    assert serial.start.tolist() == [5, 5, 8, 7, 12, 0]


def test_ops_of_no_duration_and_what_they_make_ready_at_one_time():
    """Op 1 is ready in the second round at time 0; op 2, lower, has the unit from the first."""
    graph = graph_of([(0, 1)], capacity=[2], duration=[0, 4, 1, 1])
    assert MachineProblem(graph).starts([[9, 8, 7, 6]])[0].tolist() == [0, 0, 0, 1]
    one = graph.replace(capacity=np.array([1]))
    assert MachineProblem(one).starts([[9, 8, 7, 6]])[0].tolist() == [0, 0, 4, 5]
    assert MachineProblem(one).starts([[1, 8, 7, 6]])[0].tolist() == [2, 2, 0, 1]


@pytest.mark.parametrize("generation", ["parallel", "serial"])
def test_equals_the_oracle(generation):
    @settings(max_examples=150)
    @given(problems(generation))
    def check(case):
        problem, rows = case
        expected = [starts(problem, row) for row in rows]
        np.testing.assert_array_equal(problem.starts(rows), expected)
        ends = np.array(expected) + problem.graph.duration
        np.testing.assert_array_equal(problem.makespans(rows), ends.max(axis=1))
        np.testing.assert_array_equal(problem.fitness(rows), problem.makespans(rows))
        for row, start in zip(rows, expected, strict=True):
            schedule = problem.decode(row)
            np.testing.assert_array_equal(schedule.start, start)
            assert evaluate_machines(problem.graph, schedule) == schedule.makespan
            _check_order(problem.graph, schedule.steps)

    check()


@given(problems("backwards"))
def test_backwards_is_parallel_from_the_end_and_serial_from_the_start(case):
    problem, rows = case
    graph = problem.graph
    turned = oracle.plain_machines(reverse(graph))
    plain = oracle.plain_machines(graph)
    for row, found in zip(rows, problem.starts(rows), strict=True):
        until_end = np.array(oracle.parallel(turned, row.tolist())) + graph.duration
        first = np.argsort(-until_end, kind="stable")
        priority = np.empty(graph.num_ops)
        priority[first] = -np.arange(graph.num_ops)
        np.testing.assert_array_equal(found, oracle.serial(plain, priority.tolist()))
        longest = until_end.max() * (1 + 1e-9)  # durations are summed in another order
        assert evaluate_machines(graph, problem.decode(row)) <= longest
    assert problem.ranked_graph.op_pairs.tolist() == reverse(graph).op_pairs.tolist()


def test_backwards_encodes_an_order_from_its_end():
    schedule = MachineProblem(GRAPH).decode(np.array([6, 5, 4, 3, 2, 1], np.float32))
    there, back = (
        MachineProblem(GRAPH, generation=generation).encode(schedule)
        for generation in ("serial", "backwards")
    )
    assert np.argsort(there).tolist() == np.argsort(-back).tolist()
    with pytest.raises(OptionError, match="takes generation parallel or serial, not backwards"):
        _ = MachineProblem(GRAPH, generation="backwards").spec


def _check_order(graph, steps):
    """Steps can be executed in their order."""
    place = np.argsort(steps)
    assert np.all(place[graph.edges[:, 0]] < place[graph.edges[:, 2]])


@pytest.mark.parametrize("generation", ["parallel", "serial"])
@pytest.mark.parametrize("num_ops", [63, 64, 65, 200])
def test_larger_graphs(generation, num_ops):
    problem = MachineProblem(random_graph(num_ops, num_ops), generation=generation)
    rng = np.random.default_rng(0)
    rows = np.round(rng.standard_normal((3, problem.num_genes)), 1).astype(np.float32)
    np.testing.assert_array_equal(problem.starts(rows), [starts(problem, row) for row in rows])


def test_sets_of_several_blocks():
    """More than 4,096 ready ops of a type, in order of priority; each has its demand of room."""
    rng = np.random.default_rng(0)
    num_ops = 9000
    graph = graph_of([], capacity=[100], demand=rng.integers(1, 9, num_ops), duration=[1] * num_ops)
    problem = MachineProblem(graph)
    row = rng.permutation(num_ops).astype(np.float32)[None]
    start = problem.starts(row)[0]
    schedule = problem.decode(row[0])
    assert evaluate_machines(graph, schedule) == start.max() + 1
    used = np.bincount(start.astype(int), weights=graph.demand)
    assert np.all(used[:-1] > 92)  # more would fit, as long as any op is left
    order = np.argsort(-row[0])
    first = order[np.cumsum(graph.demand[order]) <= 100]
    assert np.all(start[first] == 0)


@settings(max_examples=60)
@given(machine_graphs(5, whole=True))
def test_serial_generation_of_all_orders_has_the_optimum(graph):
    plain = oracle.plain_machines(graph)
    optimum = oracle.least_by_integers(plain)
    rows = np.array(list(oracle._priorities(plain)), np.float32)
    serial = MachineProblem(graph, generation="serial")
    assert serial.makespans(rows).min() == optimum == oracle.least_makespan(plain)
    assert MachineProblem(graph).makespans(rows).min() >= optimum
    assert serial.lower_bound <= optimum


@pytest.mark.parametrize("generation", ["parallel", "serial"])
def test_inside_jit(generation):
    problem = MachineProblem(random_graph(1, 100), generation=generation)
    rows = np.random.default_rng(0).standard_normal((4, problem.num_genes)).astype(np.float32)
    expected = problem.makespans(rows).astype(np.float32)
    inside = jax.jit(problem.fitness)(rows)
    assert inside.dtype == np.float32
    np.testing.assert_array_equal(inside, expected)
    mapped = jax.jit(jax.vmap(problem.fitness))(np.stack([rows, rows[::-1]]))
    np.testing.assert_array_equal(mapped, [expected, expected[::-1]])


@pytest.mark.parametrize("generation", ["parallel", "serial"])
def test_padded_graphs_share_a_compilation(generation):
    code = {"parallel": 0, "serial": 1}[generation]
    assert code == getattr(rcpsp_kernel, generation.upper())
    traces = []

    @jax.jit
    def makespans(packed, rows):
        traces.append(1)
        return ffi.makespans(packed, rows, code, scratch_words=5000)

    for seed, num_ops in enumerate([3, 40, 64]):
        problem = MachineProblem(random_graph(seed, num_ops), generation=generation)
        assert batch.scratch_words(problem._columns) <= 5000
        packed = np.pad(problem.operand, (0, 2000 - len(problem.operand)), constant_values=-1)
        rows = np.random.default_rng(0).standard_normal((4, problem.num_genes)).astype(np.float32)
        padded = np.pad(rows, ((0, 0), (0, 64 - num_ops)), constant_values=9)
        got = makespans(packed, padded)
        np.testing.assert_array_equal(got, problem.makespans(rows).astype(np.float32))
    assert len(traces) == 1


@pytest.mark.parametrize("generation", [0, 1])
@pytest.mark.parametrize("num_ops", [1, 2, 63, 64, 65, 130])
@pytest.mark.parametrize("num_types", [1, 2, 9])
def test_the_kernel_stays_within_its_working_memory(generation, num_ops, num_types):
    graph = random_graph(num_ops, num_ops, num_types)
    columns = MachineProblem(graph)._columns
    packed, words = batch.pack(columns), batch.scratch_words(columns)
    rows = np.random.default_rng(0).random((2, num_ops), np.float32)
    scratch, makespan = np.full(words + 64, -7, np.int64), np.empty(2)
    addresses = (makespan.ctypes.data, 0, 0)
    kernel = rcpsp_kernel.KERNELS[generation]
    kernel(packed.ctypes.data, rows.ctypes.data, rows.shape, scratch.ctypes.data, addresses)
    assert np.all(scratch[words:] == -7)


def test_many_rows_on_all_cores():
    problem = MachineProblem(random_graph(7, 300))
    rows = np.random.default_rng(0).standard_normal((101, 300)).astype(np.float32)
    one_by_one = [problem.makespans(row[None])[0] for row in rows]
    np.testing.assert_array_equal(problem.makespans(rows), one_by_one)
    assert problem.makespans(rows[:0]).shape == (0,)
    assert problem.starts(rows[:0]).shape == (0, 300)


def test_whole_numbers_are_exact():
    big = 2.0**52
    graph = graph_of([(0, 1)], capacity=[2**53], demand=[2**53, 1, 1], duration=[big, 1, big - 1])
    assert MachineProblem(graph).makespans([[3, 2, 1]])[0] == 2.0**53 - 1
    assert MachineProblem(graph, generation="serial").makespans([[1, 2, 3]])[0] == 2.0**53


@settings(max_examples=100)
@given(machine_graphs(), st.data())
def test_encoding_keeps_the_order_of_starts(graph, data):
    rows = data.draw(genes(graph.num_ops))
    for row in rows:
        serial = MachineProblem(graph, generation="serial")
        for made_by in (serial, MachineProblem(graph)):
            schedule = made_by.decode(row)
            again = serial.decode(serial.encode(schedule))
            assert np.all(again.start <= schedule.start)
        positive = graph.replace(duration=graph.duration + 0.5)
        parallel = MachineProblem(positive)
        schedule = parallel.decode(row)
        assert parallel.decode(parallel.encode(schedule)) == schedule


def test_priorities_of_infinite_size():
    row = np.array([[-np.inf, np.inf, 0, 0, 0, np.inf]], np.float32)
    large = np.nan_to_num(row, posinf=1e9, neginf=-1e9)
    problem = MachineProblem(GRAPH)
    np.testing.assert_array_equal(problem.starts(row), problem.starts(large))


def test_errors():
    with pytest.raises(OptionError, match=r"no capacity: give it .*graph.replace\(capacity"):
        MachineProblem(GRAPH.replace(capacity=None))
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[], capacity=[1])
    with pytest.raises(GraphError, match="ops"):
        MachineProblem(empty)
    with pytest.raises(GraphError, match=r"op 5 needs 2 units of machine type 0, .* capacity is 1"):
        MachineProblem(GRAPH.replace(capacity=np.array([1, 1])))
    with pytest.raises(OptionError, match=r"parallel, serial, got 'greedy'"):
        MachineProblem(GRAPH, generation="greedy")
    problem = MachineProblem(GRAPH)
    for wrong in (np.zeros((2, 7)), np.zeros(6)):
        with pytest.raises(OptionError, match=r"\[batch, 6\]"):
            problem.makespans(wrong)
    with pytest.raises(OptionError, match="not a number"):
        problem.makespans(np.full((1, 6), np.nan))
    with pytest.raises(OptionError, match="not a number"):
        problem.decode([0.0] * 5 + [np.nan])


def test_errors_of_the_graph_name_op_and_field():
    columns = {"capacity": [1], "duration": [1, 1]}
    with pytest.raises(GraphError, match=r"ops.machine_type: index 1 \(entry 1\)"):
        graph_of([], machine_type=[0, 1], **columns)
    with pytest.raises(GraphError, match=r"ops.duration: entry 1 \(-1.0\) is negative"):
        graph_of([], capacity=[1], duration=[1, -1])
    with pytest.raises(GraphError, match=r"tensors.consumers: .* cycle, for example op 0"):
        graph_of([(0, 1), (1, 0)], **columns)
