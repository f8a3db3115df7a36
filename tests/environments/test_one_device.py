"""What one device holds as ops run, against the definition."""

import numpy as np
from hypothesis import given

from regal_jax.environments.one_device import one_device
from tests.strategies import computation_graphs


def in_use(graph, done):
    """Bytes after a set of ops: what exists, and is still read, or stays for good."""
    total = 0
    for tensor in range(graph.num_tensors):
        readers = set(graph.consumers.row(tensor).tolist())
        producer = graph.producer[tensor]
        exists = producer in done if producer >= 0 else readers
        total += int(graph.size[tensor]) * bool(
            exists and (readers - done or graph.persistent[tensor])
        )
    return total


@given(computation_graphs())
def test_bytes_in_use_follow_from_growth_and_shared_tensors(graph):
    own = one_device(graph)
    left = own.readers.lengths().copy()
    done, use = set(), own.start
    assert use == in_use(graph, done)
    for op in graph.topological_order.tolist():
        done.add(op)
        use += own.growth[op]
        for tensor in own.reads.row(op):
            left[tensor] -= 1
            use -= own.size[tensor] * (left[tensor] == 0)
        assert use == in_use(graph, done)
        assert own.during[op] == graph.size[graph.outputs.row(op)].sum() + graph.workspace[op]
    assert np.all(left == 0)
