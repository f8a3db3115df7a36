"""Graphs and schedules the reporting tests share."""

import numpy as np
from hypothesis import strategies as st

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from tests.strategies import computation_graphs

SLOW_LINKS = Platform(2, latency=0.5, per_byte=0.25)


def hand_graph() -> ComputationGraph:
    """weight w (100 B, persistent) -> a -> x (40 B) -> b, c -> y, z (8 B each) -> d."""
    return ComputationGraph.create(
        num_ops=4,
        producer=[-1, 0, 1, 2],
        size=[100, 40, 8, 8],
        persistent=[True, False, False, False],
        consumers=[[0], [1, 2], [3], [3]],
        duration=[2.0, 3.0, 4.0, 1.0],
        workspace=[0, 5, 0, 0],
        op_names=("a", "b", "c", "d"),
        op_kinds=("dot", "add", "add", "cos$"),
        name="hand",
    )


def hand_schedule(objective: str = "peak_memory") -> Schedule:
    """c on device 1, the rest on 0: a, x to 1, b, c, z to 0, d. Peaks 153 and 48 bytes.

    Device 0: start 100; a 140; x leaves 140; b 153; c 108; z arrives 116; d 116.
    Device 1: x arrives 40; c 48; z leaves 8.
    """
    steps = [0, 4 + 1 * 2 + 1, 1, 2, 4 + 3 * 2 + 0, 3]
    return Schedule(
        graph="hand",
        objective=objective,
        num_devices=2,
        placement=np.array([0, 0, 1, 0], np.int32),
        steps=np.array(steps, np.int64),
        peak_memory=(153, 48),
        makespan=7.0,
    )


def one_device_schedule() -> Schedule:
    """The same graph in program order on one device: 156 bytes while c runs, 10 us."""
    return Schedule(
        graph="hand",
        objective="peak_memory",
        num_devices=1,
        placement=np.zeros(4, np.int32),
        steps=np.arange(4),
        peak_memory=(156,),
        makespan=10.0,
    )


def random_schedule(
    graph: ComputationGraph, seed: int, num_devices: int, objective: str = "peak_memory"
) -> Schedule:
    problem = PlacementProblem(graph, num_devices, objective, backend="native")
    return problem.decode(np.random.default_rng(seed).random(problem.num_genes, np.float32))


@st.composite
def scheduled_graphs(draw: st.DrawFn) -> tuple[ComputationGraph, Schedule, Platform]:
    graph = draw(computation_graphs(labelled=True))
    num_devices = draw(st.integers(1, 3))
    objective = draw(st.sampled_from(["peak_memory", "makespan"]))
    schedule = random_schedule(graph, draw(st.integers(0, 99)), num_devices, objective)
    latency, per_byte = draw(st.sampled_from([(0.0, 0.0), (1.5, 0.01)]))
    return graph, schedule, Platform(num_devices, latency=latency, per_byte=per_byte)
