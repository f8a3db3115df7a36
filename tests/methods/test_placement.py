"""Every method, by name: valid schedules, exact costs, budgets, seeds, and hard cases."""

import dataclasses

import jax
import numpy as np
import pytest

import regal_jax as rj
from regal_jax import registry
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError, RegalError
from regal_jax.graphs.batching import padded_shape
from regal_jax.methods import dispatching, portfolio
from regal_jax.options import Options
from regal_jax.policies.gflownet.policy import FlowConfig, flow_inputs, flow_policy
from regal_jax.policies.regal.dispatching import DispatchConfig
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.search.orders import rules
from regal_jax.search.placements import partitioning
from regal_jax.training.checkpoints import load_policy, save_policy
from tests import contracts
from tests.policies.cases import inputs_of, random_graph
from tests.policies.regal.test_dispatching import random_policy

GRAPH = random_graph(4, 7)
METHODS = {
    name: method
    for (problem, name), method in registry.entries("method").items()
    if problem == "placement"
}
RULES = ["depth_first", "breadth_first", "random_order", "lpmf", "xla_list", "xla_dfs"]
LIST_HEURISTICS = ["critical_path", "heft", "cpop", "etf", "hbmct"]
ORDERS = ["topoformer", "dp", "approximate_dp", "depth_first_dp", "random_orders"]
ORDERING = [*ORDERS, "next_op", "lookahead", "exact"]
"""Methods for the memory of one device; see ``test_methods_ordering`` for more."""
RECOMPUTE = ["recompute", "cp_sat_recompute"]
"""For one device within a memory capacity: ``test_recompute``."""
OTHERS = [name for name in METHODS if name not in RECOMPUTE]
SAMPLING = [
    *("list_sampling", "random_ties", "price_sweep", "one_shot"),
    *("gflownet", "ppo", "metropolis"),
]
"""Methods for the makespan that return the best of many samples; ``test_robust`` has more."""
FIXED = dict.fromkeys(RULES, 2) | dict.fromkeys(
    [*LIST_HEURISTICS, *ORDERS, "partition_dfs", "metis_dfs", "mtkahypar_dfs"], 1
)
"""Evaluations of methods that don't search."""
FLOW = FlowConfig(network="encode_once", layers=1, size=8, heads=1, head_size=4, head_width=4)
REGAL = RegalConfig(size=4, rounds=2, feature_evaluations=100)
EVALUATIONS = 290
SETTINGS = [("peak_memory", 1), ("peak_memory", 2), ("makespan", 3)]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """Policy files by number of devices: random parameters, for both objectives."""
    return {devices: policy_file(tmp_path_factory, REGAL, devices) for devices in (1, 2, 3)}


@pytest.fixture(scope="module")
def sequence_policy(tmp_path_factory):
    """The same for GAS."""
    gas = dataclasses.replace(REGAL, encoder="sequence")
    return {devices: policy_file(tmp_path_factory, gas, devices) for devices in (1, 2, 3)}


@pytest.fixture(scope="module")
def flow_policies(tmp_path_factory):
    """Files of new policies over the construction of schedules, by system."""
    folder = tmp_path_factory.mktemp("flow")
    inputs = flow_inputs(GRAPH, Platform(2), FLOW)
    params = flow_policy(FLOW).init(jax.random.key(0), inputs, 2)
    for system in ("gflownet", "ppo"):
        save_policy(folder / system, params, FLOW, about={"system": system})
    return folder


@pytest.fixture(scope="module")
def dispatch_policy(tmp_path_factory):
    """A file of random parameters, for any number of devices and both objectives."""
    config = DispatchConfig(size=4)
    path = tmp_path_factory.mktemp("dispatch") / "a.policy"
    save_policy(path, random_policy(config), config, about={})
    return path


@pytest.fixture
def options_of(policy, sequence_policy, flow_policies, dispatch_policy):
    """(method, devices) -> the options that the method can't do without."""

    def options(method, num_devices=2):
        if method in ("regal_paper", "idrs"):
            return {"policy": policy[num_devices]}
        if method in ("regal", "dispatch"):
            return {"policy": dispatch_policy}
        if method in ("gflownet", "ppo"):
            return {"policy": flow_policies / method}
        return {"policy": sequence_policy[num_devices]} if method == "gas" else {}

    return options


def policy_file(tmp_path_factory, config, num_devices):
    config = dataclasses.replace(config, num_devices=num_devices)
    path = tmp_path_factory.mktemp("policy") / "a.policy"
    inputs = inputs_of(GRAPH, padded_shape([GRAPH]))
    inputs = inputs.replace(nodes=np.zeros((8, 5 + num_devices), np.float32))
    shapes = jax.eval_shape(config.policy.init, jax.random.key(0), inputs)
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda s, rng=rng: rng.normal(size=s.shape).astype(s.dtype), shapes)
    save_policy(path, params, config, about={})
    return path


def optimize(graph=GRAPH, **options):
    return rj.optimize(graph, **{"evaluations": EVALUATIONS, **options})


@pytest.mark.parametrize(("objective", "num_devices"), SETTINGS)
@pytest.mark.parametrize("method", OTHERS)
def test_schedules_are_valid_and_their_costs_exact(method, objective, num_devices, options_of):
    if method in [*LIST_HEURISTICS, *SAMPLING] and objective != "makespan":
        with pytest.raises(OptionError, match=f"{method} is for the objective makespan"):
            optimize(method=method, objective=objective, num_devices=num_devices)
        return
    if method in ORDERING and (objective, num_devices) != ("peak_memory", 1):
        with pytest.raises(OptionError, match=f"{method} orders the ops of one device"):
            optimize(method=method, objective=objective, num_devices=num_devices)
        return
    options = options_of(method, num_devices)
    problem = {"objective": objective, "num_devices": num_devices}
    schedule, reports = contracts.check_method(
        GRAPH, method, EVALUATIONS, seed=3, **problem, **options
    )
    assert schedule.cost == (
        schedule.makespan if objective == "makespan" else max(schedule.peak_memory)
    )
    assert (schedule.method, schedule.objective, schedule.seed) == (method, objective, 3)
    check_spent(schedule, reports)


def check_spent(schedule, reports):
    if schedule.method == "cp_sat":
        assert schedule.evaluations <= 61
    elif schedule.method == "dp":
        assert schedule.evaluations <= 16
    elif schedule.method in FIXED:
        assert schedule.evaluations == FIXED[schedule.method]
    elif schedule.method in ("auto", "portfolio", "exact"):  # they end at the lower bound
        assert schedule.evaluations <= EVALUATIONS
        at_bound = schedule.cost <= schedule.lower_bound
        assert at_bound or schedule.evaluations > EVALUATIONS - 100
    else:
        assert schedule.evaluations == EVALUATIONS
    if schedule.method not in FIXED:
        assert reports[-1] == (schedule.evaluations, schedule.cost)
        assert set(reports) <= set(schedule.history)


def test_a_policy_for_other_devices_does_not_fit(policy):
    with pytest.raises(OptionError, match="is for 3 devices, not 2"):
        optimize(method="regal_paper", policy=policy[3])
    readers = "regal, dispatch, topoformer, next_op, regal_paper, gas, idrs, .*ppo, sequencing do"
    with pytest.raises(OptionError, match=f"auto reads no policy; {readers}"):
        optimize(method="auto", policy=policy[2])


def test_a_policy_for_another_objective_does_not_fit(policy, tmp_path):
    params, config, _ = load_policy(policy[2], RegalConfig)
    save_policy(tmp_path / "p.policy", params, config, about={"objective": "makespan"})
    with pytest.raises(OptionError, match="for the objective makespan"):
        optimize(method="regal_paper", policy=tmp_path / "p.policy")


def test_a_missing_policy_is_an_error(tmp_path):
    for method in [name for name, method in METHODS.items() if method.reads_policy]:
        options = {"objective": "makespan" if method in SAMPLING else "peak_memory"}
        with pytest.raises(RegalError, match="no such file"):
            optimize(method=method, num_devices=1, policy=tmp_path / "none.policy", **options)


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
@pytest.mark.parametrize("seed", range(3))
def test_auto_is_never_worse_than_a_simple_schedule(objective, seed):
    """Sizes that float32 rounds; latency, so that placements matter."""
    graph = random_graph(seed, 12)
    graph = graph.replace(size=graph.size * 1_000_003)
    best = optimize(
        graph, objective=objective, method="auto", seed=seed, latency=2.0, evaluations=300
    )
    problem = rj.PlacementProblem(graph, 2, objective, latency=2.0)
    assert np.all(np.diff([cost for _, cost in best.history]) <= 0)
    for name, rule in rules.ORDERS.items():
        order = rule(graph, seed)
        weight = rules.op_weights(graph, objective)
        placements = [
            rules.single_device(graph),
            rules.greedily_balanced(graph, order, weight, 2),
            rules.whole_components(graph, weight.astype(float), 2),
            rules.contiguous(order, weight, [0.5]),
            partitioning.kernighan_lin(graph, weight.astype(float), 2),
        ]
        for place in placements:
            simple = rules.build_schedule(graph, order, place, objective=objective, num_devices=2)
            assert best.cost <= problem.costed(simple).cost, name
    for name in [*RULES[:4], *(("etf", "heft") if objective == "makespan" else ())]:
        rule_schedule = optimize(graph, objective=objective, method=name, seed=seed, latency=2.0)
        assert best.cost <= rule_schedule.cost


@pytest.mark.parametrize(("method", "least"), [("brkga", 100), ("regal_paper", 200)])
def test_a_budget_below_the_least(method, least, policy):
    options = {"policy": policy[2]} if method == "regal_paper" else {}
    assert optimize(method=method, evaluations=least, **options).evaluations == least
    for evaluations in (least - 1, 0, -5):
        with pytest.raises(OptionError, match=f"at least .*{least}"):
            optimize(method=method, evaluations=evaluations, **options)


@pytest.mark.parametrize("method", ["auto", "random_search"])
def test_any_positive_budget_will_do(method):
    for evaluations in (1, 10):
        schedule = optimize(method=method, evaluations=evaluations)
        assert schedule.evaluations <= evaluations
        rj.evaluate(GRAPH, schedule)
    with pytest.raises(OptionError, match="evaluations must be at least 1"):
        optimize(method=method, evaluations=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_devices": 0}, "num_devices must be in"),
        ({"num_devices": 5000}, "num_devices must be in"),
        ({"method": "simulated_annealing"}, "is unknown; choose from auto"),
        ({"method": "l2d"}, "is not in this version; choose from auto"),
        ({"objective": "energy"}, "objective must be peak_memory or makespan"),
        ({"seed": -1}, "seed must be an integer in 0"),
        ({"evaluations": 1.5}, "evaluations must be an integer, got 1.5"),
        ({"seed": 0.5}, "seed must be an integer in 0"),
        ({"memory_capacity": 0}, "memory_capacity must be positive"),
        ({"memory_capacity": (5, 5, 5)}, "one number or 2"),
        ({"latency": -1.0}, "latency must be a finite number"),
        ({"per_byte": float("nan")}, "per_byte must be a finite number"),
    ],
    ids=str,
)
def test_options_out_of_range_are_one_line(options, message):
    with pytest.raises(OptionError, match=message) as caught:
        optimize(**{"method": "random_search", "evaluations": 1, **options})
    assert "\n" not in str(caught.value)


def test_every_name_of_the_design_is_known_or_says_later():
    for name in registry.LATER:
        assert name not in METHODS
        with pytest.raises(OptionError, match="not in this version"):
            registry.find_method(name, "placement")


@pytest.mark.parametrize("method", ["auto", "random_search", "lpmf"])
def test_a_capacity_nothing_fits_gives_the_least_excess(method):
    """12 bytes on each device are not enough for an op of 16; the other may stay within."""
    graph = rj.ComputationGraph.create(num_ops=2, producer=[0, 1], size=[16, 8], consumers=[[], []])
    schedule = optimize(graph, method=method, memory_capacity=12)
    assert max(schedule.peak_memory) == 16
    with pytest.raises(RegalError, match="capacity"):
        rj.evaluate(graph, schedule, memory_capacity=12)
    assert not rj.PlacementProblem(graph, 2, memory_capacity=12).fits(schedule)


def test_a_capacity_is_kept_at_the_expense_of_the_makespan():
    """Two ops in parallel take 1 us but 10 bytes each, of which device 1 has but 5."""
    graph = rj.ComputationGraph.create(
        num_ops=2, producer=[0, 1], size=[10, 10], consumers=[[], []]
    )
    options = {"objective": "makespan", "method": "random_search"}
    assert optimize(graph, **options).makespan == 1
    limited = optimize(graph, memory_capacity=(100, 5), **options)
    assert limited.makespan == 2
    assert limited.placement.tolist() == [0, 0]
    assert rj.evaluate(graph, limited, memory_capacity=(100, 5)).makespan == 2


EMPTY = rj.ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
DEGENERATE = {
    "no ops": (EMPTY, 0, 0.0),
    "one op": (
        rj.ComputationGraph.create(
            num_ops=1, producer=[-1, 0], size=[5, 3], consumers=[[0], []], workspace=[2]
        ),
        10,
        1.0,
    ),
    "no tensors": (
        rj.ComputationGraph.create(
            num_ops=4, producer=[], size=[], consumers=[], duration=[1, 2, 3, 4]
        ),
        0,
        5.0,
    ),
    "a tensor nobody reads, and no op": (
        rj.ComputationGraph.create(num_ops=0, producer=[-1], size=[7], consumers=[[]]),
        0,
        0.0,
    ),
}


@pytest.mark.parametrize(
    "method", [name for name in METHODS if name not in [*ORDERING, *RECOMPUTE]]
)
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_graphs(name, method, options_of):
    graph, peak, makespan = DEGENERATE[name]
    options = options_of(method)
    schedule = optimize(graph, method=method, objective="makespan", **options)
    cost = rj.evaluate(graph, schedule)
    assert max(schedule.peak_memory) == max(cost.peak_memory) == peak
    if method not in FIXED:  # these are optimal; a rule balances in its order
        assert schedule.cost == makespan


@pytest.mark.parametrize("method", ORDERING)
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_graphs_on_one_device(name, method):
    graph, peak, _ = DEGENERATE[name]
    schedule = optimize(graph, method=method, num_devices=1)
    assert schedule.cost == max(rj.evaluate(graph, schedule).peak_memory) == peak


def test_traced_costs_of_a_graph_without_tensors_depend_on_the_chromosome():
    graph = DEGENERATE["no tensors"][0]
    for backend in ("native", "jax"):
        problem = rj.PlacementProblem(graph, 2, "makespan", backend=backend)
        genes = np.random.default_rng(0).random((16, problem.num_genes), np.float32)
        expected = [problem.decode(chromosome).makespan for chromosome in genes]
        assert len(set(expected)) > 1
        assert np.asarray(jax.jit(problem.fitness)(genes)).tolist() == expected


def test_a_method_without_a_budget_has_its_own():
    assert optimize(method="random_search", evaluations=None).evaluations == 5000
    chain = rj.ComputationGraph.create(
        num_ops=3, producer=[0, 1, 2], size=[8, 4, 2], consumers=[[1], [2], []]
    )
    found = optimize(chain, method="auto", evaluations=None)
    assert found.cost == found.lower_bound  # and ends there
    assert found.evaluations < 5000
    assert METHODS["auto"].evaluations(100, Options()) == 1_000_000
    assert METHODS["portfolio"].evaluations(10_000, Options()) == 100_000
    assert METHODS["portfolio"].evaluations(100, Options(time_limit=1.0)) == 10**9


@pytest.mark.parametrize("method", ["brkga", "random_search", "portfolio", "local_search"])
def test_a_time_limit_ends_a_search_early(method):
    graph = random_graph(5, 60)
    limited = optimize(graph, method=method, evaluations=10**7, time_limit=0.2)
    assert 0 < limited.evaluations < 10**7
    assert limited.history[-1] == (limited.evaluations, limited.cost)
    rj.evaluate(graph, limited)
    with pytest.raises(OptionError, match="time_limit must be a positive number"):
        optimize(graph, method=method, time_limit=0.0)


def test_the_portfolio_goes_on_from_the_best_of_all(monkeypatch):
    """Arms are told what was found before; one that can't do anything is given up."""
    calls = []

    def useless(problem, budget, found):
        calls.append(("useless", found.evaluations))
        return found

    def spends(problem, budget, found):
        calls.append(("spends", found.evaluations))
        assert found.evaluations < budget.evaluations <= 2000
        point = (budget.evaluations, found.cost)
        return found._replace(evaluations=budget.evaluations, history=(*found.history, point))

    monkeypatch.setattr(portfolio, "LOCAL_SEARCH", portfolio.Arm(useless))
    monkeypatch.setattr(portfolio, "BLOCK_MOVES", portfolio.Arm(spends, most=1000))
    found = optimize(random_graph(5, 60), method="portfolio", evaluations=2000)
    names = [name for name, _ in calls]
    assert names == ["useless", "spends", "spends"]  # 500 evaluations a turn, 1000 at most
    assert found.evaluations == calls[1][1] + 1000


@pytest.mark.parametrize("asked", [None, 60_000])
def test_auto_stops_by_itself_unless_evaluations_are_asked_for(monkeypatch, asked):
    """The first turns gain, those after GAINS don't; both arms cost nothing here."""
    gains = 30_000
    start = []

    def spends(problem, budget, found):
        start.append(found.cost)
        cost = found.cost if found.evaluations > gains else found.cost - 1
        point = (budget.evaluations, max(cost, start[0] - 50))
        return found._replace(evaluations=budget.evaluations, history=(*found.history, point))

    monkeypatch.setattr(portfolio, "LOCAL_SEARCH", portfolio.Arm(spends))
    monkeypatch.setattr(portfolio, "BLOCK_MOVES", portfolio.Arm(spends))
    monkeypatch.setattr(portfolio, "_exactly_better", lambda problem, start, found: found)
    monkeypatch.setattr(portfolio, "SURE_WORK", 0)
    problem = rj.PlacementProblem(random_graph(5, 60), 3)
    budget = rj.Budget(asked or 1_000_000, options=rj.Options(evaluations=asked))
    found = portfolio.run_portfolio(problem, budget)
    assert found.cost > found.lower_bound
    if asked:
        assert found.evaluations == asked
    else:
        assert max(2 * gains, portfolio.SURE) <= found.evaluations < 100_000


@pytest.mark.parametrize("objective", ["peak_memory", "makespan"])
def test_a_single_evaluation_of_the_portfolio_is_the_networks_first_rule(objective):
    for seed in range(3):
        options = {"num_devices": 2, "evaluations": 1, "objective": objective, "latency": 2.0}
        graph = random_graph(seed, 40)
        one = optimize(graph, method="portfolio", **options)
        assert one.evaluations == 1
        assert one.cost == optimize(graph, method="regal", **options).cost


def test_the_portfolio_tries_rules_where_these_take_no_time(monkeypatch):
    counts = []
    search_by = dispatching.search_by

    def counted(path, **how):
        search = search_by(path, **how)

        def count_and_search(problem, budget, count):
            counts.append(count)
            return search(problem, budget, count)

        return count_and_search

    monkeypatch.setattr(dispatching, "search_by", counted)
    graph = random_graph(5, 60)
    found = optimize(graph, method="portfolio", evaluations=2000)
    assert 200 < counts[0] <= 400  # a fifth of what the cheap schedules leave
    assert found.evaluations <= 2000
    assert optimize(graph, method="portfolio", evaluations=60).evaluations == 60
    optimize(graph, method="portfolio", evaluations=2)
    one = optimize(graph, method="portfolio", evaluations=1)
    assert one.cost == optimize(graph, method="regal", evaluations=1).cost
    assert counts[1:] == [30, 1, 1, 1]  # half of a small budget, all of one; regal's
    optimize(graph, method="portfolio", evaluations=2000, num_devices=1)
    monkeypatch.setattr(portfolio, "MOST_PAIRS", 1000)
    optimize(graph, method="portfolio", evaluations=2000)
    assert len(counts) == 5


@pytest.mark.parametrize(("objective", "num_devices"), SETTINGS[1:])
def test_cp_sat_proves_what_no_search_undercuts(objective, num_devices):
    proven = optimize(method="cp_sat", objective=objective, num_devices=num_devices)
    assert proven.lower_bound == proven.cost
    for method in ("random_search", "auto"):
        other = optimize(method=method, objective=objective, num_devices=num_devices)
        assert other.cost >= proven.cost
