"""The contracts over the registry; those of methods are in tests/methods."""

import dataclasses

import numpy as np
import pytest

import regal_jax as rj
from regal_jax import registry
from regal_jax.errors import OptionError
from regal_jax.options import Options
from tests import contracts
from tests.graphs.cases import single_input_graph

GRAPH = single_input_graph(seed=2, num_ops=9)
MACHINES = GRAPH.replace(
    capacity=np.array([2, 3]),
    machine_type=np.arange(9, dtype=np.int32) % 2,
    demand=1 + np.arange(9) % 2,
)


@pytest.mark.parametrize("name", registry.names("dataset"))
def test_data_sets(name):
    contracts.check_dataset(name)


@pytest.mark.parametrize(
    ("name", "graph", "options"),
    [
        ("placement", GRAPH, Options(num_devices=3)),
        ("placement", GRAPH, Options(objective="makespan", latency=1.5)),
        ("placement", GRAPH, Options(memory_capacity=10)),
        ("placement", MACHINES, Options()),
        ("rcpsp", MACHINES, Options(objective="makespan")),
        ("rcpsp", MACHINES, Options(objective="makespan", generation="serial")),
    ],
    ids=str,
)
def test_environments(name, graph, options):
    environment = registry.environment_for(graph, options)
    assert environment.name == name
    if options.memory_capacity is None:
        contracts.check_problem(environment.make(graph, options))


def test_every_environment_has_a_case():
    assert sorted(registry.names("environment")) == ["placement", "rcpsp"]


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_backends_of_machine_problems_agree(backend):
    contracts.check_problem(rj.MachineProblem(MACHINES, backend=backend))


def test_the_pure_jax_backend_has_parallel_generation_only():
    with pytest.raises(OptionError, match="backend 'jax' has parallel generation only, not serial"):
        rj.MachineProblem(MACHINES, generation="serial", backend="jax")


def test_a_name_belongs_to_one_function():
    register = registry.method("lpmf")
    with pytest.raises(OptionError, match="the name 'lpmf' of a method is taken by regal_jax"):
        register(lambda problem, budget: None)


def test_a_function_is_a_method():
    def mine(problem, budget):
        return rj.Result(problem.decode(np.zeros(problem.num_genes, np.float32)), 1, ((1, 99.0),))

    schedule = rj.optimize(GRAPH, method=mine, evaluations=7)
    assert (schedule.method, schedule.evaluations, schedule.history) == ("mine", 1, ((1, 99.0),))
    with pytest.raises(OptionError, match=r"method <lambda> must return a regal_jax\.Result, not"):
        rj.optimize(GRAPH, method=lambda problem, budget: None)


def test_an_option_that_is_none_is_named():
    with pytest.raises(TypeError, match="optimize has no option 'evaluation'; it has objective"):
        rj.optimize(GRAPH, evaluation=5)


@pytest.mark.parametrize(
    ("method", "graph"),
    [
        *(("cp_sat", graph) for graph in (GRAPH, MACHINES)),
        *((name, GRAPH) for name in ("metis_dfs", "mtkahypar_dfs", "brkga", "random_order")),
    ],
)
def test_the_largest_seed_is_one_for_every_library(method, graph):
    options = Options(objective="makespan", seed=2**63 - 1, time_limit=1.0, evaluations=200)
    if method == "random_order":
        options = dataclasses.replace(options, objective="peak_memory", num_devices=1)
    contracts.check_schedule(graph, rj.optimize(graph, options, method=method))


def test_cp_sat_without_time_left_is_its_start():
    schedule = rj.optimize(GRAPH, method="cp_sat", time_limit=1e-9)
    contracts.check_schedule(GRAPH, schedule)
