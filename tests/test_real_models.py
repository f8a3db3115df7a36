"""``auto`` on real models: valid schedules, never above the best simple order."""

from pathlib import Path

import onnx
import pytest

import regal_jax as rj
from regal_jax.datasets import example_models
from regal_jax.methods.simple import best_simple_schedule
from tests.flax_train_steps import TRAIN_STEPS

ONNX_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
ONNX_MODELS = sorted(str(path.relative_to(ONNX_DATA)) for path in ONNX_DATA.rglob("*.onnx"))


def check_auto(graph: rj.ComputationGraph, evaluations: int) -> rj.Schedule:
    schedule = rj.optimize(graph, method="auto", evaluations=evaluations)
    cost = rj.evaluate(graph, schedule)
    assert tuple(cost.peak_memory) == schedule.peak_memory
    simple = best_simple_schedule(graph, "peak_memory", rj.Platform(2))
    assert schedule.cost <= simple.cost
    assert schedule.cost >= schedule.lower_bound
    return schedule


@pytest.mark.parametrize("name", ONNX_MODELS[::12])
def test_onnx_models_of_the_wheel(name):
    check_auto(rj.from_onnx(ONNX_DATA / name, dimensions={"*": 1}), evaluations=100)


@pytest.mark.parametrize("name", sorted(TRAIN_STEPS))
def test_flax_train_steps(name):
    step, arguments = TRAIN_STEPS[name]()
    check_auto(rj.from_jax(step, *arguments, name=name), evaluations=300)


def test_the_quick_start_saves_memory():
    graph = example_models.train_graph("mlp", microbatches=4)
    schedule = check_auto(graph, evaluations=1500)
    simple = best_simple_schedule(graph, "peak_memory", rj.Platform(2))
    assert schedule.cost < 0.99 * simple.cost
