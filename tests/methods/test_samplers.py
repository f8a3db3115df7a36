"""Samplers of candidate schedules, by name: valid, repeatable, and what each is said to be."""

import time

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.rcpsp.problem import GENERATIONS
from regal_jax.errors import GraphError, OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import evolution, one_shot, pretrained, samplers
from regal_jax.options import Budget, Options
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.search.list_scheduling import heuristics, price_sweep
from regal_jax.search.placements import candidates as candidates_of
from regal_jax.training.checkpoints import load_policy, save_policy
from tests.graphs.cases import single_input_graph
from tests.policies.cases import inputs_of
from tests.strategies import computation_graphs

OPS = 24
SAMPLES, EVALUATIONS = 40, 1200
"""Of samplers that don't search, and of those that do."""
CLASSICAL = [
    *("critical_path", "brkga", "regal_paper", "random_search"),
    *("list_sampling", "price_sweep", "regal", "dispatch", "one_shot"),
]
"""All but those whose policies build schedules op by op."""
FIXED = ("critical_path", "regal", "dispatch")
"""Those that are not random, or not within EVALUATIONS."""


GRAPH = single_input_graph(seed=0, num_ops=OPS)


def problem_of(name, graph=GRAPH) -> PlacementProblem:
    devices = 2 if name == "regal_paper" else 4
    return PlacementProblem(graph, devices, "makespan", latency=0.02, per_byte=0.01)


@pytest.fixture(scope="module", autouse=True)
def regal_file(tmp_path_factory):
    """A new policy of REGAL for two devices, which ``draw`` reads."""
    path = tmp_path_factory.mktemp("regal") / "new.policy"
    config = RegalConfig(size=4, rounds=1)
    params = config.policy.init(jax.random.key(0), inputs_of(GRAPH))
    save_policy(path, params, config, about={})
    OPTIONS["regal_paper"] = {"policy": path}


OPTIONS = {}
"""What samplers can't do without, by name."""


def draw(name, problem, evaluations=None, *, seed=3, deadline=np.inf, on_progress=None, **options):
    sampler = registry.find("sampler", name)
    own = EVALUATIONS if sampler.about["searches"] else SAMPLES
    budget = Budget(
        own if evaluations is None else evaluations,
        seed,
        deadline,
        Options(**OPTIONS.get(name, {}) | options),
    )
    if on_progress is not None:
        budget = budget._replace(on_progress=on_progress)
    return sampler.make(problem, budget)


def sampled(name, evaluations=None, **changes):
    return draw(name, problem_of(name), evaluations, **changes)


@pytest.mark.parametrize("name", CLASSICAL)
def test_candidates_are_schedules_that_repeat(name):
    problem, found = problem_of(name), sampled(name)
    assert found.placement.dtype == found.sequence.dtype == np.int32
    assert np.all(np.sort(found.sequence, axis=1) == np.arange(OPS))
    best = candidates_of.best_schedules(problem, found, 20)
    assert best[0].makespan == candidates_of.makespans(problem, found).min()
    assert len(best) == (1 if name == "critical_path" else 20)
    again, other = sampled(name), sampled(name, seed=4)
    assert again.placement.tolist() == found.placement.tolist()
    assert again.sequence.tolist() == found.sequence.tolist()
    same = other.sequence.tolist() == found.sequence.tolist()
    assert same == (name in FIXED)


@pytest.mark.parametrize("name", ["random_search", "list_sampling", "one_shot"])
def test_as_many_as_samples(name):
    for samples in (1, 40):
        assert sampled(name, samples).sequence.shape == (samples, OPS)
    with pytest.raises(OptionError, match="evaluations must be at least 1, got 0"):
        sampled(name, 0)


@pytest.mark.parametrize(
    ("samples", "candidates", "number", "moves"),
    [(80, 30, 25, 0), (40, 30, 16, 0), (12, 30, 4, 0), (30, 30, 9, 0), (40, 2, 1, 30)],
)
def test_a_sweep_of_prices_is_filled_up_with_lists(samples, candidates, number, moves):
    """A fifth of the samples are lists; the others are two of each price, and local search."""
    reports = []
    found = sampled(
        "price_sweep",
        samples,
        candidates=candidates,
        on_progress=lambda done, cost: reports.append((done, cost)),
    )
    problem = problem_of("price_sweep")
    assert len(found.sequence) == len(candidates_of.best_schedules(problem, found, 99))
    assert len(found.sequence) <= min(samples, candidates)
    assert reports == [(samples, candidates_of.makespans(problem, found).min())]
    swept = price_sweep.schedules(GRAPH, problem.platform, number, moves=moves, seed=3)
    first = candidates_of.distinct(candidates_of.from_schedules(swept), candidates)
    assert found.placement[: len(first.placement)].tolist() == first.placement.tolist()
    if samples >= 2 * candidates:  # there are enough
        assert len(found.sequence) == candidates
    else:
        assert len(found.sequence) > len(first.sequence)


def test_a_sweep_of_one_sample_is_the_first_heuristics():
    problem = problem_of("price_sweep")
    (only,) = candidates_of.best_schedules(problem, sampled("price_sweep", 1, candidates=1), 9)
    assert only == problem.costed(heuristics.heft(GRAPH, problem.platform))


def test_a_sweep_with_rules_has_their_schedules_at_each_price():
    """As many at each price as evaluations are left by two heuristics."""
    problem = problem_of("dispatch")
    found = sampled("dispatch", 100, candidates=4)
    swept = price_sweep.schedules(
        GRAPH,
        problem.platform,
        4,
        makers=[*price_sweep.HEURISTICS, samplers.best_of_rules(18, Budget(100), chooses=False)],
    )
    first = candidates_of.distinct(candidates_of.from_schedules(swept), 4)
    assert found.placement.tolist() == first.placement.tolist()
    by_network = sampled("regal", 100, candidates=4)
    assert by_network.placement.tolist() != found.placement.tolist()
    longer = [sampled("dispatch", 2000, candidates=4, seed=seed) for seed in (3, 3, 4)]
    assert longer[0].sequence.tolist() == longer[1].sequence.tolist()
    assert longer[0].sequence.tolist() != longer[2].sequence.tolist()


def test_large_graphs_have_no_rules_at_each_price(monkeypatch):
    """Then their evaluations are local search's."""
    monkeypatch.setattr(samplers, "MOST_PAIRS", 1000)
    found, alone = (sampled(name, 200, candidates=4) for name in ("regal", "price_sweep"))
    assert found.placement.tolist() == alone.placement.tolist()
    assert found.sequence.tolist() == alone.sequence.tolist()


def test_critical_path_is_the_heuristics_schedule():
    problem = problem_of("critical_path")
    (only,) = candidates_of.best_schedules(problem, sampled("critical_path"), 9)
    schedule = heuristics.critical_path(GRAPH, problem.platform)
    assert only == problem.costed(schedule)


def test_decoded_chromosomes_are_the_problems_schedules():
    problem = problem_of("random_search")
    chromosomes = np.random.default_rng(0).random((20, problem.num_genes), np.float32)
    found = samplers.decoded(problem, chromosomes)
    for chromosome, place, order in zip(chromosomes, *found, strict=True):
        schedule = problem.decode(chromosome)
        assert place.tolist() == schedule.placement.tolist()
        assert order.tolist() == schedule.ops_in_order().tolist()
    costs = candidates_of.makespans(problem, found)
    assert costs.tolist() == problem.fitness(chromosomes).tolist()


def test_brkga_gives_the_last_population_of_the_search():
    problem, found = problem_of("brkga"), sampled("brkga")
    assert len(found.sequence) == 400  # 100 elites, and 300 that the budget has left
    key = jax.random.key(3)
    best = evolution.evolve(problem, Budget(1200, 3), key, config=samplers.POPULATION)
    times = np.sort(candidates_of.makespans(problem, found))
    assert np.isclose(times[0], best.cost)
    first = sampled("brkga", deadline=time.perf_counter() - 1.0)  # no time for a second one
    assert len(first.sequence) == 500
    earlier = np.sort(candidates_of.makespans(problem, first))
    assert np.all(times[:100] <= earlier[:100])  # elites stay
    assert times[:100].mean() < earlier[:100].mean()


@pytest.mark.parametrize(("name", "least"), [("brkga", 500), ("regal_paper", 900)])
def test_evaluations_must_do_for_a_population(name, least):
    assert len(sampled(name, evaluations=least).sequence) == 500
    with pytest.raises(OptionError, match=f"at least .*{least}"):
        sampled(name, evaluations=least - 1)


def test_regal_is_for_the_devices_of_its_policy():
    with pytest.raises(OptionError, match="is for 2 devices, not 4"):
        draw("regal_paper", problem_of("brkga"))


TIMES = st.sampled_from([0.0, 1e-30, 0.1, 0.3, 1 / 3, 7.0, 1e17])


@settings(max_examples=100)
@given(computation_graphs(), st.integers(1, 5), st.data())
def test_devices_are_units_of_one_machine_type(graph, num_devices, data):
    """List scheduling takes as long on either, to the last bit, whichever free device is taken."""
    durations = data.draw(st.lists(TIMES, min_size=graph.num_ops, max_size=graph.num_ops))
    graph = graph.replace(duration=np.array(durations))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    problem = PlacementProblem(graph, num_devices, "makespan")
    for generation in GENERATIONS:
        machine = samplers.on_one_type(problem, generation)
        chromosomes = rng.random((6, machine.num_genes), np.float32)
        expected = machine.makespans(chromosomes)
        for choice in (None, rng):
            start = machine.starts(chromosomes)
            found = candidates_of.from_starts(graph, start, num_devices, choice)
            times = candidates_of.makespans(problem, found)
            if generation == "parallel":
                assert times.tolist() == expected.tolist()
            assert np.all(times <= expected)  # others may hold an op back


def test_one_shot_samples_take_as_long_as_on_machines():
    path = pretrained.shipped_policy("machines", "one_shot")
    params, config, _ = load_policy(path, OneShotConfig)
    config = one_shot.forwards(config)
    problem = PlacementProblem(GRAPH, 3, "makespan")
    machine = samplers.on_one_type(problem)
    logits = one_shot.op_logits(params, config, machine.graph)
    expected = machine.makespans(one_shot.samples(logits, 3, 40))
    found = draw("one_shot", problem, policy=path)
    assert candidates_of.makespans(problem, found).tolist() == expected.tolist()


def test_machines_that_a_graph_has_do_not_matter():
    own = {"capacity": np.array([1, 2]), "machine_type": np.arange(OPS) % 2}
    graph = GRAPH.replace(**own, demand=np.ones(OPS, np.int64))
    found = draw("list_sampling", problem_of("list_sampling", graph))
    assert found.sequence.tolist() == sampled("list_sampling").sequence.tolist()


def test_without_noise_list_sampling_is_critical_path_scheduling():
    problem = PlacementProblem(GRAPH, 4, "makespan")
    cold = draw("list_sampling", problem, temperature=0.0)
    schedule = problem.costed(heuristics.critical_path(GRAPH, problem.platform))
    for found in candidates_of.best_schedules(problem, cold, 100):
        assert found.start.tolist() == schedule.start.tolist()
    assert len(np.unique(cold.placement, axis=0)) > 1


def test_more_noise_gives_other_orders():
    """Of ops without edges the longest come first, but for the noise."""
    loose = ComputationGraph.create(
        num_ops=OPS, producer=[], size=[], consumers=[], duration=GRAPH.duration
    )
    problem, moved = PlacementProblem(loose, 1, "makespan"), []
    place = np.argsort(np.argsort(-loose.duration))
    for temperature in (0.0, 0.01, 0.1, 1.0):
        found = draw("list_sampling", problem, temperature=temperature)
        moved.append(np.abs(place[found.sequence] - np.arange(OPS)).mean())
    assert moved[0] == 0.0
    assert moved == sorted(set(moved))
    own = draw("list_sampling", problem).sequence
    half = draw("list_sampling", problem, temperature=0.5).sequence
    assert own.tolist() == half.tolist()


@pytest.mark.parametrize("temperature", [-0.1, float("nan"), float("inf")])
def test_a_temperature_is_a_finite_number(temperature):
    with pytest.raises(OptionError, match="temperature must be a finite number >= 0"):
        sampled("list_sampling", temperature=temperature)


@pytest.mark.parametrize("name", ["list_sampling", "one_shot"])
def test_a_graph_without_ops_is_one_error(name):
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    with pytest.raises(GraphError, match="has no op to schedule"):
        draw(name, problem_of(name, empty))


def test_ops_that_take_no_time():
    problem = PlacementProblem(GRAPH.replace(duration=np.zeros(OPS)), 4, "makespan")
    found = draw("list_sampling", problem)
    assert candidates_of.makespans(problem, found).tolist() == [0.0] * 40
