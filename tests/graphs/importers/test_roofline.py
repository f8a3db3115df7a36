import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.roofline import A100, DeviceProfile, durations_us, with_profile

TOY = DeviceProfile("toy", flops_per_second=1e6, bytes_per_second=2e6)


def test_the_slower_of_arithmetic_and_memory_decides():
    durations = durations_us(np.array([3, 1, 0]), np.array([4, 4, 0]), TOY)
    np.testing.assert_allclose(durations, [3, 2, 0])


def test_default_profile_is_an_a100():
    assert (A100.flops_per_second, A100.bytes_per_second) == (19.5e12, 1555e9)
    assert durations_us(np.array([19.5e6]), np.array([0])) == pytest.approx(1.0)


def test_a_graph_on_another_device():
    graph = ComputationGraph.create(
        num_ops=1, producer=[0], size=[8], consumers=[[]], flops=[3.0], bytes_accessed=[4]
    )
    timed = with_profile(graph, TOY)
    np.testing.assert_allclose(timed.duration, [3.0])
    assert timed.extra[""]["device_profile"] == "toy"


def test_unknown_work_is_an_error():
    graph = ComputationGraph.create(num_ops=1, producer=[0], size=[8], consumers=[[]])
    with pytest.raises(OptionError, match="FLOPs and bytes"):
        with_profile(graph, TOY)
