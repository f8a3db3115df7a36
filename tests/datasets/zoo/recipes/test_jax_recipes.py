"""The zoo's sources in JAX: graphs are valid, the same every time, and labelled consistently."""

import importlib
from collections import Counter

import jax
import numpy as np
import pytest

from regal_jax.datasets.zoo.load import model_zoo
from regal_jax.datasets.zoo.recipes import (
    flax_models,
    jax_programs,
    jax_steps,
    onnx_files,
    recipe,
    xla_modules,
)
from regal_jax.graphs.topology_hash import topology_hash

SOURCES = {"flax": flax_models.SOURCE, "jax": jax_programs.SOURCE, "xla": xla_modules.SOURCE}
RECIPES = {r.name: (source, r) for source in SOURCES.values() for r in source.recipes()}

SMALL = (
    *(("flax/mlp_1", mode) for mode in jax_steps.ADAM),
    *(("flax/s4_1", mode) for mode in jax_steps.CHECKPOINTED),
    *(("flax/squeezenet_1", mode) for mode in jax_steps.TRAINING),
    *(("jax/qr_tiles_2", mode) for mode in ("inference",)),
    *(("jax/pinn_poisson_1", mode) for mode in jax_steps.TRAINING),
)


def build(name, mode):
    source, found = RECIPES[name]
    return recipe.build(source, found, mode)


def roles(graph):
    return np.array(graph.extra["tensors"]["role"])


def test_names_are_unique_and_families_are_of_the_package():
    every = [r for source in SOURCES.values() for r in source.recipes()]
    assert len(every) == len(RECIPES)
    for found in every:
        package = found.name.split("/")[0]
        assert found.family.startswith(f"{package}/")
        assert set(found.modes) <= set(recipe.MODES)


def test_there_are_many_families():
    families = {name: {r.family for r in source.recipes()} for name, source in SOURCES.items()}
    assert len(families["flax"]) >= 25
    assert len(families["jax"]) >= 15


@pytest.mark.parametrize("package", ["flax", "jax"])
def test_every_shipped_graph_has_a_recipe(package):
    made = {f"{r.name}:{mode}" for r in SOURCES[package].recipes() for mode in r.modes}
    shipped = [graph.name for graph in model_zoo() if graph.name.startswith(f"{package}/")]
    assert len(shipped) > 200
    assert made >= set(shipped)


def test_recipes_come_in_the_same_order():
    first, second = ([r.name for r in flax_models.SOURCE.recipes()] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("name", "mode"), SMALL)
def test_program_order_is_topological_and_a_second_build_is_identical(name, mode):
    graph, again = build(name, mode), build(name, mode)
    rows, readers = graph.consumers.row_of_value(), graph.consumers.values
    assert (graph.producer[rows] < readers).all()
    assert graph.name == f"{name}:{mode}"
    assert graph.op_kinds == again.op_kinds
    assert np.array_equal(graph.producer, again.producer)
    assert np.array_equal(graph.consumers.values, again.consumers.values)
    assert np.array_equal(graph.size, again.size)
    assert graph.extra == again.extra


def test_modes_differ():
    graphs = [build("flax/s4_1", mode) for mode in jax_steps.CHECKPOINTED]
    assert len({topology_hash(graph) for graph in graphs}) == 4


@pytest.mark.parametrize("name", ["flax/mlp_1", "flax/squeezenet_1", "flax/s4_1"])
def test_every_parameter_has_a_gradient_of_its_size(name):
    graph = build(name, "training")
    sizes = {
        role: Counter(graph.size[roles(graph) == role].tolist())
        for role in ("parameter", "gradient")
    }
    assert sizes["parameter"] == sizes["gradient"]
    assert graph.persistent[roles(graph) == "gradient"].all()
    assert (graph.producer[roles(graph) == "parameter"] == -1).all()


def test_phases_follow_one_another():
    graph = build("flax/mlp_1", "training_adam")
    phases = np.array(graph.extra["ops"]["phase"])
    assert set(phases) == {"forward", "backward", "update"}
    last_forward = np.flatnonzero(phases == "forward").max()
    assert last_forward < np.flatnonzero(phases == "backward").min()
    makers = graph.producer[roles(graph) == "gradient"]
    assert set(phases[makers]) == {"backward"}
    inference = build("flax/mlp_1", "inference")
    assert set(inference.extra["ops"]["phase"]) == {"forward"}


def test_adam_frees_old_parameters_and_keeps_new_ones():
    graph = build("flax/mlp_1", "training_adam")
    assert not graph.persistent[roles(graph) == "parameter"].any()
    assert not graph.persistent[roles(graph) == "gradient"].any()
    outputs = roles(graph) == "output"
    assert graph.persistent[outputs].all()
    parameters, state = (int((roles(graph) == role).sum()) for role in ("parameter", "state"))
    assert state == 2 * parameters + 1
    assert outputs.sum() == 1 + parameters + state


def test_checkpointing_computes_more_and_keeps_less():
    kept = build("flax/s4_1", "training")
    again = build("flax/s4_1", "training_checkpointed")
    assert again.flops.sum() > kept.flops.sum()


def test_the_loss_sums_the_means_of_floating_point_leaves():
    leaves = [jax.numpy.full((2, 3), 4.0), jax.numpy.arange(3), jax.numpy.float32(1.5)]
    assert float(jax_steps.mean_loss(leaves)) == pytest.approx(5.5)


def test_a_compiled_program_is_smaller_than_its_source():
    assert 1 < build("xla/mlp_1", "inference").num_ops < build("flax/mlp_1", "inference").num_ops


def test_onnx_names_are_unique():
    pytest.importorskip("onnx")
    names = [r.name for r in onnx_files.SOURCE.recipes()]
    assert len(names) == len(set(names)) >= 9


@pytest.mark.parametrize(
    ("package", "module", "name"),
    [("haiku", "haiku_models", "haiku/mlp_1"), ("keras", "keras_models", "keras/MobileNet")],
)
def test_other_packages(package, module, name, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    pytest.importorskip(package)
    source = importlib.import_module(f"regal_jax.datasets.zoo.recipes.{module}").SOURCE
    found = next(r for r in source.recipes() if r.name == name)
    graph = recipe.build(source, found, "training")
    sizes = {role: graph.size[roles(graph) == role].sum() for role in ("parameter", "gradient")}
    assert sizes["parameter"] == sizes["gradient"] > 0
