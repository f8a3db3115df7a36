"""Policy files whose parameters don't fit their network: one line that names the file."""

import jax
import numpy as np
import pytest
from flax.serialization import msgpack_restore, msgpack_serialize

import regal_jax as rj
from regal_jax.datasets.job_shop import uniform_job_shops
from regal_jax.datasets.layered import layered_graph
from regal_jax.errors import ParameterError
from regal_jax.methods.pretrained import shipped_policy

LAYERED, JOBS = layered_graph(0, 30), uniform_job_shops(4, 3, count=1)[0]
MEMORY, MAKESPAN = {"num_devices": 1}, {"objective": "makespan"}
READERS = {
    "next_op": (LAYERED, ("peak_memory", "next_op"), MEMORY),
    "topoformer": (LAYERED, ("peak_memory", "topoformer"), MEMORY),
    "regal_paper": (LAYERED, ("peak_memory", "regal"), {"num_devices": 2, "evaluations": 500}),
    "regal": (LAYERED, ("rules",), {"num_devices": 2}),
    "gflownet": (LAYERED, ("makespan", "gflownet"), MAKESPAN | {"num_devices": 2}),
    "one_shot": (JOBS, ("job_shop", "one_shot"), MAKESPAN),
    "sequencing": (JOBS, ("job_shop", "sequencing"), MAKESPAN),
}
"""By method: a graph, the shipped policy, and options."""


def changed(path, change, folder):
    """The file of a policy with other parameters."""
    content = msgpack_restore(path.read_bytes())
    file = folder / "other.policy"
    file.write_bytes(msgpack_serialize(content | {"params": change(content["params"])}))
    return file


def without_its_first(params):
    return {name: params[name] for name in sorted(params)[1:]}


def of_other_shapes(params):
    return jax.tree.map(lambda leaf: np.concatenate([np.atleast_1d(leaf)] * 2, axis=-1), params)


@pytest.mark.parametrize("change", [without_its_first, of_other_shapes])
@pytest.mark.parametrize("method", READERS)
def test_parameters_of_another_network_are_told_by_file(method, change, tmp_path):
    graph, shipped, options = READERS[method]
    file = changed(shipped_policy(*shipped), change, tmp_path)
    expected = r"other\.policy: the policy's parameters aren't of this version's network"
    with pytest.raises(ParameterError, match=expected):
        rj.optimize(graph, method=method, policy=str(file), **options)
